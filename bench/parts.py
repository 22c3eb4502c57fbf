"""What a run is made of, and all of it that changes from step to step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from algorithms.core import Algorithm
from bench.config import RunConfig
from bench.meter import Meter
from bench.ranks import ALONE, Ranks
from bench.reward import Route
from bench.rollout import RolloutEngine
from bench.sync import Snapshot
from bench.trainer import TrainEngine
from bench.work import Work
from tasks.core import Problem, Task


@dataclass(kw_only=True)
class State:
    """All of the loop that changes from step to step, beside the engine's own state. A checkpoint holds it."""

    algorithm: Algorithm
    step: int = 0
    position: int = 0  # in the prompt stream
    counters: dict[str, float]  # what is not counted has no key
    past: list[Snapshot] = field(default_factory=list[Snapshot])  # weights yet to generate from, where rollouts lag

    def count(self, amounts: Mapping[str, float]) -> None:
        """Add to the counters."""
        for name, amount in amounts.items():
            self.counters[name] += amount


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a run is made of."""

    config: RunConfig
    task: Task
    problems: Sequence[Problem]
    sampler: RolloutEngine
    trainer: TrainEngine
    meter: Meter
    work: Work
    rewards: Sequence[Route] = ()
    ranks: Ranks = ALONE
