"""The records of an R1 pipeline: arms, their seeds, and the stages of each, with what was measured after it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.ground.errors import UserError
from bench.ground.files import read_json, read_rows

Facts = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of one arm and seed, as it was recorded."""

    label: str  # "2 reason"
    facts: Facts
    figures: Facts
    folder: Path


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One arm: its seeds, each with its stages in order."""

    name: str
    seeds: dict[int, list[Stage]]

    @property
    def labels(self) -> list[str]:
        """The stages that every seed has, in order."""
        first, *rest = self.seeds.values()
        return [s.label for s in first if all(s.label in [t.label for t in other] for other in rest)]

    def values(self, label: str, name: str) -> list[float]:
        """A figure of one stage over the seeds that have it."""
        found = [stage.figures.get(name) for stages in self.seeds.values() for stage in stages if stage.label == label]
        return [float(value) for value in found if value is not None]


def arms_in(out: Path) -> list[Arm]:
    """The arms of a pipeline folder.

    Raises:
        UserError: it is none.
    """
    if not (out / "arms.json").is_file():
        raise UserError(f"{out}: no pipeline: it has no arms.json; make one by python -m bench pipeline r1 --out {out}")
    found: dict[str, dict[int, list[Stage]]] = {}
    for row in read_json(out / "arms.json")["arms"]:
        found.setdefault(row["arm"], {})[row["seed"]] = [stage_in(out / name) for name in row["stages"]]
    return [Arm(name=name, seeds=dict(sorted(seeds.items()))) for name, seeds in found.items()]


def stage_in(folder: Path) -> Stage:
    """A stage's records."""
    record = read_json(folder / "stage.json")
    figures = read_json(folder / "eval.json") if (folder / "eval.json").exists() else {}
    label = "base" if record["name"] == "base" else f"{record['stage']} {record['name']}"
    return Stage(label=label, facts=record["facts"], figures=figures, folder=folder)


def runs_of(arm: Arm) -> list[list[Facts]]:
    """The steps of the runs with general prompts, by seed."""
    found = [s for stages in arm.seeds.values() for s in stages if s.label.startswith("4 general")]
    return [read_rows(run.parent / "steps.jsonl") for s in found for run in (s.folder / "run").glob("*/config.json")]
