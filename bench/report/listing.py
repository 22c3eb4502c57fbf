"""What each arm was, every run, and where the figures come from."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from bench.ground.tree import flatten
from bench.report.comparison import Comparison
from bench.report.records import Frame
from bench.report.tables import Cell, Row, Table, number, percent, text

HIDDEN = ("seed", "out", "name", "arm", "quiet", "track", "checkpoint_every", "completions_per_step")


def arms(comparisons: Sequence[Comparison]) -> Table:
    """What each arm was: the settings in which the arms of a comparison differ."""
    rows: list[Row] = []
    for comparison in comparisons:
        flat = {arm.name: flatten(arm.config) for arm in comparison.arms}
        names = sorted({name for config in flat.values() for name in config if not name.startswith(HIDDEN)})
        values = {name: [config.get(name, "") for config in flat.values()] for name in names}
        for name in names:
            if len(set(values[name])) > 1:
                shown = {arm: text(str(config.get(name, ""))) for arm, config in flat.items()}
                rows.append({"setting": text(comparison.label), "differs in": text(name)} | shown)
        if len(comparison.arms) == 1:
            rows.append({"setting": text(comparison.label), "differs in": text("only one arm")})
    note = "Every setting in which the arms differ; all others are equal. The whole tree is in each run's config.json."
    return Table(name="arms", title="What was compared", note=note, rows=rows)


def runs(comparisons: Sequence[Comparison]) -> Table:
    """One row a run, whatever became of it."""
    rows: list[Row] = []
    for comparison in comparisons:
        rows += [
            _run(comparison, arm.name, int(seed), row) for arm in comparison.arms for seed, row in arm.runs.iterrows()
        ]
        for _, row in comparison.left_out.iterrows():
            rows.append(_run(comparison, row["arm"], int(row["seed"]), row) | {"left out": text(row["why"])})
    note = "Failed and diverged runs included."
    if any("left out" in row for row in rows):
        note += " A run that is left out counts in no other table; the reason stands beside it."
    return Table(name="runs", title="Every run", note=note, rows=rows)


def _run(comparison: Comparison, arm: str, seed: int, row: Frame) -> Row:
    def get(name: str) -> float | None:
        return float(row[name]) if name in row and row[name] == row[name] else None

    return {
        "setting": text(comparison.label),
        "arm": text(arm),
        "seed": Cell(text=str(seed), value=seed),
        "status": text(row["status"]),
        "before": percent(get("start_accuracy")),
        "after": percent(get("final_accuracy")),
        "steps": number(get("num_steps")),
        "seconds": number(get("cost/device_s")),
        "message": text(row["message"]),
        "run": text(Path(row["path"]).name),
    }


def provenance(comparisons: Sequence[Comparison]) -> Table:
    """Code, versions, hardware and data of each arm; more than one value means that the runs were not made alike."""
    rows: list[Row] = []
    for comparison in comparisons:
        for arm in comparison.arms:
            found = [cast(dict[str, Any], json.loads(p)) for p in arm.runs["provenance"]]
            rows.append(
                {
                    "setting": text(comparison.label),
                    "arm": text(arm.name),
                    "commit": _each_value(
                        found, lambda p: str(p.get("commit", "unknown"))[:10] + "+ (dirty)" * bool(p.get("dirty"))
                    ),
                    "device": _each_value(found, lambda p: p.get("device")),
                    "versions": _each_value(
                        found, lambda p: ", ".join(f"{k} {v}" for k, v in p.get("versions", {}).items())
                    ),
                    "data (test)": _each_value(found, lambda p: _data(p, "test")),
                    "data (train)": _each_value(found, lambda p: _data(p, "train")),
                    "prompt": _each_value(
                        found, lambda p: str((p.get("data") or {}).get("test", {}).get("template_sha256", ""))[:8]
                    ),
                    "checkpoint tested": text(str((arm.config.get("eval") or {}).get("checkpoint", ""))),
                    "first run": text(str(arm.runs["started_at"].min())),
                    "unsandboxed": _each_value(found, _unsandboxed),
                }
            )
    note = "As each run recorded it. A value that differs between the runs of an arm shows every variant."
    return Table(name="provenance", title="Provenance", note=note, rows=rows)


def _each_value(found: Sequence[dict[str, Any]], read: Callable[[dict[str, Any]], Any]) -> Cell:
    return text(" | ".join(sorted({str(value) for p in found if (value := read(p))})))


def _unsandboxed(provenance: dict[str, Any]) -> str:
    """Whether programs that the model wrote were run without protection for any split."""
    data: dict[str, dict[str, Any]] = provenance.get("data") or {}
    return "yes" if any(part.get("sandboxed") is False for part in data.values()) else ""


def _data(provenance: dict[str, Any], split: str) -> str:
    part = (provenance.get("data") or {}).get(split) or {}
    return f"{part.get('origin')}, {part.get('num_rows')} rows, sha256 {str(part.get('sha256'))[:8]}" if part else ""
