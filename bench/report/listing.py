"""What each arm was, every run, and where the figures come from."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from bench.ground.tree import flatten
from bench.report.groups import Arm, Setting
from bench.report.records import Frame, Records
from bench.report.tables import Cell, Row, Table, number, percent, text

HIDDEN = ("seed", "out", "name", "arm", "quiet", "track", "checkpoint_every", "completions_per_step")


def arms(settings: Sequence[Setting]) -> Table:
    """What each arm was: the settings in which the arms of a setting differ."""
    rows: list[Row] = []
    for setting in settings:
        flat = {arm.name: flatten(arm.config) for arm in setting.arms}
        names = sorted({name for config in flat.values() for name in config if not name.startswith(HIDDEN)})
        values = {name: [config.get(name, "") for config in flat.values()] for name in names}
        for name in names:
            if len(set(values[name])) > 1:
                shown = {arm: text(str(config.get(name, ""))) for arm, config in flat.items()}
                rows.append({"setting": text(setting.label), "differs in": text(name)} | shown)
        if len(setting.arms) == 1:
            rows.append({"setting": text(setting.label), "differs in": text("only one arm")})
    note = "Every setting in which the arms differ; all others are equal. The whole tree is in each run's config.json."
    return Table(name="arms", title="What was compared", note=note, rows=rows)


def runs(settings: Sequence[Setting]) -> Table:
    """One row a run, whatever became of it."""
    rows = [_run(s, arm, int(seed), row) for s in settings for arm in s.arms for seed, row in arm.runs.iterrows()]
    return Table(name="runs", title="Every run", note="Failed and diverged runs included.", rows=rows)


def unread(records: Records) -> Table:
    """What lay among the runs and is in no figure, with the reason."""
    rows: list[Row] = [
        {"folder": text(Path(row["path"]).name), "reason": text(row["unread"])}
        for row in records.unread.to_dict("records")
    ]
    note = "None of this report's figures holds anything of these folders."
    return Table(name="unread", title="Folders that could not be read", note=note, rows=rows)


def _run(setting: Setting, arm: Arm, seed: int, row: Frame) -> Row:
    def get(name: str) -> float | None:
        return float(row[name]) if name in row and row[name] == row[name] else None

    return {
        "setting": text(setting.label),
        "arm": text(arm.name),
        "seed": Cell(text=str(seed), value=seed),
        "status": text(row["status"]),
        "before": percent(get("start_accuracy")),
        "after": percent(get("final_accuracy")),
        "steps": number(get("num_steps")),
        "seconds": number(get("cost/device_s")),
        "message": text(row["message"]),
        "run": text(Path(row["path"]).name),
    }


def provenance(settings: Sequence[Setting]) -> Table:
    """Code, versions, hardware and data of each arm; more than one value means that the runs were not made alike."""
    rows: list[Row] = []
    for setting in settings:
        for arm in setting.arms:
            found = [cast(dict[str, Any], json.loads(p)) for p in arm.runs["provenance"]]
            rows.append(
                {
                    "setting": text(setting.label),
                    "arm": text(arm.name),
                    "commit": _all(
                        found, lambda p: str(p.get("commit", "unknown"))[:10] + "+ (dirty)" * bool(p.get("dirty"))
                    ),
                    "device": _all(found, lambda p: p.get("device")),
                    "versions": _all(found, lambda p: ", ".join(f"{k} {v}" for k, v in p.get("versions", {}).items())),
                    "data (test)": _all(found, lambda p: _data(p, "test")),
                    "data (train)": _all(found, lambda p: _data(p, "train")),
                    "prompt": _all(
                        found, lambda p: str((p.get("data") or {}).get("test", {}).get("template_sha256", ""))[:8]
                    ),
                    "checkpoint tested": text(str((arm.config.get("eval") or {}).get("checkpoint", ""))),
                    "first run": text(str(arm.runs["started_at"].min())),
                    "unsandboxed": _all(found, lambda p: "yes" if p.get("allow_unsandboxed") else ""),
                }
            )
    note = "As each run recorded it. A value that differs between the runs of an arm shows every variant."
    return Table(name="provenance", title="Provenance", note=note, rows=rows)


def _all(found: Sequence[dict[str, Any]], read: Callable[[dict[str, Any]], Any]) -> Cell:
    return text(" | ".join(sorted({str(value) for p in found if (value := read(p))})))


def _data(provenance: dict[str, Any], split: str) -> str:
    part = (provenance.get("data") or {}).get(split) or {}
    return f"{part.get('origin')}, {part.get('num_rows')} rows, sha256 {str(part.get('sha256'))[:8]}" if part else ""
