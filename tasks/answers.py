r"""Reading the final answer out of a completion. The policy, as a table: docs/verifier.md.

The answer part is what follows the last `</think>`: the whole text when there are no tags, nothing when the last
`<think>` is never closed. In it the last `\boxed{}` counts, else the number after the last marker (`####`, `A:`),
else the last number.
Every function here is total and linear in the length of the text.
"""

import re
from dataclasses import dataclass

from tasks import numerals
from tasks.core import RewardWeights, Score

OPEN, CLOSE = "<think>", "</think>"
_SPECIAL = re.compile(r"<\|[^|<>\s]{1,40}\|>|</s>")
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{|\\boxed\s+(?P<bare>[^\s$\\{}]+)")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_MARKER = re.compile(r"(?:####|^A:)([^\n]*)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a completion says, before it is judged."""

    text: str | None  # the answer as written; None: there is none
    rule: str | None  # what found it: "box", "marker", "last-number"
    think_ok: bool  # the think block: once, first, closed
    box_ok: bool  # a closed, non-empty box in the answer part


def read_answer(completion: str, *, think_opened: bool = False, markers: bool = True) -> Reading:
    """Find the final answer.

    Args:
        completion: any text.
        think_opened: the prompt already ends with `<think>` (some chat templates do that).
        markers: whether a line after `####` or `A:` is looked for where there is no box.
    """
    text = _SPECIAL.sub("", completion)
    part = answer_part(text)
    box = last_box(part)
    think_ok = think_block(text, opened=think_opened)
    if box is not None:
        return Reading(text=box or None, rule="box", think_ok=think_ok, box_ok=bool(box))
    marked, rule = _marked(part) if markers else None, "marker"
    if marked is None:
        last, rule = numerals.last_number(part), "last-number"
        marked = None if last is None else str(last)
    return Reading(text=marked, rule=rule if marked else None, think_ok=think_ok, box_ok=False)


def answer_part(text: str) -> str:
    """What follows the last `</think>`; nothing where a `<think>` is left open."""
    end = text.rfind(CLOSE)
    if text.rfind(OPEN) > end:
        return ""
    return text if end < 0 else text[end + len(CLOSE) :]


def think_block(text: str, *, opened: bool = False) -> bool:
    """Whether the text is one think block, first and closed, and then something else."""
    text = text.lstrip()
    counts = (text.count(OPEN), text.count(CLOSE))
    return (counts == (1, 1) and text.startswith(OPEN)) or (opened and counts == (0, 1))


def last_box(text: str) -> str | None:
    r"""Content of the last `\boxed{}` or `\fbox{}`, stripped; "" where it is empty or never closed; None: no box."""
    boxes = list(_BOX.finditer(text))
    if not boxes:
        return None
    last = boxes[-1]
    if last["bare"]:
        return last["bare"].rstrip(".,;")
    depth = 1
    for brace in _BRACE.finditer(text, last.end()):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return text[last.end() : brace.start()].strip(" \n")
    return ""


def judge_number(gold: str, reading: Reading, weights: RewardWeights) -> Score:
    """A verdict where the gold is a number: equal in value, exactly."""
    right = numerals.number_in(gold)
    said = None if reading.text is None else numerals.number_in(reading.text)
    error = None if said is not None else ("no-answer" if reading.text is None else "unparseable")
    answer = reading.text if said is None else str(said)
    return score_answer(reading, weights, correct=said is not None and said == right, answer=answer, error=error)


def score_answer(
    reading: Reading, weights: RewardWeights, *, correct: bool, answer: str | None, error: str | None
) -> Score:
    """The verdict with its reward; a completion's format never depends on its answer being right."""
    return Score(
        reward=weights.reward(correct=correct, think_ok=reading.think_ok, box_ok=reading.box_ok),
        correct=correct,
        format_ok=reading.think_ok and reading.box_ok,
        answer=answer,
        error=error,
        rule=reading.rule,
    )


def _marked(part: str) -> str | None:
    """The number that the last marked line begins with; a heading ("#### Step 1") is no mark."""
    last: str | None = None
    for line in _MARKER.findall(part):
        whole = numerals.number_in(line)
        first = numerals.first_number(line)
        if first is not None:
            last = str(whole if whole is not None else first)
    return last
