"""What a task is: problems, and a verdict on a completion's text. No tensors here."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
Source = Literal["procedural", "path", "hub"]


class DataError(ValueError):
    """Data that cannot be used; the message is one line and says what to do."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One question. `prompt` is the user's message; the engine adds the chat template."""

    id: str  # stable across machines: "gsm8k/test/17"
    prompt: str
    reference: str  # the gold answer, or the tests that a program must pass
    meta: Mapping[str, str] = field(default_factory=dict[str, str])  # for breakdowns: level, subject, ...


@dataclass(frozen=True, kw_only=True)
class Score:
    """A verdict on one completion."""

    reward: float  # what training maximises
    correct: bool  # what accuracy counts
    format_ok: bool | None = None  # None: this task does not judge format
    answer: str | None = None  # what was read out of the completion, for audit
    error: str | None = None  # "timeout", "unparseable", ...: why no verdict could be reached
    language: float | None = None  # share of the thought's words that are of the question's language; None: no words
    gold: float | None = None  # what it is worth by a known rule that is not trained on; None: no such rule
    rule: str | None = None  # which rule decided: "box", "marker", "last-number", ...
    earned: tuple[tuple[int, float], ...] = ()
    """Parts of the reward where they were earned, in order: each at the end, in characters of the completion, of the
    step that it judges, one that earned nothing with 0. They add up to `reward`. Empty: all at the end."""


@runtime_checkable
class Task(Protocol):
    """Problems with a verifier. `score` depends on its arguments only and may be called from any thread."""

    def problems(self, split: Split) -> Sequence[Problem]: ...
    def score(self, problem: Problem, completion: str) -> Score: ...


@runtime_checkable
class PaysOnTheWay(Protocol):
    """A task that can say where in a completion its reward is earned, in `Score.earned`, and whether it does so."""

    @property
    def pays_as_earned(self) -> bool: ...


@runtime_checkable
class Equivalence(Protocol):
    """A task that knows when two answers, as in `Score.answer`, are one: maj@k counts their votes together."""

    def same(self, problem: Problem, one: str, other: str) -> bool: ...


@dataclass(frozen=True, kw_only=True)
class RewardWeights:
    """How verdicts become the reward: `accuracy * (right | wrong) + format * (0 .. 1) + language * (0 .. 1)`."""

    right: float = 1.0
    """Value of a right answer."""
    wrong: float = 0.0
    """Value of a wrong answer."""
    accuracy: float = 1.0
    """Weight of the right-or-wrong value."""
    format: float = 0.1
    """Weight of the format value: half for a well-formed think block, half for a boxed answer."""

    language: float = 0.0
    """Weight of language consistency: the share of the thought's words that are of the question's language."""

    def reward(self, *, correct: bool, think_ok: bool, box_ok: bool, language: float | None = None) -> float:
        """The number that training maximises; a thought without words has no consistency to be rewarded for."""
        value = self.accuracy * (self.right if correct else self.wrong) + self.format * (think_ok + box_ok) / 2
        return value + self.language * (language or 0.0) if self.language else value


def carve_validation(text: str, fraction: float = 1 / 16) -> bool:
    """Whether a training problem belongs to validation: by a hash of its text, so that order never matters."""
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "big") < fraction * 2**64
