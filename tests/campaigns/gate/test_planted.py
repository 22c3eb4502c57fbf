"""The lists of edits stay true to the code."""

import ast
import json
from pathlib import Path

import pytest

from tests.campaigns.gate.planted import EXERCISES, faults, refactors
from tests.faults.listed import Fault, planted

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent


@pytest.mark.parametrize("edit", refactors(), ids=lambda edit: edit.name)
def test_the_refactor_can_be_planted(edit: Fault) -> None:
    text = (ROOT / edit.file).read_text()
    assert ast.dump(ast.parse(planted(edit, text))) != ast.dump(ast.parse(text))


def test_there_are_ten_refactors() -> None:
    assert len({edit.name for edit in refactors()}) >= 10


def test_every_exercise_is_of_a_fault() -> None:
    assert set(EXERCISES) <= {fault.name for fault in faults()}


def test_tier_1_is_red_on_formulas_and_green_on_refactors() -> None:
    found = json.loads((HERE / "tier1.json").read_text())
    assert set(found) == {edit.name for edit in [*faults(), *refactors()]}, (
        "run: python -m tests.campaigns.gate.tier1 NAME ..."
    )
    assert not any(found[edit.name] for edit in refactors())
    kinds = ("algorithms", "masks", "reduction", "logprobs")
    mine = [fault for fault in faults() if fault.kind in kinds and not fault.survives]
    assert sum(found[fault.name] for fault in mine) >= 0.9 * len(mine)


def test_tier_3_is_red_where_ten_points_were_lost_and_green_on_refactors() -> None:
    found = json.loads((HERE / "tier3.json").read_text())
    assert {found[edit.name]["verdict"] for edit in refactors()} == {"pass"}
    costly = [result for result in found.values() if "cost" in result and "verdict" in result]
    assert len(costly) >= 10
    assert sum(result["verdict"] == "worse" for result in costly) >= 0.8 * len(costly)


def test_tier_2_cries_no_wolf_and_sees_what_was_planted() -> None:
    found = json.loads((HERE / "tier2.json").read_text())
    for scenario in ("loaded", "unchanged", "refactors"):
        assert sum(check["code"] == 1 for check in found[scenario]) <= 1
    for scenario, quantities in (("slow", ("throughput/rollout",)), ("memory", ("memory/kv_cache", "memory/policy"))):
        red = [c for c in found[scenario] if any("worse" in c["not_passed"].get(q, "") for q in quantities)]
        assert len(found[scenario]) >= 20
        assert len(red) >= 0.9 * len(found[scenario])


def test_unchanged_runs_are_seldom_called_worse() -> None:
    found = json.loads((HERE / "false_alarms.json").read_text())
    assert found["runs"] >= 40
    assert found["unchanged"].get("worse", 0) <= 16
