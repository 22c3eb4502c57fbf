"""Every method against every peer that has it: advantages, losses and gradients on 200 random batches."""

import pytest

from tests.oracles import peers
from tests.oracles.agreement import ORACLES, TOLERANCE, largest_difference

pytestmark = pytest.mark.skipif(
    not peers.present, reason="the peers are installed and these tests run by `make oracles`"
)


@pytest.mark.parametrize(("oracle", "method"), [(o, m) for o, names in ORACLES.items() for m in names])
def test_agrees(oracle: str, method: str) -> None:
    assert largest_difference(oracle, method) < TOLERANCE
