"""The list of planted faults stays true to the code: each text is found once, and the edit still parses."""

import ast
from collections import Counter

import pytest

from tests.faults.run import ROOT, Fault, load, planted

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
