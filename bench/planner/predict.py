"""What a recorded run was to use, predicted from its settings and from the lengths and roles that it recorded."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from bench.ground.runs import read_document, read_steps
from bench.ground.tree import Tree
from bench.ground.words import GIB
from bench.machine.presets import Preset, devices, load_preset
from bench.planner.job import Job, Method, Workload
from bench.planner.memory import Memory, Role, memory_of_job
from bench.planner.setting import EngineSetting
from bench.planner.sizes import resolve_shape
from bench.planner.step_time import step_seconds

Steps = list[Tree]
LENGTHS = ("prompt/length_max", "completion/length_max")


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a report sets beside a run's own figures."""

    peak_gib: float
    """Peak of the update."""
    step_s: float | None
    generated_tokens_per_s: float | None


def predict(run: Path) -> Prediction:
    """What a run was to use, from its settings and the lengths and roles that it recorded.

    Raises:
        UserError: records of an older version, or a model that is not covered.
    """
    config, provenance, steps = records_of(run)
    job, rollout_job = jobs_of_run(config, provenance, steps, seen_method(config, steps))
    peak = peak_of("update", memory_of_job(job), memory_of_job(rollout_job)) / GIB
    seconds = step_seconds(job)
    if seconds is None:
        return Prediction(peak_gib=peak, step_s=None, generated_tokens_per_s=None)
    tokens = job.workload.samples_per_step * job.workload.completion_tokens
    return Prediction(peak_gib=peak, step_s=sum(seconds.values()), generated_tokens_per_s=tokens / seconds["rollout"])


def peak_of(phase: str, held: Memory, rolled: Memory) -> float:
    """Bytes at a phase's peak: the first update makes the optimizer's states, so no earlier phase has them."""
    source = rolled if phase == "rollout" else held
    absent = set[Role]() if phase == "update" else {"optimizer"}
    sums = [
        sum(size for role, size in roles.items() if role not in absent)
        for (_, name), roles in source.phases.items()
        if name.startswith(phase)
    ]
    return max(sums)


def jobs_of_run(config: Tree, provenance: Tree, steps: Steps, method: Method) -> tuple[Job, Job]:
    """The run as a job with the lengths that were seen, and with whole budgets, which the cache has room for."""
    preset = hardware_of_run(config, provenance)
    location = provenance["model"]["location"]
    prompt, completion = (int(max(row[name] for row in steps)) for name in LENGTHS)
    job = Job(
        model=config["model"],
        shape=resolve_shape(location if Path(location).exists() else config["model"]),
        method=method,
        workload=Workload(
            prompt_tokens=prompt,
            completion_tokens=max(2, completion),
            samples_per_step=config["samples_per_step"],
        ),
        preset=preset,
        reward_shape=resolve_shape(learned) if (learned := config.get("reward_model", {}).get("path")) else None,
        setting=EngineSetting.of_run(config),
    )
    budget = config["sampling"]["max_new_tokens"]
    return job, replace(job, workload=replace(job.workload, completion_tokens=budget))


def seen_method(config: Tree, steps: Steps) -> Method:
    """The algorithm's costs from the roles that the run reported, for readers of records, who load no algorithm."""
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


def hardware_of_run(config: Tree, provenance: Tree) -> Preset:
    """The device that the run had, at the rate of the matrix product that the run measured on it."""
    name = str(provenance["device"])
    device = next((d for d in devices().values() if re.search(d.match, name)), devices()["cpu"])
    preset = (
        load_preset("cpu")
        if device.name == "cpu"
        else replace(load_preset("1xH200"), name=f"1x{device.name}", device=device)
    )
    processes = provenance.get("processes", 1)
    preset = replace(preset, devices_per_node=processes)
    rate = provenance.get("peak_flops_per_s", 0) / processes
    if rate and device.peak_tflops is not None:
        device = replace(device, peak_tflops=device.peak_tflops | {config["engine"]["dtype"]: rate / 1e12})
    return replace(preset, device=device)


def records_of(run: Path) -> tuple[Tree, Tree, Steps]:
    """Configuration, provenance and steps of one run."""
    config = read_document(run, "config.json", "algo", "engine", "sampling", "critic")
    return config, read_document(run, "provenance.json", "model", "device"), read_steps(run, *LENGTHS)
