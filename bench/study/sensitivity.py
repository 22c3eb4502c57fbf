"""What tuning says beside its winners: the whole curve of accuracy against a setting, its basin, and what it cost."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from bench.ground.files import read_rows
from bench.report.tables import Cell, Row, Table, interval, number, percent, share, text
from bench.stats import estimate_share
from bench.study.launch import Outcome
from bench.study.schedule import place_parts
from bench.study.tune import RATE, Scored, Tuned, on_edge

NEAR = 0.02  # a basin is where accuracy lies within two points of the best


def tables(found: Tuned) -> list[Table]:
    """Curve, basins and cost."""
    return [curve(found), basins(found), cost(found.outcomes)]


def curve(found: Tuned) -> Table:
    """Every point with its seeds."""
    rows: list[Row] = []
    for item in found.scored:
        won = item is found.best[item.arm, item.place]
        edge = " on the grid's edge" if won and on_edge(item) else ""
        rows.append(
            {
                "arm": text(item.arm),
                "place": text(", ".join(place_parts(item.place))),
                "setting": text(_setting(item)),
                "validation, sampled": percent(estimate_share(item.accuracies)) if item.accuracies else text(""),
                "seeds": text(", ".join(f"{100 * value:.1f}" for value in item.accuracies)),
                "below their start": share(_fallen(item), len(item.accuracies)),
                "without result": number(item.lost),
                "chosen": text(f"chosen{edge}" if won else ""),
            }
        )
    note = (
        "Equal points for equal spaces, on validation, never on test, under seeds of their own; a run that diverged "
        "scores 0. Chosen: the smallest learning rate within one standard error of the best mean."
    )
    return Table(name="trials", title="Tuning: every point", note=note, rows=rows)


def _setting(item: Scored) -> str:
    return ", ".join(f"{name}={value}" for name, value in item.point.items())


def _fallen(item: Scored) -> int:
    return sum(end < start for start, end in zip(item.starts, item.accuracies, strict=True))


def basins(found: Tuned) -> Table:
    """How wide each arm's good range of learning rates is, at the other settings of its winner."""
    rows: list[Row] = []
    for (arm, place), best in found.best.items():
        mine = [item for item in found.scored if (item.arm, item.place) == (arm, place) and item.accuracies]
        line = _along_rate(mine, best)
        fallen, runs = sum(map(_fallen, mine)), sum(len(item.accuracies) for item in mine)
        rows.append(
            {
                "arm": text(arm),
                "place": text(", ".join(place_parts(place))),
                "best setting": text(_setting(best)),
                "at it": percent(estimate_share(best.accuracies)),
                "basin, octaves": _basin(line),
                "runs below their start": share(fallen, runs),
                "worst point": percent(min(item.mean for item in mine)),
            }
        )
    note = (
        "Basin: octaves of learning rate over which validation accuracy stays within 2 points of its best, linear "
        "between the rates tried, and no wider than they are; in brackets its range when one seed is left out."
    )
    return Table(name="sensitivity", title="Tuning: sensitivity", note=note, rows=rows)


def _along_rate(part: Sequence[Scored], best: Scored) -> list[tuple[float, tuple[float, ...]]]:
    """(log2 of the rate, accuracies) at the winner's other settings, by rate."""

    def others(item: Scored) -> dict[str, object]:
        return {name: value for name, value in item.point.items() if name.replace("-", "_") != RATE}

    def rate(item: Scored) -> float | None:
        return next((float(v) for name, v in item.point.items() if name.replace("-", "_") == RATE), None)

    found = [(rate(item), item.accuracies) for item in part if others(item) == others(best)]
    return sorted((float(np.log2(value)), accuracies) for value, accuracies in found if value is not None)


def _basin(line: Sequence[tuple[float, tuple[float, ...]]]) -> Cell:
    if len(line) < 2:
        return text("")
    x = [place for place, _ in line]
    whole = width(x, [float(np.mean(accuracies)) for _, accuracies in line])
    num_seeds = min(len(accuracies) for _, accuracies in line)
    if num_seeds < 3:
        return Cell(text=f"{whole:.1f}", value=whole)
    without = [
        width(x, [float(np.mean(np.delete(accuracies[:num_seeds], seed))) for _, accuracies in line])
        for seed in range(num_seeds)
    ]
    return interval(whole, min(whole, *without), max(whole, *without))


def width(x: Sequence[float], y: Sequence[float]) -> float:
    """Of the stretch around the highest point on which the line through (x, y) lies within `NEAR` of it."""
    top, floor = int(np.argmax(y)), max(y) - NEAR

    def reach(step: int) -> float:
        end = x[top]
        for i, j in pairwise(range(top, -1 if step < 0 else len(x), step)):
            if y[j] < floor:
                return abs(x[top] - (x[i] + (y[i] - floor) / (y[i] - y[j]) * (x[j] - x[i])))
            end = x[j]
        return abs(end - x[top])

    return reach(-1) + reach(1)


def cost(outcomes: Sequence[Outcome]) -> Table:
    """What tuning used, by arm: what the study's own cost tables leave out."""
    totals: dict[str, dict[str, float]] = {}
    for outcome in outcomes:
        rows = read_rows(outcome.path / "steps.jsonl") if outcome.path is not None else []
        last = rows[-1] if rows else {}
        mine = totals.setdefault(outcome.run.arm.partition("~")[0], {"runs": 0.0})
        mine["runs"] += 1
        for name in ("data/samples_generated", "cost/device_s", "cost/flops"):
            if name in last:
                mine[name] = mine.get(name, 0.0) + last[name]
    rows_of_table: list[Row] = [
        {
            "arm": text(arm),
            "runs": number(total["runs"]),
            "samples": number(total.get("data/samples_generated")),
            "training seconds": number(total.get("cost/device_s")),
            "FLOPs": number(total.get("cost/flops")),
        }
        for arm, total in totals.items()
    ]
    note = "All of an arm's trials together; the cost of a run, further on, is that of its final runs alone."
    return Table(name="tuning_cost", title="Tuning: cost", note=note, rows=rows_of_table)
