"""Preference data: pairs of answers to one prompt, as the common public sets have them, and answers marked safe or not.

    {"prompt": "Write to Mia.", "chosen": "Dear Mia, ...", "rejected": "Hello.", "kind": "helpful"}
    {"prompt": "Help me steal.", "response": "I will not.", "is_safe": true}

`chosen` and `rejected` may be lists of messages (`[{"role": ..., "content": ...}]`), of which the last one counts and
the first one is the prompt where there is none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tasks import sources
from tasks.core import DataError
from tasks.procedural.notes import KINDS, Kind
from tasks.sources import Row, text_field


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two answers to one prompt, of which the first is preferred."""

    prompt: str
    chosen: str
    rejected: str
    kind: Kind = "helpful"


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """One answer, and whether it is safe."""

    prompt: str
    answer: str
    safe: bool


def read_pair(row: Row, place: str) -> Pair:
    """One pair in the official format.

    Raises:
        DataError: naming `place`: a missing field, equal texts, or an unknown kind of prompt.
    """
    chosen, asked = _answer(row, place, "chosen")
    rejected, _ = _answer(row, place, "rejected")
    prompt = text_field(row, place, "prompt") if "prompt" in row or asked is None else asked
    kind = row.get("kind", "helpful")
    if kind not in KINDS:
        raise DataError(f"{place}: kind {kind!r} is unknown; there are {', '.join(KINDS)}")
    if chosen.strip() == rejected.strip():
        raise DataError(f"{place}: 'chosen' and 'rejected' are equal: there is nothing to prefer")
    return Pair(prompt=prompt, chosen=chosen, rejected=rejected, kind=kind)


def _answer(row: Row, place: str, name: str) -> tuple[str, str | None]:
    """A field's text, and the prompt that stands before it where it is a conversation."""
    value = row.get(name)
    if not isinstance(value, list):
        return text_field(row, place, name), None
    messages = cast("list[Any]", value)
    texts = [message.get("content") if isinstance(message, dict) else None for message in messages]  # pyright: ignore
    if not texts or not all(isinstance(text, str) for text in texts):
        raise DataError(f"{place}: field '{name}' must be text, or messages with 'role' and 'content'")
    return str(texts[-1]), str(texts[0]) if len(texts) > 1 else None


def read_labelled(row: Row, place: str) -> Labelled:
    """One answer with its label.

    Raises:
        DataError: naming `place`.
    """
    safe = row.get("is_safe", row.get("safe"))
    if not isinstance(safe, bool):
        raise DataError(f"{place}: no field 'is_safe' that is true or false; found {sorted(row)}")
    return Labelled(
        prompt=text_field(row, place, "prompt"), answer=text_field(row, place, "response", "answer"), safe=safe
    )


def pairs_at(path: Path) -> list[Pair]:
    """The pairs of a file, `.jsonl`, `.jsonl.gz` or `.json`; rows that only label an answer are none.

    Raises:
        DataError: a row that cannot be read, with its line.
    """
    return [read_pair(row, place) for row, place in _rows(path) if not _labels(row)]


def labelled_at(path: Path) -> list[Labelled]:
    """The labelled answers of a file; of a pair whose prompt is harmful, the chosen is safe and the rejected is not.

    Raises:
        DataError: a row that cannot be read, with its line.
    """
    found: list[Labelled] = []
    for row, place in _rows(path):
        found += [read_labelled(row, place)] if _labels(row) else labelled(read_pair(row, place))
    return found


def labelled(pair: Pair) -> list[Labelled]:
    """What a pair says of safety: nothing is unsafe that answers a harmless prompt."""
    return [
        Labelled(prompt=pair.prompt, answer=pair.chosen, safe=True),
        Labelled(prompt=pair.prompt, answer=pair.rejected, safe=pair.kind != "harmful"),
    ]


def _labels(row: Row) -> bool:
    return "chosen" not in row and ("is_safe" in row or "safe" in row)


def _rows(path: Path) -> Iterator[tuple[Row, str]]:
    found = sources.load_rows("path", name="preferences", split=path.stem, data=path, hub=("", None, ""))
    return zip(found.rows, found.places, strict=True)


def mean_words(texts: Sequence[str]) -> float:
    """Words a text: what a preference for length is measured by."""
    return sum(len(text.split()) for text in texts) / len(texts)
