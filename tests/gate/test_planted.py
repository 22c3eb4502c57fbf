"""The lists of edits stay true to the code."""

import ast
import json
from pathlib import Path

import pytest

from tests.faults.listed import Fault, planted
from tests.gate.planted import EXERCISES, faults, refactors

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent


@pytest.mark.parametrize("edit", refactors(), ids=lambda edit: edit.name)
def test_the_refactor_can_be_planted(edit: Fault) -> None:
    ast.parse(planted(edit, (ROOT / edit.file).read_text()))


def test_there_are_ten_refactors() -> None:
    assert len({edit.name for edit in refactors()}) >= 10


def test_every_exercise_is_of_a_fault() -> None:
    assert set(EXERCISES) <= {fault.name for fault in faults()}


def test_tier_1_is_red_on_formulas_and_green_on_refactors() -> None:
    found = json.loads((HERE / "tier1.json").read_text())
    assert set(found) == {edit.name for edit in [*faults(), *refactors()]}, "run: python -m tests.gate.tier1 NAME ..."
    assert not any(found[edit.name] for edit in refactors())
    kinds = ("algorithms", "masks", "reduction", "logprobs")
    mine = [fault for fault in faults() if fault.kind in kinds and not fault.survives]
    assert sum(found[fault.name] for fault in mine) >= 0.9 * len(mine)
