"""Every figure that the records can fill."""

from collections.abc import Callable, Sequence

from bench.report.comparison import Comparison
from bench.report.cost_plots import cost_accuracy, memory_by_role, step_time
from bench.report.figures import Drawn, Figure, style
from bench.report.learning_plots import critic, learning_curves, training_metrics
from bench.report.outcome_plots import differences, seeds, sweep
from bench.report.records import Records
from bench.report.verdicts import Judged


def draw(comparisons: Sequence[Comparison], records: Records, judged: Sequence[Judged]) -> list[Figure]:
    """Figures of each comparison, in the order in which they are read."""
    kinds: dict[str, Callable[[Comparison, Records], Drawn | None]] = {
        "learning": learning_curves,
        "seeds": seeds,
        "differences": lambda comparison, _: differences(comparison, judged),
        "sweep": sweep,
        "cost_accuracy": cost_accuracy,
        "step_time": step_time,
        "memory": memory_by_role,
        "training": training_metrics,
        "critic": critic,
    }
    figures: list[Figure] = []
    with style():
        for number, comparison in enumerate(comparisons, start=1):
            for name, make in kinds.items():
                if (drawn := make(comparison, records)) is not None:
                    title, caption, canvas = drawn
                    canvas.suptitle(f"{title}: {comparison.label}", x=0.01, ha="left", fontsize="medium")
                    stem = name if len(comparisons) == 1 else f"{name}-{number}"
                    figures.append(
                        Figure(name=stem, title=f"{title}: {comparison.label}", caption=caption, canvas=canvas)
                    )
    return figures
