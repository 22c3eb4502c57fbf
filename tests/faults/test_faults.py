"""The list of planted faults stays true to the code: each text is found once, and the edit still parses."""

import ast
import json
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.listed import RESULTS, Fault, load, planted

ROOT = Path(__file__).parents[2]
FAULTS = load()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_the_fault_can_be_planted(fault: Fault) -> None:
    text = planted(fault, (ROOT / fault.file).read_text())
    ast.parse(text)
    for test in fault.tests:
        assert (ROOT / test.split("::")[0]).exists()


def test_there_are_enough_of_each_kind() -> None:
    kinds = Counter(f.kind for f in FAULTS)
    assert len(FAULTS) >= 60
    assert set(kinds) >= {"algorithms", "batching", "masks", "sampling", "logprobs", "reduction", "resume"}
    assert max(Counter(f.name for f in FAULTS).values()) == 1


def test_at_least_95_percent_were_caught_and_the_rest_is_explained() -> None:
    results = json.loads(RESULTS.read_text())
    assert set(results) == {f.name for f in FAULTS}, "run: python -m tests.faults.run NAME ..."
    assert sum(results.values()) >= 0.95 * len(results)
    assert all(f.survives for f in FAULTS if not results[f.name])
