"""Run directories -> data frames, through a parquet cache: a run is read once, and again only when its files change."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pandas
import pyarrow as pa
import pyarrow.compute
import pyarrow.json as arrow_json
import pyarrow.parquet as pq

from bench.ground.comparable import key_of, terms
from bench.ground.errors import UserError
from bench.ground.files import whole_rows
from bench.ground.runs import FAILURE, read_document, read_ending
from bench.ground.sums import verify

FILES = (
    "config.json",
    "provenance.json",
    "summary.json",
    FAILURE,
    "steps.jsonl",
    "evals.jsonl",
    "eval_problems.jsonl",
)
TABLES = ("runs", "steps", "evals", "problems", "completions")
IDENTITY = ("config.json", "provenance.json")
WORDS = ("split", "task", "path", "stamp")  # columns of text beside the figures
DAMAGED = "damaged"  # status of a run whose rows cannot be read
EXACT = ("step", "data/", "cost/")  # columns kept in full precision: counters
CACHE_VERSION = 2  # of the frames' meaning; a change makes every cache stale
SHOWN_COMPLETIONS = 3  # rows kept from each end of completions.jsonl
Json = dict[str, Any]
# pyarrow has no annotations and those of pandas are partial: both would only report themselves
ArrowTable = Any
Frame = Any
pc: Any = pyarrow.compute
pd: Any = pandas


@dataclass(frozen=True, kw_only=True)
class Records:
    """Every run's records, one frame a stream; `path` joins them. `runs` has one row a run."""

    runs: Frame
    steps: Frame
    evals: Frame
    problems: Frame  # of the last test evaluation only
    completions: Frame  # the first and the last few
    unread: Mapping[str, str] = field(default_factory=dict[str, str])  # folders that are no runs, with the reason


def load(paths: Sequence[Path], cache: Path) -> Records:
    """Records of the run directories `paths`, read from `cache` where nothing has changed.

    A folder that cannot be read never takes the others down: without its documents it is `unread`, and a run whose
    rows are damaged stands among the runs with that as its status.
    """
    unread = {str(path): reason for path in paths if (reason := _unread(path))}
    paths = [path for path in paths if str(path) not in unread]
    return replace(_load(paths, cache), unread=unread)


def _unread(path: Path) -> str:
    try:
        for document in IDENTITY:  # what a changed one says of the run is not known
            verify(path, document)
        _run_row(path)
    except (UserError, LookupError, TypeError, ValueError, AttributeError) as error:
        return (str(error).splitlines() or [type(error).__name__])[0]
    return ""


def _load(paths: Sequence[Path], cache: Path) -> Records:
    stamps = {str(path): _stamp(path) for path in paths}
    kept = _cached(cache, stamps)
    have = set() if kept is None else set(kept["runs"]["path"].to_pylist())
    fresh = [path for path in paths if str(path) not in have]
    if kept is not None and not fresh:
        return _records(kept)
    tables = _read(fresh, stamps)
    if kept is not None:
        tables = {name: _concat([kept[name], table]) for name, table in tables.items()}
    cache.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        pq.write_table(table, cache / f"{name}.parquet", compression="zstd", compression_level=1)
    return _records(tables)


def _stamp(path: Path) -> str:
    """Changes when a file of the run does."""
    stats = [(path / name).stat() for name in FILES if (path / name).exists()]
    return f"{CACHE_VERSION} " + " ".join(f"{s.st_mtime_ns}:{s.st_size}" for s in stats)


def _cached(cache: Path, stamps: dict[str, str]) -> dict[str, ArrowTable] | None:
    """Cached tables without the runs that changed or are not asked for; None when there is no usable cache."""
    names = TABLES
    if not all((cache / f"{name}.parquet").exists() for name in names):
        return None
    tables = {name: pq.read_table(cache / f"{name}.parquet") for name in names}
    runs = tables["runs"].select(["path", "stamp"]).to_pylist()
    valid = [row["path"] for row in runs if stamps.get(row["path"]) == row["stamp"]]
    if len(valid) == len(runs):
        return tables
    return {
        name: table.filter(pc.is_in(table["path"].cast(pa.string()), pa.array(valid, pa.string())))
        for name, table in tables.items()
    }


def _read(paths: Sequence[Path], stamps: dict[str, str]) -> dict[str, ArrowTable]:
    parts: dict[str, list[ArrowTable]] = {name: [] for name in TABLES}
    for path in paths:
        row = _run_row(path)
        streams: dict[str, ArrowTable] = {name: pa.table({}) for name in TABLES[1:]}
        try:
            verify(path)
            streams = _streams(path)
        except (UserError, LookupError, ValueError, pa.ArrowException) as error:
            row |= {"status": DAMAGED, "message": (str(error).splitlines() or [type(error).__name__])[0]}
        parts["runs"].append(pa.Table.from_pylist([row | {"stamp": stamps[str(path)]}]))
        for name, table in streams.items():
            name_column = pa.array([str(path)] * table.num_rows, pa.string()).dictionary_encode()
            parts[name].append(table.append_column("path", name_column))
    return {name: _concat(tables) for name, tables in parts.items()}


def _streams(path: Path) -> dict[str, ArrowTable]:
    return {
        "steps": _compact(_figures(_jsonl(path / "steps.jsonl"), "steps.jsonl")),
        "evals": _figures(_jsonl(path / "evals.jsonl"), "evals.jsonl"),
        "problems": _last_test(_jsonl(path / "eval_problems.jsonl")),
        "completions": _ends(path / "completions.jsonl"),
    }


def _figures(table: ArrowTable, name: str) -> ArrowTable:
    """The table, unless text stands where every other run has figures.

    Raises:
        UserError: names the stream and the column.
    """
    for column in table.schema:
        if pa.types.is_string(column.type) and column.name not in WORDS:
            raise UserError(f"{name}: '{column.name}' holds text, not figures")
    return table


def _run_row(path: Path) -> Json:
    """One run as a flat row: what tables group by, and the documents whole, as text."""
    config, provenance = read_document(path, "config.json"), read_document(path, "provenance.json")
    summary = read_ending(path)
    return {
        "path": str(path),
        "arm": str(config.get("arm") or config["algo_name"]),
        "algo": str(config["algo_name"]),
        "task": str(config["task_name"]),
        "model": str(config["model"]),
        "seed": int(config["seed"]),
        "budget": str(config["budget"]),
        "preset": str(provenance.get("preset") or config.get("preset") or ""),
        "status": str(summary.get("status")),
        "message": str(summary.get("message") or ""),
        "started_at": str(provenance.get("started_at", "")),
        "data": data_label(str(config["task_name"]), provenance.get("data") or {}),
        "setting_key": key_of(terms(config, provenance)),
        "config": json.dumps(config),
        "provenance": json.dumps(provenance),
    }


def data_label(task: str, data: Json) -> str:
    """`gsm8k (procedural)`, `gsm8k (openai/gsm8k test, 1319)`: different data never shares a label."""
    test = data.get("test") or {}
    if not test:
        return task
    if test.get("source") == "procedural":
        return f"{task} (procedural)"
    origin = str(test.get("origin") or test.get("source"))
    return f"{task} ({Path(origin).name if test.get('source') == 'path' else origin} test, {test.get('num_rows')})"


def _jsonl(path: Path) -> ArrowTable:
    data = whole_rows(path)
    if not data.strip():
        return pa.table({})
    return arrow_json.read_json(pa.BufferReader(data))


def _compact(table: ArrowTable) -> ArrowTable:
    """Measurements in single precision, counters as they are."""
    for i, column in enumerate(table.schema):
        exact = column.name.startswith(EXACT)
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            kind = (pa.int32() if column.name == "step" else pa.float64()) if exact else pa.float32()
            table = table.set_column(i, column.name, table.column(i).cast(kind))
    return table


def _last_test(table: ArrowTable) -> ArrowTable:
    """Verdicts of the last test evaluation; the earlier ones are already in the accuracies."""
    if not table.num_rows:
        return table
    table = table.filter(pc.equal(table["split"], "test"))
    table = table.filter(pc.equal(table["step"], pc.max(table["step"])))
    table = table.select(
        [
            name
            for name in ("step", "task", "problem", "correct", "num_correct", "num_samples")
            if name in table.column_names
        ]
    )
    return table.set_column(table.column_names.index("problem"), "problem", table["problem"].dictionary_encode())


def _ends(path: Path) -> ArrowTable:
    """First and last completions of a run."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    few = lines if len(lines) <= 2 * SHOWN_COMPLETIONS else lines[:SHOWN_COMPLETIONS] + lines[-SHOWN_COMPLETIONS:]
    rows = [cast(Json, json.loads(line)) for line in few]
    return pa.Table.from_pylist(
        [{k: v if isinstance(v, str) else json.dumps(v) for k, v in row.items()} for row in rows]
    )


def _concat(tables: Sequence[ArrowTable]) -> ArrowTable:
    return (
        pa.concat_tables([t for t in tables if t.num_columns], promote_options="permissive").unify_dictionaries()
        if tables
        else pa.table({})
    )


def _records(tables: dict[str, ArrowTable]) -> Records:
    frames = {name: table.to_pandas(self_destruct=True, split_blocks=True) for name, table in tables.items()}
    return Records(**frames)
