"""What each arm cost: work, time and memory."""

from collections.abc import Sequence

from bench.ground.words import ROLES
from bench.report.comparison import Comparison
from bench.report.tables import Row, Table, number, quantity, text


def cost(comparisons: Sequence[Comparison]) -> Table:
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
        "generated tokens/s": ("mean:perf/generated_tokens_per_s", 3),
        "trained tokens/s": ("mean:perf/trained_tokens_per_s", 3),
        "MFU": ("mean:perf/mfu", 3),
    }
    return _means(
        comparisons,
        columns,
        name="cost",
        title="Cost of a run",
        note=(
            "Mean over runs with a 95% t interval where runs differ. Samples and tokens count everything generated, "
            "with the groups that dynamic sampling threw away; seconds are training seconds, evaluation apart; FLOPs "
            "are counted, critic and reference included; MFU is the share of the stated or measured peak."
        ),
    )


def memory(comparisons: Sequence[Comparison]) -> Table:
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
        | {shown: quantity(arm.mean(column), digits) for shown, (column, digits) in columns.items()}
        for comparison in comparisons
        for arm in comparison.arms
    ]
    return Table(name=name, title=title, note=note, rows=rows)
