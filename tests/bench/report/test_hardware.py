"""The report's table of algorithms by configuration: measured, predicted, and what nobody measured."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.ground.runs import find_runs
from bench.planner.predict import predict
from bench.report.comparison import comparisons_in
from bench.report.hardware import hardware_table
from bench.report.records import load
from tests.bench.factory import make_run
from tests.bench.planner.records import write_run


def change(path: Path, **values: Any) -> None:  # noqa: ANN401
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def rows(root: Path) -> list[dict[str, str]] | None:
    table = hardware_table(comparisons_in(load(find_runs([root]), root.parent / "cache")))
    return None if table is None else [{name: cell.text for name, cell in row.items()} for row in table.rows]


def test_runs_without_a_configuration_make_no_table(tmp_path: Path) -> None:
    make_run(tmp_path / "runs", "ppo", 0)
    assert rows(tmp_path / "runs") is None


def test_every_arm_on_every_configuration_measured_or_not(tmp_path: Path) -> None:
    for seed, (arm, preset) in enumerate([("ppo", "cpu"), ("grpo", "cpu"), ("grpo", "1xH200")]):
        change(make_run(tmp_path / "runs", arm, seed) / "provenance.json", preset=preset)
    found = rows(tmp_path / "runs")
    assert found is not None
    cells = {(row["arm"], row["configuration"]): row for row in found}
    assert len(cells) == 4
    assert cells["ppo", "1xH200"]["accuracy, after"] == "not measured"
    measured = cells["grpo", "1xH200"]
    assert measured["peak GiB"] == "0.6"
    assert measured["did not finish"] == "0 of 1"
    assert measured["s/step"] == "1.1"
    assert measured["predicted GiB"] == "-"  # these records hold no lengths to predict from


def test_the_prediction_stands_beside_the_measurement(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", "ppo", 0)
    written = write_run(tmp_path / "small", preset="cpu")
    small = json.loads((written / "config.json").read_text())
    change(run / "config.json", **{key: small[key] for key in ("engine", "sampling", "critic", "samples_per_step")})
    algorithm = {"group_size": 1, "num_epochs": 1, "num_minibatches": 2}
    change(run / "config.json", algo=algorithm)
    change(run / "provenance.json", preset="cpu", model={"location": str(written / "model")})
    lengths = {"prompt/length_max": 20.0, "completion/length_max": 30.0}
    steps = [json.loads(line) | lengths for line in (run / "steps.jsonl").read_text().splitlines()]
    (run / "steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    found = rows(tmp_path / "runs")
    assert found is not None
    expected = predict(run)
    assert float(found[0]["predicted GiB"]) == pytest.approx(expected.peak_gib, rel=0.01)
    assert expected.step_s is not None
    assert float(found[0]["predicted s/step"]) == pytest.approx(expected.step_s, rel=0.01)
