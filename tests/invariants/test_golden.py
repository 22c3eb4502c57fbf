"""The stored gradients of each method, and their own proof by plain arithmetic for one of them."""

import json
import math

import pytest

from algorithms import ALGORITHMS
from tests.invariants.golden import PATH, golden, golden_batch, key

STORED = json.loads(PATH.read_text())


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_the_gradient_is_the_stored_one(name: str) -> None:
    if key(name) not in STORED:
        pytest.skip(f"no golden gradient of {key(name)} yet: python -m tests.invariants.golden adds it")
    result = golden(name)
    assert result["loss"] == pytest.approx(STORED[key(name)]["loss"], abs=1e-7)
    assert result["gradient"] == pytest.approx(STORED[key(name)]["gradient"], abs=1e-7)


def test_every_stored_gradient_belongs_to_a_method() -> None:
    assert {stored.split("@")[0] for stored in STORED} <= set(ALGORITHMS)


def test_the_batch_is_the_one_that_was_stored() -> None:
    """The inputs come from sines: the same on every machine and version."""
    batch, _ = golden_batch()
    assert batch.old_logprobs[0, 1].item() == pytest.approx(
        -1.2 + 0.3 * math.sin(12.9898) * math.cos(4.1414), abs=1e-12
    )
