"""Equal tuning for every arm: so many trials over its stated space, on validation, under seeds of their own."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from bench.ground.errors import UserError
from bench.ground.files import read_rows
from bench.ground.tree import Tree, merge, nested
from bench.report.tables import Cell, Row, Table, number, percent, text
from bench.study.launch import Outcome
from bench.study.schedule import Arm, Place, Planned, Space, Study, place_parts, places, schedule

FIRST_SEED = 1_000_000  # of trials: apart from any report's


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One setting of an arm's space, tried once."""

    arm: Arm
    point: Mapping[str, Any]
    run: Planned


def draw_points(space: Space, num_trials: int, arm: str) -> list[dict[str, Any]]:
    """`num_trials` different settings of the space, drawn without replacement by a fixed seed.

    Raises:
        UserError: no space is stated, or it holds fewer settings.
    """
    if not space:
        raise UserError(f"--tune: arm {arm} states no space; add --space SETTING=V1,V2,... or [arms.{arm}.space]")
    grid = [dict(zip(space, values, strict=True)) for values in product(*space.values())]
    if len(grid) < num_trials:
        raise UserError(f"--tune {num_trials}: the space of arm {arm} holds only {len(grid)} settings")
    return random.Random(f"tune/{arm}").sample(grid, num_trials)


def trials(study: Study, num_trials: int, out: Path) -> list[Trial]:
    """The trials of every arm in every place. They see the validation split only."""
    found: list[Trial] = []
    for arm in study.arms:
        for index, point in enumerate(draw_points(arm.space, num_trials, arm.name)):
            tried = replace(with_point(arm, point), name=f"{arm.name}~{index}", first_seed=FIRST_SEED)
            tried.tree.setdefault("algo_name", arm.name)
            settings = merge(study.settings, {"eval": {"limit": 0, "checkpoint": "last"}})
            alone = replace(study, arms=[tried], seeds=1, settings=settings, reference=None)
            found += [Trial(arm=arm, point=point, run=run) for run in schedule(alone, out)]
    for trial in found:
        if not trial.run.chosen.config.eval.every:
            raise UserError("--tune reads validation accuracy: set eval.every, such as --set eval.every=4")
    return found


def with_point(arm: Arm, point: Mapping[str, Any]) -> Arm:
    """The arm at a point of its space."""
    tree: Tree = dict(arm.tree)
    for name, value in point.items():
        tree = merge(tree, nested(name.replace("-", "_"), value))
    return replace(arm, tree=tree)


def accuracy_of(outcome: Outcome) -> float | None:
    """Last validation accuracy of a trial; None where it did not finish."""
    if outcome.path is None or outcome.status != "finished":
        return None
    rows = read_rows(outcome.path / "evals.jsonl")
    validation = [row for row in rows if row["split"] == "validation"]
    return float(validation[-1]["accuracy"]) if validation else None


Scored = tuple[Trial, float | None]


def winners(scored: Sequence[Scored]) -> dict[tuple[str, Place], Mapping[str, Any]]:
    """(arm, place) -> the point of the highest validation accuracy, the first of several.

    Raises:
        UserError: no trial of an arm finished.
    """
    best: dict[tuple[str, Place], tuple[float, Mapping[str, Any]]] = {}
    keys = [(trial.arm.name, trial.run.place) for trial, _ in scored]
    for key, (trial, accuracy) in zip(keys, scored, strict=True):
        if accuracy is not None and (key not in best or accuracy > best[key][0]):
            best[key] = accuracy, trial.point
    for key in keys:
        if key not in best:
            raise UserError(f"--tune: no trial of arm {key[0]} finished; see the logs")
    return {key: point for key, (_, point) in best.items()}


def tuned_schedule(study: Study, best: Mapping[tuple[str, Place], Mapping[str, Any]], out: Path) -> list[Planned]:
    """The study's plan with each arm at its best point of each place."""
    found: list[Planned] = []
    for place in places(study):
        variant, task, model, preset = place
        arms = [with_point(arm, best[arm.name, place]) for arm in study.arms]
        narrow = {"variants": {variant: study.variants[variant]}, "tasks": {task: study.tasks[task]}}
        here = replace(study, arms=arms, models=[model], presets=[preset], **narrow)
        found += schedule(here, out)
    return found


def trials_table(scored: Sequence[Scored], outcomes: Sequence[Outcome]) -> Table:
    """Every trial, the failed ones too."""
    rows: list[Row] = [
        {
            "arm": text(trial.arm.name),
            "place": text(", ".join(place_parts(trial.run.place))),
            "setting": text(", ".join(f"{k}={v}" for k, v in trial.point.items())),
            "validation accuracy": percent(accuracy),
            "status": text(outcome.status),
        }
        for (trial, accuracy), outcome in zip(scored, outcomes, strict=True)
    ]
    note = (
        "Equal numbers of trials for every arm over the space it states, one seed each, on validation, never on test."
    )
    return Table(name="trials", title="Tuning: every trial", note=note, rows=rows)


def sensitivity_table(scored: Sequence[Scored]) -> Table:
    """How much hangs on the tuning, beside the winner."""
    groups: dict[tuple[str, str], list[Scored]] = {}
    for trial, accuracy in scored:
        place = ", ".join(place_parts(trial.run.place))
        groups.setdefault((trial.arm.name, place), []).append((trial, accuracy))
    rows: list[Row] = []
    for (arm, place), part in groups.items():
        known = sorted(accuracy for _, accuracy in part if accuracy is not None)
        best = max(part, key=lambda item: -1 if item[1] is None else item[1])[0].point
        rows.append(
            {
                "arm": text(arm),
                "place": text(place),
                "trials": number(len(part)),
                "lost": number(len(part) - len(known)),
                "best": percent(known[-1]),
                "median": percent(median(known)),
                "worst": percent(known[0]),
                "best minus worst, points": Cell(
                    text=f"{100 * (known[-1] - known[0]):.1f}", value=known[-1] - known[0]
                ),
                "best setting": text(", ".join(f"{k}={v}" for k, v in best.items())),
            }
        )
    note = "Validation accuracy over the trials: an arm whose best is far from its median needs its tuning."
    return Table(name="sensitivity", title="Tuning: sensitivity", note=note, rows=rows)
