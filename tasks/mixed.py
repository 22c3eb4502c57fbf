"""Two kinds of prompts in one stream: problems that rules judge, and general prompts that preferences do.

This is what the last stage of DeepSeek-R1 trains on (arXiv:2501.12948, section 2.3.4). A problem's `kind` says which
reward it has: "reasoning" the task's own; "helpful" and "harmful" a learned one, see `bench/reward.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Literal

from tasks.competition_math import CompetitionMath
from tasks.core import Problem, RewardWeights, Score, Source, Split
from tasks.countdown import Countdown
from tasks.gsm8k import Gsm8k
from tasks.helpful import Helpful
from tasks.logic import Logic

REASONING: dict[str, type[Gsm8k | CompetitionMath | Countdown | Logic]] = {
    "gsm8k": Gsm8k,
    "math": CompetitionMath,
    "countdown": Countdown,
    "logic": Logic,
}
KIND = "reasoning"


@dataclass(frozen=True, kw_only=True)
class Mixed:
    """Reasoning problems by rules and general prompts by preferences, in one stream."""

    reasoning: Literal["gsm8k", "math", "countdown", "logic"] = "gsm8k"
    """Task of the reasoning problems."""
    general_share: float = 0.5
    """Share of general prompts, in [0, 1)."""
    source: Source = "procedural"
    """Where the reasoning problems come from."""
    data: Path | None = None
    """File or folder of the reasoning problems in their official format."""
    preferences: Path | None = None
    """Folder of train.jsonl and test.jsonl of general prompts, as pairs. None: the ones made here."""
    template: Literal["auto", "plain", "boxed"] = "auto"
    """Prompt of the reasoning problems, as in their task."""
    weights: RewardWeights = field(default_factory=RewardWeights)
    """How verdicts become the reward; of a general prompt only the format and the language count here."""

    def __post_init__(self) -> None:
        if not 0 <= self.general_share < 1:
            raise ValueError(f"general_share {self.general_share} must lie in [0, 1)")

    @property
    def parts(self) -> tuple[Gsm8k | CompetitionMath | Countdown | Logic, Helpful]:
        """The two tasks."""
        rules = REASONING[self.reasoning](
            source=self.source, data=self.data, template=self.template, weights=self.weights
        )
        source: Source = "procedural" if self.preferences is None else "path"
        return rules, Helpful(source=source, data=self.preferences, gold=False, weights=self.weights)

    def problems(self, split: Split) -> Sequence[Problem]:
        """All reasoning problems, and as many general prompts as make their share, again and again where few."""
        rules, general = self.parts
        problems = [replace(problem, meta={**problem.meta, "kind": KIND}) for problem in rules.problems(split)]
        count = round(len(problems) * self.general_share / (1 - self.general_share))
        again = islice(cycle(general.problems(split)), count)
        rounds = ((i // len(general.problems(split)), problem) for i, problem in enumerate(again))
        return problems + [replace(problem, id=f"{problem.id}#{turn}") for turn, problem in rounds]

    def score(self, problem: Problem, completion: str) -> Score:
        """By the task that the problem is of."""
        rules, general = self.parts
        return (rules if problem.meta["kind"] == KIND else general).score(problem, completion)
