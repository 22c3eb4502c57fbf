"""Run directories -> data frames, through a parquet cache: a run is read once, and again only when its files change."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import pyarrow.compute
import pyarrow.json as arrow_json
import pyarrow.parquet as pq

from bench.ground.errors import UserError
from bench.ground.files import read_json, row_of, whole_rows
from bench.ground.sums import verify

FILES = (
    "config.json",
    "provenance.json",
    "summary.json",
    "failure.json",  # left by `compare` where a run ended without a summary
    "steps.jsonl",
    "evals.jsonl",
    "eval_problems.jsonl",
)
EXACT = ("step", "data/", "cost/")  # columns kept in full precision: counters
CACHE_VERSION = 2  # of the frames' meaning; a change makes every cache stale
SHOWN_COMPLETIONS = 3  # rows kept from each end of completions.jsonl
TABLES = ("runs", "steps", "evals", "problems", "completions")  # as they are cached
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
    unread: Frame  # `path` and `unread`, the reason, of the folders that could not be read


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """Run directories at or below the given paths, in the order of their names.

    Raises:
        FileNotFoundError: there is none.
    """
    paths = list(paths)
    found = {config.parent.resolve() for path in paths for config in path.glob("**/config.json")}
    runs = [path for path in found if (path / "provenance.json").exists()]
    if not runs:
        raise FileNotFoundError(f"no run directory (config.json with provenance.json) in: {', '.join(map(str, paths))}")
    return sorted(runs, key=lambda path: (path.name, path))


def load(paths: Sequence[Path], cache: Path) -> Records:
    """Records of the run directories `paths`, read from `cache` where nothing has changed."""
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
    names = list(TABLES)
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
        for name, table in _one(path, stamps[str(path)]).items():
            parts[name].append(table)
    return {name: _concat(tables) for name, tables in parts.items()}


def _one(path: Path, stamp: str) -> dict[str, ArrowTable]:
    """One run's tables; of one that cannot be read, its folder and the reason alone."""
    try:
        tables = {
            "runs": pa.Table.from_pylist([run_row(path) | {"stamp": stamp, "unread": ""}]),
            "steps": _compact(numeric(_jsonl(path / "steps.jsonl"), "steps.jsonl")),
            "evals": numeric(_jsonl(path / "evals.jsonl"), "evals.jsonl"),
            "problems": _last_test(_jsonl(path / "eval_problems.jsonl")),
            "completions": _ends(path / "completions.jsonl"),
        }
    except UserError as error:
        row = {"path": str(path), "stamp": stamp, "unread": str(error)}
        return {name: pa.Table.from_pylist([row] if name == "runs" else []) for name in TABLES}
    for name in ("steps", "evals", "problems", "completions"):
        column = pa.array([str(path)] * tables[name].num_rows, pa.string()).dictionary_encode()
        tables[name] = tables[name].append_column("path", column)
    return tables


def run_row(path: Path) -> Json:
    """One run as a flat row: what tables group by, and the documents whole, as text.

    Raises:
        UserError: it is no run, a file cannot be read, or was changed after the run had ended.
    """
    verify(path)
    config = read_json(path / "config.json")
    if "algo_name" not in config and "num_samples" in config:
        raise UserError(f"{path}: an evaluation by `bench eval`, not a run")
    try:
        return _row(path, config)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{path}: not the records of a run: {type(error).__name__}: {error}") from error


def _row(path: Path, config: Json) -> Json:
    provenance = read_json(path / "provenance.json")
    summary = _summary(path)
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
        "setting_key": _setting_key(config, provenance),
        "config": json.dumps(config),
        "provenance": json.dumps(provenance),
    }


def _summary(path: Path) -> Json:
    if (path / "summary.json").exists():
        return read_json(path / "summary.json")
    if (path / "failure.json").exists():
        return {"status": "failed", "message": read_json(path / "failure.json")["message"]}
    return {"status": "unfinished"}


def data_label(task: str, data: Json) -> str:
    """`gsm8k (procedural)`, `gsm8k (openai/gsm8k test, 1319)`: different data never shares a label."""
    test = data.get("test") or {}
    if not test:
        return task
    if test.get("source") == "procedural":
        return f"{task} (procedural)"
    origin = str(test.get("origin") or test.get("source"))
    return f"{task} ({Path(origin).name if test.get('source') == 'path' else origin} test, {test.get('num_rows')})"


def _setting_key(config: Json, provenance: Json) -> str:
    """What must be equal for two runs to be compared: data, model, budget, evaluation, hardware preset."""
    parts = (provenance.get("data") or {}).items()
    data = {split: (part.get("sha256"), part.get("template_sha256")) for split, part in parts}
    equal = {key: config.get(key) for key in ("task_name", "model", "budget", "eval")}
    length = (config.get("sampling") or {}).get("max_new_tokens")
    return json.dumps([equal, data, length, provenance.get("preset")], sort_keys=True)


def _jsonl(path: Path) -> ArrowTable:
    try:
        data = whole_rows(path)
        return arrow_json.read_json(pa.BufferReader(data)) if data.strip() else pa.table({})
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from error


def numeric(table: ArrowTable, name: str) -> ArrowTable:
    """The table as it is.

    Raises:
        UserError: a column of figures holds something else, which no other run's figures could stand beside.
    """
    for field in table.schema:
        kind, is_text = field.type, field.name in ("split", "task")
        good = pa.types.is_string(kind) == is_text
        if not good:
            raise UserError(f"{name}: '{field.name}' holds {kind}")
    if table.num_rows and "step" not in table.column_names:
        raise UserError(f"{name}: rows without a step")
    return table


def _compact(table: ArrowTable) -> ArrowTable:
    """Measurements in single precision, counters as they are."""
    for i, field in enumerate(table.schema):
        exact = field.name.startswith(EXACT)
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
            kind = (pa.int32() if field.name == "step" else pa.float64()) if exact else pa.float32()
            table = table.set_column(i, field.name, table.column(i).cast(kind))
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
    try:
        lines = whole_rows(path).split(b"\n")[:-1]
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    few = lines if len(lines) <= 2 * SHOWN_COMPLETIONS else lines[:SHOWN_COMPLETIONS] + lines[-SHOWN_COMPLETIONS:]
    rows = [row_of(line, str(path)) for line in few]
    return pa.Table.from_pylist(
        [{k: v if isinstance(v, str) else json.dumps(v) for k, v in row.items()} for row in rows]
    )


def _concat(tables: Sequence[ArrowTable]) -> ArrowTable:
    some = [table for table in tables if table.num_columns]
    return pa.concat_tables(some, promote_options="permissive").unify_dictionaries() if some else pa.table({})


def _records(tables: dict[str, ArrowTable]) -> Records:
    frames = {name: table.to_pandas(self_destruct=True, split_blocks=True) for name, table in tables.items()}
    bad = frames["runs"]["unread"] != ""
    unread, frames["runs"] = frames["runs"].loc[bad, ["path", "unread"]], frames["runs"][~bad].reset_index(drop=True)
    if frames["runs"].empty:
        raise UserError("no run can be read: " + "; ".join(unread["unread"].head(3)))
    return Records(**frames, unread=unread)
