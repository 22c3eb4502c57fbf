"""Every family of docs/models.md: sampler, plain forward pass and padded pass are one model, or it is refused."""

from pathlib import Path

import pytest
import transformers
from transformers import CONFIG_MAPPING

from docs.generate_models import HEAD, LIMIT, NAMES, outcome

TABLE = Path("docs/models.md").read_text(encoding="utf-8")
CELLS = dict(
    line.strip("| ").split(" | ", 1) for line in TABLE.splitlines() if line.startswith("| ") and "---" not in line
)


@pytest.mark.parametrize("name", NAMES)
def test_a_family_is_sampled_as_it_is_trained_or_refused(name: str) -> None:
    """With the table's own version of transformers, as the table says; a later one may refuse less."""
    if name.partition(",")[0] not in CONFIG_MAPPING:
        pytest.skip("the installed transformers has no such family")
    found = outcome(name)
    if found.refusal:
        assert "\n" not in found.refusal
    else:
        assert max(found.sampler, found.padded) <= LIMIT  # type: ignore[type-var]
    if f"transformers {transformers.__version__}:" in TABLE:
        assert CELLS[name].startswith("refused") is bool(found.refusal)


def test_the_table_has_every_family_and_says_how_it_was_made() -> None:
    assert CELLS.keys() - {"family"} == set(NAMES)
    assert len(NAMES) > 40
    assert HEAD.split("with transformers")[0] in TABLE
