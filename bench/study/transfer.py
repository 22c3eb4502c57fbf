"""How training on one task changes others: each finished run, and the model it started from, through `bench eval`."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.ground.files import read_rows
from bench.ground.moment import of_study
from bench.ground.runs import read_document
from bench.report.comparison import difference_by_seed
from bench.report.tables import Row, Table, percent, points, share, text
from bench.stats import estimate_share
from bench.study.board import last_line
from bench.study.launch import Outcome
from bench.study.schedule import place_parts

Settings = Sequence[str]  # flags of `bench eval`, equal for every checkpoint


def measure_transfer(outcomes: Sequence[Outcome], tasks: Settings, folder: Path, say: Callable[[str], None]) -> None:
    """Evaluate what is not yet evaluated, into one folder a checkpoint; a failure is said and leaves a gap."""
    for name, model, flags in checkpoints(outcomes):
        if list((folder / name).glob("*/summary.json")):
            continue
        log = folder / f"{name}.log"
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "bench", "eval", "--model", model, "--task", *tasks, *flags]
        with log.open("wb") as file:
            done = subprocess.run(
                [*command, "--out", str(folder / name), "--quiet"],
                stdout=file, stderr=subprocess.STDOUT, env={**os.environ, **of_study(folder.parent)}, check=False,
            )  # fmt: skip
        say(f"transfer {name}: {'done' if done.returncode == 0 else last_line(log)}")


def checkpoints(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, str, list[str]]]:
    """Name, model and flags of each finished run, and of the model that it started from, once."""
    seen: set[str] = set()
    for outcome in outcomes:
        if outcome.path is None or outcome.status != "finished":
            continue
        config = outcome.run.chosen.config
        flags = ["--limit", str(config.eval.limit or 500), "--num-samples", str(config.eval.num_samples)]
        flags += ["--max-new-tokens", str(config.sampling.generation_budget)]
        start = start_of(outcome.path)
        if start not in seen:
            seen.add(start)
            yield start_name(start), start, flags
        yield outcome.run.label, str(outcome.path), flags


def start_of(path: Path) -> str:
    """Where the run's first weights came from."""
    return str(read_document(path, "provenance.json", "model")["model"]["location"])


def start_name(location: str) -> str:
    """Of the folder for the untrained model."""
    return f"start-{Path(location).name}"


def accuracies(folder: Path) -> dict[str, float]:
    """Task -> greedy accuracy; empty where the evaluation failed."""
    rows: list[dict[str, Any]] = []
    for path in folder.glob("*/evals.jsonl"):
        rows += read_rows(path)
    return {row["task"]: float(row["accuracy"]) for row in rows}


def transfer_table(outcomes: Sequence[Outcome], folder: Path) -> Table:
    """Accuracy on each other task before and after, by arm."""
    gains: dict[tuple[str, str, str], dict[int, tuple[float, float]]] = {}
    arms: dict[tuple[str, str], int] = {}
    for outcome in outcomes:
        run = outcome.run
        key = ", ".join(place_parts(run.place))
        arms[key, run.arm] = arms.get((key, run.arm), 0) + 1
        if outcome.path is None or outcome.status != "finished":
            continue
        before, after = accuracies(folder / start_name(start_of(outcome.path))), accuracies(folder / run.label)
        for task in before.keys() & after.keys():
            gains.setdefault((key, run.arm, task), {})[run.chosen.config.seed] = before[task], after[task]
    rows: list[Row] = []
    for (key, arm, task), found in sorted(gains.items()):
        sides = [{seed: pair[side] for seed, pair in found.items()} for side in (0, 1)]
        rows.append(
            {
                "trained on": text(key),
                "arm": text(arm),
                "tested on": text(task),
                "before": percent(sides[0][next(iter(found))]),
                "after": percent(estimate_share(list(sides[1].values()))),
                "gain": points(difference_by_seed(sides[1], sides[0])),
                "runs": share(len(found), arms[key, arm]),
            }
        )
    note = "Greedy test accuracy on tasks that were not trained on, in percent; gain in points with a 95% t interval."
    return Table(name="transfer", title="Transfer to other tasks", note=note, rows=rows)
