"""Signs of reasoning over training: in right and in wrong completions apart, for length alone adds to any count."""

from collections.abc import Sequence

from bench.report.comparison import Arm, Comparison
from bench.report.tables import Row, Table, number, text

BEHAVIOURS = ("verification", "backtracking", "subgoals", "backward_chaining")  # as recorded by runs


def behaviours(comparisons: Sequence[Comparison]) -> Table:
    """Each behaviour of each arm, at the first and at the last step."""
    rows = [
        _row(comparison, arm, name)
        for comparison in comparisons
        for arm in comparison.arms
        if arm.values("last:behaviour/exact")
        for name in BEHAVIOURS
    ]
    note = (
        "Count a completion and (beside it) by 100 tokens, in the first and in the last step's samples, mean over "
        "runs. Read 'exactly' from the equations on countdown; elsewhere by word lists, whose precision and recall "
        "are in docs/pipeline.md. A step without a right completion has no figure for them."
    )
    return Table(name="behaviours", title="Reasoning behaviours", note=note, rows=rows)


def _row(comparison: Comparison, arm: Arm, name: str) -> Row:
    row: Row = {
        "setting": text(comparison.label),
        "arm": text(arm.name),
        "behaviour": text(name.replace("_", " ")),
        "read": text("exactly" if min(arm.values("last:behaviour/exact").values()) == 1 else "by words"),
    }
    for verdict in ("right", "wrong"):
        for when in ("first", "last"):
            row[f"{verdict}, {when}"] = number(_mean(arm, f"{when}:behaviour/{verdict}/{name}"))
            row[f"{verdict}, {when}, by 100 tokens"] = number(
                _mean(arm, f"{when}:behaviour/{verdict}_per_100_tokens/{name}")
            )
    return row


def _mean(arm: Arm, column: str) -> float | None:
    found = arm.mean(column)
    return None if found is None else found.mean


def behaviours_in_words(comparisons: Sequence[Comparison]) -> list[str]:
    """One line an arm on how often each behaviour was seen, whatever the result."""
    return [
        f"Reasoning behaviours, {comparison.label}, {arm.name}, by 100 tokens of right completions from the first to "
        f"the last step: {_changes(arm)}."
        if arm.values("last:behaviour/exact")
        else f"Reasoning behaviours, {comparison.label}, {arm.name}: not recorded by these runs."
        for comparison in comparisons
        for arm in comparison.arms
    ]


def _changes(arm: Arm) -> str:
    ends = {
        name: [
            number(_mean(arm, f"{when}:behaviour/right_per_100_tokens/{name}"), 2).text for when in ("first", "last")
        ]
        for name in BEHAVIOURS
    }
    return ", ".join(f"{name.replace('_', ' ')} {first} to {last}" for name, (first, last) in ends.items())
