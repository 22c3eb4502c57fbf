"""What import-linter cannot say: it sees packages from outside as one module, and no sizes."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from algorithms import ALGORITHMS

ROOT = Path(__file__).parents[1]
GENERATION = ("transformers.generation", "transformers.cache_utils")
CACHES = {"Cache", "DynamicCache", "StaticCache", "QuantizedCache", "EncoderDecoderCache"}
MAX_LINES = 80


def generation_imports(source: str) -> Iterator[str]:
    """Names of transformers' generation code that a module imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith(GENERATION))
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            if node.module.startswith(GENERATION):
                yield node.module
            elif node.module == "transformers":
                yield from (alias.name for alias in node.names if alias.name in CACHES)


def test_only_engines_generate_by_transformers() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): names
        for path in (ROOT / "bench").rglob("*.py")
        if (names := list(generation_imports(path.read_text())))
    }
    assert "bench/engines/hf.py" in found  # so that the test can see
    assert all(path.startswith("bench/engines/") for path in found), found


@pytest.mark.parametrize("cls", ALGORITHMS.values(), ids=lambda cls: cls.__name__)
def test_a_method_is_one_short_file(cls: type) -> None:
    """What grows past this holds a concept that belongs into a module of its own."""
    path = inspect.getsourcefile(cls)
    assert path is not None
    assert len(Path(path).read_text().splitlines()) <= MAX_LINES
