"""Files of a record: JSON written whole or not at all, rows read up to the last whole one."""

import json
import os
from pathlib import Path
from typing import Any

from bench.ground.errors import UserError
from bench.ground.tree import plain


def write_json(path: Path, value: Any) -> None:  # noqa: ANN401 - any JSON value
    """Write whole or not at all, and durably."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w") as file:
        json.dump(plain(value), file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    sync_folder(path.parent)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of a run directory.

    Raises:
        UserError: it is not there or cannot be read.
    """
    try:
        return json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from error


def sync_folder(path: Path) -> None:
    """Make a rename in this folder survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def whole_rows(path: Path) -> bytes:
    """A stream's rows; what a kill tore off the last one is left out. Nothing where there is no file."""
    data = path.read_bytes() if path.exists() else b""
    return data[: data.rfind(b"\n") + 1]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a `.jsonl` stream, without one that a kill tore. Empty where there is no file."""
    return [json.loads(line) for line in whole_rows(path).splitlines()]


def sync_path(path: Path) -> None:
    """Make a file's or a folder's content durable."""
    if path.is_dir():
        sync_folder(path)
    else:
        with path.open("rb") as file:
            os.fsync(file.fileno())
