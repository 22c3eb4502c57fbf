"""Run folders: where they are, and the documents in them. What reads their rows into frames is `bench.report`."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.ground.errors import UserError
from bench.ground.files import read_rows

FAILURE = "failure.json"  # left by a study where a run ended without its own summary
Document = dict[str, Any]


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """Run directories at or below the given paths, in the order of their names.

    Raises:
        UserError: there is none.
    """
    paths = list(paths)
    found = {config.parent.resolve() for path in paths for config in path.glob("**/config.json")}
    runs = [path for path in found if (path / "provenance.json").exists()]
    if not runs:
        raise UserError(f"no run directory (config.json with provenance.json) in: {', '.join(map(str, paths))}")
    return sorted(runs, key=lambda path: (path.name, path))


def read_document(run: Path, name: str, *needed: str) -> Document:
    """`config.json` or another of a run's documents.

    Raises:
        UserError: it cannot be read, or lacks a key that is needed.
    """
    try:
        tree = json.loads((run / name).read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise UserError(f"{run}: not a run directory: {name} cannot be read") from error
    if missing := [key for key in needed if key not in tree]:
        raise UserError(f"{run}: {name} lacks {missing[0]}: it was recorded by an older version")
    return tree


def read_steps(run: Path, *needed: str) -> list[Document]:
    """The rows of `steps.jsonl` so far.

    Raises:
        UserError: there are none, or they lack a metric that is needed.
    """
    if not (run / "steps.jsonl").is_file():
        raise UserError(f"{run}: not a run directory: steps.jsonl cannot be read")
    rows = read_rows(run / "steps.jsonl")
    if not rows:
        raise UserError(f"{run}: steps.jsonl has no rows yet")
    if missing := [name for name in needed if name not in rows[0]]:
        raise UserError(f"{run}: its steps lack {missing[0]}: it was recorded by an older version")
    return rows


def read_ending(run: Path) -> Document:
    """The summary; without one `status` is failed where a study saw the run end, else unfinished."""
    if (run / "summary.json").exists():
        return read_document(run, "summary.json")
    if (run / FAILURE).exists():
        return {"status": "failed", "message": read_document(run, FAILURE)["message"]}
    return {"status": "unfinished"}
