"""What import-linter cannot say: it sees packages from outside as one module, and no sizes."""

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import grimp
import pytest

from algorithms import ALGORITHMS
from bench.cli import COMMANDS

ROOT = Path(__file__).parents[1]
GENERATION = ("transformers.generation", "transformers.cache_utils")
CACHES = {"Cache", "DynamicCache", "StaticCache", "QuantizedCache", "EncoderDecoderCache"}
MAX_LINES = 80
MOST_LINES, MOST_PARAMETERS, MODULE_LINES = 40, 7, 250


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


def strongly_connected(edges: Mapping[str, set[str]]) -> list[set[str]]:
    """Groups of nodes that can all reach one another."""
    reached: dict[str, set[str]] = {}
    for start in edges:
        seen, waiting = set[str](), [start]
        while waiting:
            new = edges.get(waiting.pop(), set()) - seen
            seen |= new
            waiting += new
        reached[start] = seen
    return [{b for b in reached[a] if a in reached[b]} for a in edges if a in reached[a]]


@pytest.mark.parametrize("depth", [2, 9], ids=["rooms", "modules"])
def test_there_is_no_circle_of_imports_for_types_alone_included(depth: int) -> None:
    graph = grimp.build_graph("bench", "algorithms", "tasks", exclude_type_checking_imports=False)
    edges: defaultdict[str, set[str]] = defaultdict(set)
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            a, b = (".".join(name.split(".")[:depth]) for name in (module, other))
            if a != b:
                edges[a].add(b)
    assert "bench.loop" in edges  # so that the test can see
    assert not strongly_connected(edges)


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "list"])
def test_a_command_is_where_its_name_says(command: str) -> None:
    """In a module or in a folder of that name; `list` prints what others hold, at the door."""
    places = [p for p in (ROOT / "bench").rglob("*") if p.stem == command and (p.suffix == ".py" or p.is_dir())]
    assert places, f"no module and no folder is called {command}"


def test_the_readme_says_where_things_are() -> None:
    """In at most twelve rows, all of which name what exists; every folder of the code is named."""
    text = (ROOT / "README.md").read_text().partition("## Where things are")[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(rows) <= 12
    named = {name for row in rows for name in re.findall(r"`([\w/]+/)`", row.split("|")[1])}
    assert all((ROOT / name).is_dir() for name in named)
    rooms = {f"bench/{path.parent.name}/" for path in (ROOT / "bench").glob("*/__init__.py")}
    assert rooms <= named, rooms - named
    for row in rows:
        folder = re.findall(r"`([\w/]+/)`", row.split("|")[1])[0]
        for file in re.findall(r"`(\w+\.py)`", row):
            assert list((ROOT / folder).rglob(file)), f"{folder}: {file}"


def functions_over_the_rule(source: str) -> Iterator[str]:
    """Names of functions of more than 40 lines or seven parameters, `self` apart."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            num_parameters = len(names) - (names[:1] in (["self"], ["cls"]))
            num_lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if num_lines > MOST_LINES or num_parameters > MOST_PARAMETERS:
                yield f"{node.name}: {num_lines} lines, {num_parameters} parameters"


@pytest.mark.parametrize("folder", ["bench", "algorithms", "tasks", "scripts", "docs", "examples"])
def test_no_function_is_long_and_no_module_large(folder: str) -> None:
    assert list(functions_over_the_rule("def f(a, b, c, d, e, f, g, h): ...")) == ["f: 1 lines, 8 parameters"]
    for path in (ROOT / folder).rglob("*.py"):
        text = path.read_text()
        assert not list(functions_over_the_rule(text)), path
        assert len(text.splitlines()) <= MODULE_LINES, path


def words_with_two_meanings(source: str) -> Iterator[str]:
    """Names of parameters that once meant two things each: an engine is no settings of one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.arg) and node.arg == "max_tokens":
            yield "max_tokens: longest, micro_batch_tokens or generation_budget"
        if isinstance(node, ast.arg) and node.arg == "engine" and getattr(node.annotation, "id", "") == "EngineConfig":
            yield "engine: where, if it is the settings of one"


def test_a_parameter_has_one_meaning() -> None:
    assert len(list(words_with_two_meanings("def f(max_tokens: int, engine: EngineConfig): ..."))) == 2
    found = {
        path: words
        for path in (ROOT / "bench").rglob("*.py")
        if (words := [*words_with_two_meanings(path.read_text())])
    }
    assert not found
