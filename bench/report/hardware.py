"""Algorithms by hardware configuration: what was measured, beside what the planner predicts for it."""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from bench.ground.errors import UserError
from bench.planner.predict import Prediction, predict
from bench.report.comparison import Arm, Comparison
from bench.report.tables import Row, Table, number, percent, quantity, share, text

NOT_MEASURED = "not measured"
Key = tuple[str, str, str, str]  # data, model, arm, configuration


def hardware_table(comparisons: Sequence[Comparison]) -> Table | None:
    """One row for each arm and configuration of a data set and model; None where no run names a configuration."""
    rows = list(_rows(comparisons))
    if not rows:
        return None
    return Table(
        name="hardware",
        title="Hardware configurations",
        note=(
            "Memory is the driver's peak in the update, the largest over steps; tokens/s are generated tokens a second "
            "of rollout; means over runs. Predicted: by the planner's formulas at the lengths that the run saw. A "
            f"configuration on which an arm was not run says '{NOT_MEASURED}'."
        ),
        rows=rows,
    )


def _rows(comparisons: Sequence[Comparison]) -> Iterator[Row]:
    found: dict[Key, Arm] = {}
    for comparison in comparisons:
        for arm in comparison.arms:
            first = arm.runs.iloc[0]
            if first["preset"]:
                found[str(first["data"]), str(first["model"]), arm.name, str(first["preset"])] = arm
    names = list(dict.fromkeys(key[2] for key in found))
    presets = list(dict.fromkeys(key[3] for key in found))
    for data, model in dict.fromkeys(key[:2] for key in found):
        for name, preset in product(names, presets):
            yield _row((data, model, name, preset), found.get((data, model, name, preset)))


def _row(key: Key, arm: Arm | None) -> Row:
    data, model, name, preset = key
    row = {"data": text(data), "model": text(model), "configuration": text(preset), "arm": text(name)}
    if arm is None:
        return row | {"accuracy, after": text(NOT_MEASURED)}
    expected = _predicted(arm)
    return row | {
        "accuracy, after": percent(arm.share("final_accuracy")),
        "did not finish": share(len(arm.runs) - arm.count("finished"), len(arm.runs)),
        "peak GiB": quantity(arm.mean("max:memory/peak_gib/update")),
        "predicted GiB": number(expected.peak_gib if expected else None),
        "tokens/s": quantity(arm.mean("mean:perf/generated_tokens_per_s")),
        "predicted tokens/s": number(expected.generated_tokens_per_s if expected else None),
        "s/step": quantity(arm.mean("mean:time/step_s")),
        "predicted s/step": number(expected.step_s if expected else None),
    }


def _predicted(arm: Arm) -> Prediction | None:
    """None for records that the planner cannot read: an older version's, or a model that it does not cover."""
    try:
        return predict(Path(arm.runs["path"].iloc[0]))
    except UserError:
        return None
