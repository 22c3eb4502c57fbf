"""How far each arm got at equal cost, and what the way to a target cost it."""

from collections.abc import Callable, Sequence

from bench.ground.registration import Registration
from bench.progress import first_reached, mean_height, restricted_times, time_to_target, value_at
from bench.report.comparison import Comparison, difference_by_seed
from bench.report.curves import AXES, Curves, Floats, curves, horizon_of, target_of
from bench.report.outcomes import by_seed
from bench.report.records import Records
from bench.report.results import lost_in_words, pairs
from bench.report.tables import Cell, Row, Table, number, percent, points, quantity, text
from bench.stats import Estimate, estimate_share
from bench.verdicts import in_words, verdicts

MOST_CENSORED = 0.1  # share of runs short of the target up to which the interval was found calibrated


def efficiency(comparisons: Sequence[Comparison], records: Records, target: float | None) -> Table:
    """Accuracy at equal cost, area under the curve, and cost to a target."""
    rows: list[Row] = []
    for comparison in comparisons:
        for axis, (_, label) in AXES.items():
            found = curves(comparison, records, axis)
            goal = target if target is not None else target_of(comparison, found)
            end = horizon_of(comparison, found)
            if goal is not None and end > 0:
                rows += [_efficiency(comparison, name, part, label, end, goal) for name, part in found.items()]
    return Table(
        name="efficiency",
        title="At equal cost",
        note=(
            "Along each unit of cost up to the amount that all finished runs used: accuracy there, mean accuracy on "
            "the way (area under the curve over its width), and the median cost to the target (Kaplan-Meier: a run "
            "that never got there counts as not yet arrived). Validation accuracy where runs were followed there, "
            "else test."
        ),
        rows=rows,
    )


def _efficiency(comparison: Comparison, name: str, part: Curves, label: str, end: float, goal: float) -> Row:
    times = [first_reached(x, y, goal) for x, y in part.values()]
    arrival = time_to_target(times, [float(x[-1]) for x, _ in part.values()])
    return {
        "setting": text(comparison.label),
        "cost in": text(label),
        "arm": text(name),
        "up to": number(end),
        "accuracy there": percent(_mean_of_known([value_at(x, y, end) for x, y in part.values()])),
        "mean accuracy": percent(_mean_of_known([mean_height(x, y, end) for x, y in part.values()])),
        "target": percent(goal),
        "reached": Cell(text=f"{arrival.num_reached} of {arrival.n}", value=arrival.num_reached),
        "median cost to it": number(arrival.median),
    }


def _mean_of_known(values: Sequence[float | None]) -> Estimate | None:
    known = [value for value in values if value is not None]
    return estimate_share(known) if known else None


def equal_cost(
    comparisons: Sequence[Comparison],
    records: Records,
    reference: str | None,
    target: float | None,
    margin: float = Registration.margin,
) -> Table:
    """Differences between arms at equal cost."""
    rows: list[Row] = []
    for comparison in comparisons:
        for axis, (_, label) in AXES.items():
            rows += _equal_cost(comparison, label, curves(comparison, records, axis), reference, target, margin)
    return Table(
        name="equal_cost",
        title="Differences at equal cost",
        note=(
            "First arm minus second at the same cost and, as the area under the curve, on the way to it; both are "
            "tested over seeds, Holm-adjusted over the pairs, with the margin of the main verdicts. Cost saved: how "
            "much sooner the first arm is at the target, a run that never arrives counting with the whole budget; no "
            "interval where more than one in ten did not."
        ),
        rows=rows,
    )


def _equal_cost(
    comparison: Comparison,
    label: str,
    found: dict[str, Curves],
    reference: str | None,
    target: float | None,
    margin: float,
) -> list[Row]:
    end, goal = horizon_of(comparison, found), target if target is not None else target_of(comparison, found)
    matched = [(a, b) for a, b in pairs(comparison, reference) if a.name in found and b.name in found]
    if not matched or goal is None or end <= 0:
        return []
    there = {name: _per_seed(value_at, part, end) for name, part in found.items()}
    height = {name: _per_seed(mean_height, part, end) for name, part in found.items()}
    times = {name: _restricted(part, goal, end) for name, part in found.items()}
    judged = [verdicts([by_seed(a, b, at[a.name], at[b.name]) for a, b in matched], margin) for at in (there, height)]
    rows: list[Row] = []
    for (a, b), at_end, on_the_way in zip(matched, *judged, strict=True):
        rows.append(
            {
                "setting": text(comparison.label),
                "cost in": text(label),
                "arms": text(f"{a.name} - {b.name}"),
                "at the end": text(in_words(at_end, a.name, b.name) + lost_in_words(a, b)),
                "accuracy there": points(difference_by_seed(there[a.name], there[b.name])),
                "on the way": text(in_words(on_the_way, a.name, b.name)),
                "mean accuracy": points(difference_by_seed(height[a.name], height[b.name])),
                "cost saved": quantity(_saved(times[a.name], times[b.name], end)),
            }
        )
    return rows


def _saved(first: dict[int, float], second: dict[int, float], end: float) -> Estimate | None:
    """How much sooner the first arm arrives. With more censoring its t interval would cover less than it claims."""
    d = difference_by_seed(second, first)
    if d is None:
        return None
    censored = max(sum(t >= end for t in times.values()) / len(times) for times in (first, second))
    if censored > MOST_CENSORED:
        return Estimate(mean=d.mean, low=None, high=None, n=min(d.n))
    return Estimate(mean=d.mean, low=d.low, high=d.high, n=min(d.n))


def _per_seed(measure: Callable[[Floats, Floats, float], float | None], part: Curves, end: float) -> dict[int, float]:
    return {seed: value for seed, (x, y) in part.items() if (value := measure(x, y, end)) is not None}


def _restricted(part: Curves, goal: float, end: float) -> dict[int, float]:
    times = restricted_times([first_reached(x, y, goal) for x, y in part.values()], end)
    return dict(zip(part, times, strict=True))
