"""Rows of a data set, from a file, a folder, $BENCH_DATA or the Hugging Face hub, with their provenance."""

import gzip
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from tasks.core import DataError, Source

Row = Mapping[str, Any]
HubSplit = tuple[str, str | None, str]  # data set, configuration, split
SUFFIXES = (".jsonl", ".jsonl.gz", ".json")


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of one split as they were found."""

    rows: Sequence[Row]
    origin: str  # where they came from, for the console: a file, a hub id, "procedural"
    sha256: str  # of the file's bytes, or of the rows written as canonical JSON
    places: Sequence[str]  # "file:line" or "hub-id[index]" of each row, for messages


def load_rows(source: Source, *, name: str, split: str, data: Path | None, hub: HubSplit | None) -> Rows:
    """Rows of `split` (the data set's own split name) of task `name`.

    Args:
        source: "path" reads `data`, else `$BENCH_DATA/<name>`; "hub" asks `datasets`.
        name: the task, which is the folder below `$BENCH_DATA`.
        split: the file's stem, "train" or "test".
        data: a file (that serves every split asked for) or a folder of `<split>.jsonl`.
        hub: (dataset id, configuration or None, the hub's own name of the split); None: it has none.

    Raises:
        DataError: no such file, an unreadable row (file and line), no rows, or an unreachable hub.
    """
    if source == "hub" and hub is not None:
        return _from_hub(hub)
    root = data if data is not None else _bench_data(name)
    if root is None:
        raise DataError(f"{name}: no data; give --data PATH, set BENCH_DATA, or use --source hub")
    return _read(_file(root, split))


def bench_data(name: str) -> bool:
    """Whether `$BENCH_DATA` holds a folder for this task."""
    return _bench_data(name) is not None


def has_split(source: Source, *, name: str, split: str, data: Path | None) -> bool:
    """Whether a folder holds the split beside the one asked for. The hub is asked for train only by training."""
    if source == "hub":
        return split == "test"
    root = data if data is not None else _bench_data(name)
    return root is not None and any((root / f"{split}{suffix}").is_file() for suffix in SUFFIXES)


def canonical_sha256(rows: Sequence[Row]) -> str:
    """Of rows that come from no file: one JSON line each, keys sorted."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, sort_keys=True, ensure_ascii=False).encode() + b"\n")
    return digest.hexdigest()


def text_field(row: Row, place: str, *names: str) -> str:
    """The first of `names` that the row has, which must hold text.

    Raises:
        DataError: naming the row's place and the field.
    """
    for name in names:
        if name in row:
            value = row[name]
            if not isinstance(value, str):
                raise DataError(f"{place}: field '{name}' must be text, not {type(value).__name__}")
            return value
    raise DataError(f"{place}: no field {' or '.join(repr(n) for n in names)}; found {sorted(row)}")


def _bench_data(name: str) -> Path | None:
    root = os.environ.get("BENCH_DATA")
    return Path(root) / name if root and (Path(root) / name).exists() else None


def _file(root: Path, split: str) -> Path:
    if root.is_file():
        return root
    for suffix in SUFFIXES:
        if (root / f"{split}{suffix}").is_file():
            return root / f"{split}{suffix}"
    raise DataError(
        f"{root}: no such file, nor a folder with {split}.jsonl" if not root.exists() else f"{root}: no {split}.jsonl"
    )


@lru_cache(maxsize=16)
def _read(path: Path) -> Rows:
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    if path.suffix == ".json":
        rows, places = _json_array(path, text)
    else:
        rows, places = _json_lines(path, text)
    if not rows:
        raise DataError(f"{path}: no rows")
    return Rows(rows=rows, origin=str(path), sha256=hashlib.sha256(raw).hexdigest(), places=places)


def _json_lines(path: Path, text: str) -> tuple[list[Row], list[str]]:
    rows: list[Row] = []
    places: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{place}: not a JSON row: {error.msg}") from error
        rows.append(_object(row, place))
        places.append(place)
    return rows, places


def _json_array(path: Path, text: str) -> tuple[list[Row], list[str]]:
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno}: not JSON: {error.msg}") from error
    if not isinstance(values, list):
        raise DataError(f"{path}: expected a JSON array of rows")
    places = [f"{path}[{i}]" for i in range(len(cast("list[Any]", values)))]
    return [_object(v, p) for v, p in zip(cast("list[Any]", values), places, strict=True)], places


def _object(value: object, place: str) -> Row:
    if not isinstance(value, dict):
        raise DataError(f"{place}: a row must be a JSON object, not {type(value).__name__}")
    return cast("Row", value)


@lru_cache(maxsize=16)
def _from_hub(hub: HubSplit) -> Rows:
    import datasets  # heavy, and needed only here

    name, configuration, split = hub
    try:
        table = datasets.load_dataset(name, configuration, split=split)
    except Exception as error:  # datasets raises a dozen kinds for one cause: it is not to be had
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DataError(
            f"{name} cannot be loaded from the hub ({first}); give --data PATH or set BENCH_DATA"
        ) from error
    rows = cast("list[Row]", list(table))
    label = f"{name}{'/' + configuration if configuration else ''}"
    return Rows(
        rows=rows,
        origin=f"hub:{label}",
        sha256=canonical_sha256(rows),
        places=[f"{label}:{split}[{i}]" for i in range(len(rows))],
    )
