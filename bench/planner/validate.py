"""`plan --validate RUNS`: prediction beside measurement, for each role and phase of recorded runs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
from rich.console import Console

from bench.ground.errors import UserError
from bench.ground.runs import read_document, read_steps
from bench.ground.words import GIB, ROLES, Phase
from bench.machine.presets import Preset, devices, load
from bench.planner import tables
from bench.planner.job import Job, Method, Workload
from bench.planner.memory import Memory, Role, memory
from bench.planner.methods import of_algorithm
from bench.planner.setting import EngineSetting
from bench.planner.sizes import resolve
from bench.planner.step_time import step_seconds

Tree = dict[str, Any]
Steps = list[Tree]
MEASURED_PHASES: tuple[Phase, ...] = ("rollout", "logprobs", "update")
LENGTHS = ("prompt/length_max", "completion/length_max")


@dataclass(frozen=True, kw_only=True)
class Checked:
    """One figure of one run; what was not measured is None."""

    run: str
    what: str
    unit: str
    predicted: float | None
    measured: float | None

    @property
    def error(self) -> float | None:
        """Of the prediction, as a share of the measurement."""
        if self.predicted is None or not self.measured:
            return None
        return self.predicted / self.measured - 1


def report(runs: Sequence[Path], out: Path, *, quiet: bool) -> int:
    """Print the comparison and write it as validation.{md,csv}.

    Raises:
        UserError: a directory without a run's records, or a model that is not covered.
    """
    rows = [row for run in runs for row in compare(run)]
    table = pd.DataFrame(
        [
            {
                "run": row.run,
                "what": row.what,
                "unit": row.unit,
                "predicted": row.predicted,
                "measured": row.measured,
                "error": None if row.error is None else f"{row.error:+.1%}",
            }
            for row in rows
        ]
    )
    Console(quiet=quiet).print(tables.markdown(table), soft_wrap=True)
    out.mkdir(parents=True, exist_ok=True)
    (out / "validation.md").write_text(tables.markdown(table) + "\n")
    table.to_csv(out / "validation.csv", index=False)
    print(f"wrote {out / 'validation.md'}")
    return 0


def compare(run: Path) -> list[Checked]:
    """Roles, phases and times of one run, in that order."""
    config, provenance, steps = _records(run)
    job, rollout_job = jobs(config, provenance, steps, recorded_method(config))
    held, rolled = memory(job), memory(rollout_job)
    label = f"{config['arm']}, {config['model']}"

    def largest(name: str) -> float | None:
        found = [row[name] for row in steps if name in row]
        return max(found) if found else None

    rows: list[Checked] = []
    for role in ROLES:
        source = rolled if role == "kv_cache" else held
        predicted = max(roles.get(role, 0.0) for roles in source.phases.values())
        measured = largest(f"memory/{role}_gib")
        if predicted or measured:
            rows.append(_gib(label, role, predicted, measured))
    for phase in MEASURED_PHASES:
        rows.append(_gib(label, f"peak of {phase}", _peak(phase, held, rolled), _measured_peak(phase, steps)))
    seconds = step_seconds(job) or {}
    for phase in MEASURED_PHASES:
        times = [row[f"time/{phase}_s"] for row in steps if f"time/{phase}_s" in row]
        measured = median(times) if times else None
        rows.append(Checked(run=label, what=f"{phase} time", unit="s", predicted=seconds[phase], measured=measured))
    return rows


def _peak(phase: str, held: Memory, rolled: Memory) -> float:
    """Before the first update the optimizer has made no states; the update's peak has them."""
    source = rolled if phase == "rollout" else held
    absent = set[Role]() if phase == "update" else {"optimizer"}
    sums = [
        sum(size for role, size in roles.items() if role not in absent)
        for (_, name), roles in source.phases.items()
        if name.startswith(phase)
    ]
    return max(sums)


def _measured_peak(phase: str, steps: Steps) -> float | None:
    """Of the first step outside the update: an allocator keeps what a phase gave back, and later phases show it."""
    name = f"memory/peak_gib/{phase}"
    found = [row[name] for row in steps if name in row]
    return None if not found else max(found) if phase == "update" else found[0]


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a report sets beside a run's own figures."""

    peak_gib: float
    """Of the update."""
    step_s: float | None
    generated_tokens_per_s: float | None


def predict(run: Path) -> Prediction:
    """From a run's settings, and the lengths and roles that it recorded.

    Raises:
        UserError: records of an older version, or a model that is not covered.
    """
    config, provenance, steps = _records(run)
    job, rollout_job = jobs(config, provenance, steps, seen_method(config, steps))
    peak = _peak("update", memory(job), memory(rollout_job)) / GIB
    seconds = step_seconds(job)
    if seconds is None:
        return Prediction(peak_gib=peak, step_s=None, generated_tokens_per_s=None)
    tokens = job.workload.samples_per_step * job.workload.completion_tokens
    return Prediction(peak_gib=peak, step_s=sum(seconds.values()), generated_tokens_per_s=tokens / seconds["rollout"])


def _gib(run: str, what: str, predicted: float, measured: float | None) -> Checked:
    return Checked(run=run, what=what, unit="GiB", predicted=predicted / GIB, measured=measured)


def jobs(config: Tree, provenance: Tree, steps: Steps, method: Method) -> tuple[Job, Job]:
    """The run as a job with the lengths that were seen, and with whole budgets, which the cache has room for."""
    preset = hardware(config, provenance)
    location = provenance["model"]["location"]
    prompt, completion = (int(max(row[name] for row in steps)) for name in LENGTHS)
    job = Job(
        model=config["model"],
        shape=resolve(location if Path(location).exists() else config["model"]),
        method=method,
        workload=Workload(
            prompt_tokens=prompt,
            completion_tokens=max(2, completion),
            samples_per_step=config["samples_per_step"],
        ),
        preset=preset,
        reward_shape=resolve(learned) if (learned := config.get("reward_model", {}).get("path")) else None,
        setting=EngineSetting.of_run(config),
    )
    budget = config["sampling"]["max_new_tokens"]
    return job, replace(job, workload=replace(job.workload, completion_tokens=budget))


def seen_method(config: Tree, steps: Steps) -> Method:
    """The same from the roles that the run reported, for readers of records, who load no algorithm."""
    algorithm = config["algo"]
    return Method(
        name=config["algo_name"],
        critic="memory/critic_gib" in steps[0],
        reference="memory/reference_gib" in steps[0],
        group_size=algorithm["group_size"],
        num_epochs=algorithm["num_epochs"],
        num_minibatches=algorithm["num_minibatches"],
        critic_epochs=config["critic"]["num_epochs"],
    )


def recorded_method(config: Tree) -> Method:
    """The algorithm's costs from its recorded settings."""
    from algorithms import ALGORITHMS

    name = config["algo_name"]
    if name not in ALGORITHMS:
        raise UserError(f"algorithm {name!r} of the run is not one of {', '.join(ALGORITHMS)}")
    return of_algorithm(name, ALGORITHMS[name](**config["algo"]), critic_epochs=config["critic"]["num_epochs"])


def hardware(config: Tree, provenance: Tree) -> Preset:
    """The device that the run had, at the rate of the matrix product that the run measured on it."""
    name = str(provenance["device"])
    device = next((d for d in devices().values() if re.search(d.match, name)), devices()["cpu"])
    preset = load("cpu") if device.name == "cpu" else replace(load("1xH200"), name=f"1x{device.name}", device=device)
    processes = provenance.get("processes", 1)
    preset = replace(preset, devices_per_node=processes)
    rate = provenance.get("peak_flops_per_s", 0) / processes
    if rate and device.peak_tflops is not None:
        device = replace(device, peak_tflops=device.peak_tflops | {config["engine"]["dtype"]: rate / 1e12})
    return replace(preset, device=device)


def _records(run: Path) -> tuple[Tree, Tree, Steps]:
    """Configuration, provenance and steps of one run."""
    config = read_document(run, "config.json", "algo", "engine", "sampling", "critic")
    return config, read_document(run, "provenance.json", "model", "device"), read_steps(run, *LENGTHS)
