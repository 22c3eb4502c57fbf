"""The stored gradients of each method: the code that measures them is the gate's own."""

import math

import pytest

from algorithms import ALGORITHMS
from bench.gate.formulas import formulas, stored_batch
from bench.gate.golden import is_same_result, version_of_formulas
from bench.gate.moves import SHIPPED, golden_path
from bench.ground.files import read_json


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_the_gradient_is_the_stored_one(name: str) -> None:
    entries = read_json(golden_path(name, None))["entries"]
    assert version_of_formulas(ALGORITHMS[name]) in entries, (
        f'python -m bench check --algo {name} --update-baseline --reason "..."'
    )
    stored = entries[version_of_formulas(ALGORITHMS[name])]
    found = dict(formulas(ALGORITHMS[name]()))
    assert len(found) > 36
    assert not [key for key, value in found.items() if not is_same_result(stored[f"formula/defaults/{key}"], value)]


def test_every_golden_belongs_to_a_method() -> None:
    assert {path.stem for path in SHIPPED.glob("*.json")} == set(ALGORITHMS)


def test_the_batch_is_the_one_that_was_stored() -> None:
    """The inputs come from sines: the same on every machine and version."""
    batch, _ = stored_batch()
    assert batch.old_logprobs[0, 1].item() == pytest.approx(
        -1.2 + 0.3 * math.sin(12.9898) * math.cos(4.1414), abs=1e-12
    )
