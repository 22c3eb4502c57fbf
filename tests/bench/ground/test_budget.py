"""Budgets: what is read, and how much of each unit is used up."""

import pytest

from bench.ground.budget import COUNTER, KINDS, Budget
from bench.ground.errors import UserError
from bench.ground.words import COUNTERS, FLOPS

USED = dict(zip((*COUNTERS, FLOPS), (1.0, 256.0, 0.0, 6000.0, 0.0, 4.0, 30.0, 5e11), strict=True))


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("steps=12", 0.25),
        ("samples=512", 0.5),
        ("tokens=60000", 0.1),
        ("updates=16", 0.25),
        ("flops=1e12", 0.5),
        ("seconds=60", 0.5),
        ("steps=0", 1.0),
    ],
)
def test_the_share_that_is_used_up(text: str, used: float) -> None:
    assert Budget.parse(text).fraction(3, USED) == used


@pytest.mark.parametrize(
    "text", ["epochs=3", "samples", "samples=", "samples=-1", "samples=0", "flops=nan", "flops=inf", "steps=x"]
)
def test_what_cannot_be_read_is_refused_with_every_form(text: str) -> None:
    with pytest.raises(UserError) as error:
        Budget.parse(text)
    assert all(f"{kind}=N" in str(error.value) for kind in KINDS)


def test_work_that_is_not_counted_cannot_be_a_budget() -> None:
    without = {name: value for name, value in USED.items() if name != FLOPS}
    with pytest.raises(UserError, match="not counted"):
        Budget.parse("flops=1e12").fraction(3, without)


def test_every_unit_is_a_counter_of_the_record() -> None:
    assert set(COUNTER.values()) <= {*COUNTERS, FLOPS}
    assert set(COUNTER) == set(KINDS.values()) - {"steps"}
