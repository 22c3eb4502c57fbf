"""The reference page is what the code says."""

from pathlib import Path

from docs.generate_algorithms import page


def test_the_reference_page_is_up_to_date() -> None:
    written = Path(__file__).parents[1] / "docs" / "algorithms.md"
    assert written.read_text() == page(), "run: python -m docs.generate_algorithms"
