"""Equal cost in a unit: the pilot's use becomes every arm's budget."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bench.ground.errors import UserError
from bench.study.equal import PILOT_SEED, at_equal_cost, check_unit
from bench.study.launch import Outcome
from bench.study.schedule import Planned, schedule
from tests.bench.study.studies import arm, study

STUDY = replace(study(arm("ppo"), arm("grpo")), equal="flops", tasks={"gsm8k": {}, "math": {}})


def used(folder: Path, counters: dict[str, float], status: str = "finished"):  # noqa: ANN201 - a double of the launcher
    def run(planned: Sequence[Planned]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for item in planned:
            path = folder / item.label
            path.mkdir()
            scale = 2 if item.place[1] == "math" else 1
            row = {name: value * scale for name, value in counters.items()}
            (path / "steps.jsonl").write_text(json.dumps(row) + "\n")
            outcomes.append(Outcome(run=item, path=path, status=status, message="why"))
        return outcomes

    return run


def test_every_arm_may_use_what_the_first_one_used(tmp_path: Path) -> None:
    found = at_equal_cost(STUDY, tmp_path, used(tmp_path, {"cost/flops": 1.5e11}))
    budgets = {(run.arm, run.place[1]): run.chosen.config.budget for run in schedule(found, tmp_path)}
    assert budgets == {
        ("ppo", "gsm8k"): "flops=1.5e+11",
        ("grpo", "gsm8k"): "flops=1.5e+11",
        ("ppo", "math"): "flops=3e+11",
        ("grpo", "math"): "flops=3e+11",
    }


def test_the_pilot_is_no_run_of_the_study(tmp_path: Path) -> None:
    asked: list[Planned] = []

    def run(planned: Sequence[Planned]) -> list[Outcome]:
        asked.extend(planned)
        return used(tmp_path, {"cost/flops": 1.0})(planned)

    at_equal_cost(STUDY, tmp_path, run)
    assert {(item.arm, item.chosen.config.seed, item.chosen.config.eval.limit) for item in asked} == {
        ("ppo~pilot", PILOT_SEED, 0)
    }


def test_a_budget_in_that_unit_needs_no_pilot(tmp_path: Path) -> None:
    stated = replace(STUDY, settings={**STUDY.settings, "budget": "flops=1e12"})
    assert at_equal_cost(stated, tmp_path, used(tmp_path, {})) is stated


def test_what_cannot_be_equal_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did not finish: why"):
        at_equal_cost(STUDY, tmp_path, used(tmp_path, {"cost/flops": 1.0}, "failed"))
    (tmp_path / "again").mkdir()
    with pytest.raises(UserError, match="not counted"):
        at_equal_cost(STUDY, tmp_path, used(tmp_path / "again", {"data/updates": 1.0}))
    with pytest.raises(UserError, match="expected one of samples, tokens"):
        check_unit(replace(STUDY, equal="joules"), 1)
    with pytest.raises(UserError, match="use --jobs 1"):
        check_unit(replace(STUDY, equal="seconds"), 2)
