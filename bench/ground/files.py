"""Files of a record: JSON written whole or not at all, rows read up to the last whole one."""

import json
import os
from pathlib import Path
from typing import Any, cast

from bench.ground.errors import UserError
from bench.ground.tree import plain


def write_json(path: Path, value: Any) -> None:  # noqa: ANN401 - any JSON value
    """Write whole or not at all, and durably."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as file:
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
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: not a JSON object")
    return cast("dict[str, Any]", content)


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
    """The rows of a `.jsonl` stream, without one that a kill tore. Empty where there is no file.

    Raises:
        UserError: a whole row is no JSON object, or the file cannot be read; names the line.
    """
    try:
        lines = whole_rows(path).split(b"\n")[:-1]
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    return [row_of(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1)]


def row_of(line: bytes, place: str) -> dict[str, Any]:
    """One row.

    Raises:
        UserError: it is no JSON object.
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{place}: no JSON: {error}") from error
    if not isinstance(row, dict):
        raise UserError(f"{place}: not a JSON object")
    return cast("dict[str, Any]", row)


def sync_path(path: Path) -> None:
    """Make a file's or a folder's content durable."""
    if path.is_dir():
        sync_folder(path)
    else:
        with path.open("rb") as file:
            os.fsync(file.fileno())
