"""What each arm cost: work, time and memory."""

from collections.abc import Sequence

from bench.ground.words import ROLES
from bench.report.comparison import Arm, Comparison
from bench.report.tables import Cell, Row, Table, number, quantity, text

BUSY = 1.2  # processes a core, mean over a run's steps: above it seconds measure the neighbours
TIMED = ("cost/device_s", "mean:time/step_s", "generated_per_s", "trained_per_s", "mfu")


def shared_machine(arm: Arm) -> bool:
    """Whether the arm's runs had to share their cores; unknown in older records, which did not look."""
    load = arm.mean("mean:perf/load")
    return load is not None and load.mean > BUSY


def cost_table(comparisons: Sequence[Comparison]) -> Table:
    """Totals of a run, mean over runs."""
    columns = {
        "samples": ("data/samples_generated", 4),
        "samples trained": ("data/samples_trained", 4),
        "prompts": ("data/prompts", 4),
        "tokens": ("data/tokens_generated", 4),
        "tokens trained": ("data/tokens_trained", 4),
        "updates": ("data/updates", 4),
        "seconds": ("cost/device_s", 3),
        "FLOPs": ("cost/flops", 3),
        "s/step": ("mean:time/step_s", 3),
        "generated tokens/s": ("generated_per_s", 3),
        "trained tokens/s": ("trained_per_s", 3),
        "MFU": ("mfu", 3),
    }
    return _means(
        comparisons,
        columns,
        name="cost",
        title="Cost of a run",
        note=(
            "Mean over runs with a 95% interval where runs differ. Samples and tokens count everything generated, "
            "with the groups that dynamic sampling threw away; seconds are training seconds, evaluation apart; FLOPs "
            "are counted, critic and reference included; MFU is the share of the stated or measured peak. Rates are of "
            f"totals. Figures of time are withheld where more than {BUSY:g} processes a core wanted to run."
        ),
    )


def memory_table(comparisons: Sequence[Comparison]) -> Table:
    """Bytes by role, and the peak of each phase."""
    first = [arm for comparison in comparisons for arm in comparison.arms]
    peaks = sorted({c for arm in first for c in arm.runs if c.startswith("max:memory/peak_gib/")})
    columns = {role.replace("_", " "): (f"max:memory/{role}_gib", 3) for role in ROLES}
    columns |= {f"peak: {c.rpartition('/')[2]}": (c, 3) for c in peaks}
    return _means(
        comparisons,
        columns,
        name="memory",
        title="Memory, GiB",
        note=(
            "The largest over a run's steps, mean over runs. Roles are counted from storages; a role that is not held "
            "is missing; the cache of the rollout and the activations of the update never exist at once. Peaks are the "
            "driver's, of the whole process, in each phase."
        ),
    )


def _means(
    comparisons: Sequence[Comparison], columns: dict[str, tuple[str, int]], *, name: str, title: str, note: str
) -> Table:
    rows: list[Row] = [
        {"setting": text(comparison.label), "arm": text(arm.name), "n": number(len(arm.counted))}
        | {shown: _cell(arm, column, digits) for shown, (column, digits) in columns.items()}
        for comparison in comparisons
        for arm in comparison.arms
    ]
    return Table(name=name, title=title, note=note, rows=rows)


def _cell(arm: Arm, column: str, digits: int) -> Cell:
    if column in TIMED and shared_machine(arm):
        return Cell(text="shared machine")
    return quantity(arm.mean(column), digits)
