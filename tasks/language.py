"""Language consistency: the share of a text's words that are of the language it should be in (arXiv:2501.12948, B.2).

A word is a run of letters. Where it stands in a lexicon, that decides: the procedural source has two vocabularies
(`bench/pipeline/families/base.py`), and both are listed, so there the share is exact. Any other word counts as of the
language where all of its letters are of the language's script: a mixture of scripts is seen, German in English is not.
"""

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

Language = Literal["en", "de", "zh"]
CALCULATIONS: Mapping[str, Mapping[str, str]] = {  # what a step of each kind is called
    "en": {"+": "makes", "-": "leaves", "*": "totals", "/": "shares"},
    "de": {"+": "macht", "-": "bleibt", "*": "ergibt", "/": "teilt"},
}
DOUBT: Mapping[str, str] = {"en": "wait", "de": "halt"}
LEXICON: Mapping[str, Language] = {
    **dict.fromkeys((*CALCULATIONS["en"].values(), DOUBT["en"]), "en"),
    **dict.fromkeys((*CALCULATIONS["de"].values(), DOUBT["de"]), "de"),
}
SCRIPTS: Mapping[Language, str] = {"en": "LATIN", "de": "LATIN", "zh": "CJK"}
_WORD = re.compile(r"[^\W\d_]+")
_COMMAND = re.compile(r"\\[A-Za-z]+")  # LaTeX's are of no language


def consistency(text: str, language: Language = "en") -> float | None:
    """Share of words in the language; None where there is no word.

    Args:
        text: any text; LaTeX commands and numbers are no words. Each letter of a script without spaces is one.
        language: that the text should be in.
    """
    words = [part for run in _WORD.findall(_COMMAND.sub(" ", text)) for part in _parts(run)]
    if not words:
        return None
    return sum(_belongs(word, language) for word in words) / len(words)


def _parts(run: str) -> list[str]:
    """A run of letters as words: letter by letter where it holds any of a script without spaces."""
    if run.isascii():
        return [run]
    return list(run) if any(_script(letter) == "CJK" for letter in run) else [run]


def _belongs(word: str, language: Language) -> bool:
    known = LEXICON.get(word.lower())
    if known is not None:
        return known == language
    return all(_script(letter) == SCRIPTS[language] for letter in word)


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    return unicodedata.name(letter, "").split(" ")[0]
