"""Puzzles of the library reasoning-gym (arXiv:2505.24760). Its judges are called in `puzzle_judge`.

An entry, which is also a row of its exports: {"question", "answer", "metadata": {"source_dataset", ...}}.
The library is imported late: it takes two seconds, and only these tasks need it.
"""

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, cast

from tasks import latex, workers
from tasks.core import DataError
from tasks.sources import Row, text_field

# Puzzles that are one setting of a generator: name -> (generator, settings).
SETTINGS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "siblings": ("aiw", {"task_type_weights": [1, 0, 0], "max_entities": 9}),
    "friends": ("aiw", {"task_type_weights": [0, 1, 0], "max_entities": 9}),
    "colleagues": ("aiw", {"task_type_weights": [0, 0, 1], "max_entities": 9}),
    "syllogisms": ("syllogism", {"invalid_ratio": 0.5}),
}
_PREMISES = re.compile(r"(All|No|Some) (\w+) are (not )?(\w+)")


def puzzle_entries(puzzles: Sequence[str], *, seed: int, settings: Mapping[str, Any]) -> Iterator[Row]:
    """Entries without end, the puzzles in turn, with worked steps in `solution`."""
    import reasoning_gym

    generators: list[Any] = []
    for puzzle in puzzles:
        name, own = SETTINGS.get(known_puzzles(puzzle), (puzzle, {}))
        try:
            generators.append(reasoning_gym.create_dataset(name, seed=seed, size=2**31, **own, **settings))
        except (TypeError, AssertionError, ValueError) as error:
            raise DataError(f"puzzle '{puzzle}' does not take these settings: {error}") from error
    for index in count():
        entry = plain_entry(generators[index % len(generators)][index // len(generators)])
        yield {**entry, "solution": _steps(entry)}


def known_puzzles(puzzle: str) -> str:
    """The name itself. Raises DataError, with the nearest name, where there is no such puzzle."""
    from reasoning_gym.factory import DATASETS

    if puzzle not in SETTINGS and puzzle not in DATASETS:
        near = difflib.get_close_matches(puzzle, [*SETTINGS, *DATASETS], n=1)
        raise DataError(f"no puzzle '{puzzle}'{f'; did you mean {near[0]}?' if near else ''}")
    return puzzle


def plain_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry as JSON has it, which is how rows are stored, hashed and judged."""
    return cast("dict[str, Any]", json.loads(json.dumps(entry, default=_plain)))


def grade_puzzle(entry: str, answer: str) -> workers.Verdict:
    if len(answer) > latex.MAX_LENGTH:
        return workers.Verdict(None, "too-large")
    return workers.call_worker("tasks.puzzle_judge:grade_answer", entry, answer)


def why_refused(entry: str) -> str | None:
    """Why the judge does not take the entry's own answer; entries with many answers hold none."""
    answer = json.loads(entry)["answer"]
    if answer is None:
        return None
    verdict = grade_puzzle(entry, str(answer))
    return None if verdict.value and verdict.value >= 1 else f"its judge refuses the gold ({verdict.error or 'wrong'})"


def parse_puzzle_setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError as error:
        wanted = "write name=value with the value in JSON" if not equals else "the value is not JSON"
        raise DataError(f"setting '{text}': {wanted}") from error


def from_knights_and_knaves(row: Row, place: str) -> Row:
    """A knights-and-knaves row as the library's entry of the same puzzle."""
    metadata = {"source_dataset": "knights_knaves"}
    return {
        "question": text_field(row, place, "quiz"),
        "answer": text_field(row, place, "solution_text"),
        "metadata": metadata,
    }


def _plain(value: Any) -> Any:  # noqa: ANN401 (numpy scalars, sets, dates and whatever else metadata holds)
    if hasattr(value, "item"):
        return value.item()
    return sorted(value) if isinstance(value, set | frozenset) else str(value)


def _steps(entry: Mapping[str, Any]) -> str:
    """How a small model may work it out: the sum of a family riddle, a syllogism in letters; else nothing."""
    if entry["metadata"]["source_dataset"] == "aiw":
        return f"{int(entry['answer']) - 1}+1={entry['answer']}."
    if entry["metadata"]["source_dataset"] != "syllogism":
        return ""
    letters: dict[str, str] = {}
    found = _PREMISES.findall(entry["question"])
    for _, left, _, right in found:
        letters.setdefault(left, "ABCDEF"[len(letters)])
        letters.setdefault(right, "ABCDEF"[len(letters)])
    return " ".join(f"{how} {letters[left]} {'not ' if no else ''}{letters[right]}." for how, left, no, right in found)
