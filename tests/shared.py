"""Official data and cases that live beside the repository where it is developed; tests skip where they are absent."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"

needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the shared cases and data sets are not beside this checkout"
)
