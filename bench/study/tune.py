"""Equal tuning for every arm: the same points for the same space, on validation, over seeds of their own.

A point is scored by sampled validation accuracy, which training optimises, over several seeds; a run that diverged
scores 0. The winner is the smallest learning rate within one standard error of the best mean. A winner on the edge of
its grid is flagged, and where the study allows it the grid grows there, once.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from bench.ground.errors import UserError
from bench.ground.files import read_rows
from bench.ground.tree import Tree, merge, nested
from bench.study.launch import Outcome
from bench.study.schedule import Arm, Place, Planned, Space, Study, places, schedule

FIRST_SEED = 1_000_000  # of trials: apart from any report's
RATE = "optimizer.lr"
Point = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run at one point of an arm's space."""

    arm: Arm
    point: Point
    run: Planned


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A point of an arm's space in one place, over its seeds."""

    arm: str
    place: Place
    point: Point
    space: Space
    starts: tuple[float, ...]  # sampled validation accuracy before training
    accuracies: tuple[float, ...]  # and at the end, one a seed; 0 where training diverged
    lost: int  # seeds without any result

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return float(np.mean(self.accuracies))


def draw_points(space: Space, num_points: int, arm: str) -> list[dict[str, Any]]:
    """`num_points` different points of the space: all of them, or a sample that depends on nothing but the space.

    Raises:
        UserError: no space is stated, or it holds fewer points.
    """
    if not space:
        raise UserError(f"--tune: arm {arm} states no space; add --space SETTING=V1,V2,... or [arms.{arm}.space]")
    grid = [dict(zip(space, values, strict=True)) for values in product(*space.values())]
    if len(grid) < num_points:
        raise UserError(f"--tune {num_points}: the space of arm {arm} holds only {len(grid)} settings")
    if len(grid) == num_points:
        return grid
    chosen = sorted(random.Random(f"tune/{json.dumps(space, sort_keys=True)}").sample(range(len(grid)), num_points))
    return [grid[i] for i in chosen]


def trials(study: Study, out: Path) -> list[Trial]:
    """The trials of every arm in every place, as many as `study.tuning` says. They see the validation split only.

    Raises:
        UserError: an arm without a space, or a study that measures no sampled accuracy on validation.
    """
    found: list[Trial] = []
    for arm in study.arms:
        for point in draw_points(arm.space, study.tuning.points, arm.name):
            found += trials_at(study, arm, point, out)
    return found


def trials_at(study: Study, arm: Arm, point: Point, out: Path) -> list[Trial]:
    """One point's runs over its seeds, in every place."""
    label = ",".join(f"{name.rpartition('.')[2]}={value}" for name, value in point.items())
    tried = replace(with_point(arm, point), name=f"{arm.name}~{label}", first_seed=FIRST_SEED)
    tried.tree.setdefault("algo_name", arm.name)
    settings = merge(study.settings, {"eval": {"limit": 0, "checkpoint": "last"}})
    alone = replace(study, arms=[tried], seeds=study.tuning.seeds, settings=settings, reference=None, primary=())
    found = [Trial(arm=arm, point=point, run=run) for run in schedule(alone, out)]
    for trial in found:
        evaluation = trial.run.chosen.config.eval
        if not evaluation.every:
            raise UserError("--tune reads validation accuracy: set eval.every, such as --set eval.every=4")
        if not evaluation.num_samples:
            raise UserError("--tune scores by sampled accuracy: set eval.num-samples, such as --set eval.num-samples=4")
    return found


def with_point(arm: Arm, point: Point) -> Arm:
    """The arm at a point of its space."""
    tree: Tree = dict(arm.tree)
    for name, value in point.items():
        tree = merge(tree, nested(name.replace("-", "_"), value))
    return replace(arm, tree=tree)


def accuracies_of(outcome: Outcome) -> tuple[float, float] | None:
    """Sampled validation accuracy before training and at its end, 0 where it diverged; None where nothing is known."""
    if outcome.path is None or outcome.status not in ("finished", "diverged", "no-signal"):
        return None
    rows = [row for row in read_rows(outcome.path / "evals.jsonl") if row["split"] == "validation"]
    sampled = [float(row["sampled_accuracy"]) for row in rows if "sampled_accuracy" in row]
    if not sampled:
        return None
    return sampled[0], 0.0 if outcome.status == "diverged" else sampled[-1]


def score(tried: Sequence[Trial], outcomes: Sequence[Outcome]) -> list[Scored]:
    """Each point's accuracies, in the order of the trials."""
    groups: dict[tuple[str, Place, str], list[tuple[Trial, tuple[float, float] | None]]] = {}
    for trial, outcome in zip(tried, outcomes, strict=True):
        key = (trial.arm.name, trial.run.place, json.dumps(trial.point, sort_keys=True))
        groups.setdefault(key, []).append((trial, accuracies_of(outcome)))
    found: list[Scored] = []
    for (arm, place, _), part in groups.items():
        known = [accuracies for _, accuracies in part if accuracies is not None]
        found.append(
            Scored(
                arm=arm,
                place=place,
                point=part[0][0].point,
                space=part[0][0].arm.space,
                starts=tuple(start for start, _ in known),
                accuracies=tuple(end for _, end in known),
                lost=len(part) - len(known),
            )
        )
    return found


def winners(scored: Sequence[Scored]) -> dict[tuple[str, Place], Scored]:
    """(arm, place) -> its winner.

    Raises:
        UserError: no point of an arm has all of its seeds.
    """
    groups: dict[tuple[str, Place], list[Scored]] = {}
    for item in scored:
        groups.setdefault((item.arm, item.place), []).append(item)
    for (arm, _), part in groups.items():
        if not any(item.accuracies and not item.lost for item in part):
            raise UserError(f"--tune: no point of arm {arm} finished with all of its seeds; see the logs")
    return {key: choose([item for item in part if item.accuracies and not item.lost]) for key, part in groups.items()}


def choose(part: Sequence[Scored]) -> Scored:
    """The smallest rate within one standard error of the best mean, other settings being those of the best.

    The spread over seeds is pooled over the points: of one point alone it is known too badly.
    """
    best = max(part, key=lambda item: item.mean)
    allowed = best.mean - standard_error(part)
    rate = next((name for name in best.point if name.replace("-", "_") == RATE), None)
    if rate is None:
        return best
    others = {name: value for name, value in best.point.items() if name != rate}
    near = [
        item
        for item in part
        if item.mean >= allowed and {name: value for name, value in item.point.items() if name != rate} == others
    ]
    return min(near, key=lambda item: float(item.point[rate]))


def standard_error(part: Sequence[Scored]) -> float:
    """Of a point's mean; 0 from one seed a point."""
    spreads = [
        (float(np.var(item.accuracies, ddof=1)), len(item.accuracies)) for item in part if len(item.accuracies) > 1
    ]
    if not spreads:
        return 0.0
    variance = sum(v * (n - 1) for v, n in spreads) / sum(n - 1 for _, n in spreads)
    return float(np.sqrt(variance / np.mean([n for _, n in spreads])))


def on_edge(winner: Scored) -> dict[str, float]:
    """Setting -> the next value beyond the grid, for each numeric one whose end has won, by the grid's own ratio."""
    beyond: dict[str, float] = {}
    for name, values in winner.space.items():
        if len(values) < 2 or not all(isinstance(v, int | float) and not isinstance(v, bool) and v > 0 for v in values):
            continue
        ordered = sorted(float(v) for v in values)
        value = float(winner.point[name])
        if value == ordered[-1]:
            beyond[name] = value * value / ordered[-2]
        elif value == ordered[0]:
            beyond[name] = value * value / ordered[1]
    return beyond


def extended(study: Study, best: Mapping[tuple[str, Place], Scored], out: Path) -> list[Trial]:
    """Trials one step beyond each edge that has won, for that arm in every place where it has."""
    found: list[Trial] = []
    for arm in study.arms:
        for place in places(study):
            winner = best[arm.name, place]
            for name, value in on_edge(winner).items():
                wider = replace(arm, space={**arm.space, name: sorted([*arm.space[name], value])})
                grown = trials_at(study, wider, {**winner.point, name: value}, out)
                found += [trial for trial in grown if trial.run.place == place]
    return found


Run = Callable[[Sequence[Planned]], list[Outcome]]


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """What tuning found: every point, the winners, and the runs behind them."""

    scored: Sequence[Scored]
    best: Mapping[tuple[str, Place], Scored]
    outcomes: Sequence[Outcome]


def tune(study: Study, tried: Sequence[Trial], out: Path, run: Run) -> Tuned:
    """Run the trials, and those beyond an edge where the study allows it."""
    tried, outcomes = list(tried), run([trial.run for trial in tried])
    scored = score(tried, outcomes)
    if study.tuning.extend and (more := extended(study, winners(scored), out)):
        outcomes += run([trial.run for trial in more])
        scored = score([*tried, *more], outcomes)
    return Tuned(scored=scored, best=winners(scored), outcomes=outcomes)


def tuned_schedule(study: Study, best: Mapping[tuple[str, Place], Scored], out: Path) -> list[Planned]:
    """The study's schedule with each arm at its winner of each place."""
    found: list[Planned] = []
    for place in places(study):
        variant, task, model, preset = place
        arms = [with_point(arm, best[arm.name, place].point) for arm in study.arms]
        narrow = {"variants": {variant: study.variants[variant]}, "tasks": {task: study.tasks[task]}}
        here = replace(study, arms=arms, models=[model], presets=[preset], **narrow)
        found += schedule(here, out)
    return found
