r"""Answers in words and letters: which letter is chosen, and whether two texts say the same."""

import re

from tasks import numerals

TEXT = re.compile(r"\\text\{([^{}]*)\}")
_LETTER = re.compile(r"(?:\(([A-J])\)|([A-J]))[.:]?")
_REMARKED = re.compile(r"(?:\(([A-J])\)|([A-J])[.:])[.:]?\s+([^-+*/=^_(\[<>\s].*)")
_OTHER = re.compile(r"(?<![A-Za-z])(?:[B-J]|no)(?![A-Za-z])|(?<![A-Za-z])A\s?(?:$|[,;.:)])")
_TOKEN = re.compile(r"(?<![a-z])-?[0-9]+(?:[.,:][0-9]+)*|[0-9]+(?:[.,:][0-9]+)*|[a-z]+")


def same_choice(gold: str, answer: str) -> bool | None:
    r"""Whether two letters from A to J are one; None unless one is bare, and the other bare or followed by a remark.

    `C: 14` and `(C) 14` choose C; `A - B`, `A B` and `C \ln x` are expressions; `B: no, C` and `(B) C` choose nothing.
    """
    gold, answer = (TEXT.sub(r"\1", text).strip() for text in (gold, answer))
    if gold == answer or not (_LETTER.fullmatch(gold) or _LETTER.fullmatch(answer)):
        return None
    right, said = _chosen(gold), _chosen(answer)
    return right == said if right and said else None


def same_words(gold: str, answer: str) -> bool | None:
    """Whether two texts have the same words and numbers, whatever the case; None where one is mathematics."""
    right, said = plain_text(gold), plain_text(answer)
    return right == said if right and said and "\\text" in gold + answer else None


def bare_letter(text: str) -> bool:
    return _LETTER.fullmatch(TEXT.sub(r"\1", text).strip()) is not None


def plain_text(text: str) -> tuple[str, ...] | None:
    """Words and numbers of a text answer, signs and points kept; None where there is mathematics in it."""
    words = TEXT.sub(r"\1", text).translate(numerals.MINUS).casefold()
    words = re.sub(r"(?<=[a-z])\.", "", words)
    found = re.fullmatch(r"[a-z0-9 ,.:'-]*[a-z]{2}[a-z0-9 ,.:'-]*", words)
    return tuple(_TOKEN.findall(re.sub(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))", "", words))) if found else None


def _chosen(text: str) -> str | None:
    found = _LETTER.fullmatch(text) or _REMARKED.fullmatch(text)
    if found is None or (found.re is _REMARKED and (_OTHER.search(found[3]) or numerals.is_unsure(found[3]))):
        return None
    return found[1] or found[2]
