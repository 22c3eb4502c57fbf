"""Where memory ran out, the change of settings that costs least and would fit: each is tried by the planner's formulas.

A prediction below what the device has, of settings that did not fit, is too low: what replaces them must then be
predicted to need a fifth less.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bench.config import RunConfig
from bench.ground.tree import plain
from bench.ground.words import GIB
from bench.machine.presets import Preset
from bench.models.shape import ModelShape
from bench.planner.job import Job, Workload
from bench.planner.memory import Phase, memory_of_job
from bench.planner.methods import of_algorithm
from bench.planner.search import LORA_RANK
from bench.planner.setting import EngineSetting

MARGIN = 0.8
GENERATION = ("rollout", "evaluate", "sync")


def advice(config: RunConfig, shape: ModelShape | None, preset: Preset, place: list[str]) -> str:
    """What to do about it. `place`: whose memory, if that is known, and the phase."""
    if shape is None:
        return "no plan knows this architecture: halve --engine.micro-batch-tokens and --engine.rollout-batch-size"
    job = job_of_run(config, shape, preset)
    phase = phase_of(place)
    needed = bytes_of(job, phase)
    device = preset.device
    limit = min((device.memory_gib - device.context_gib) * GIB, MARGIN * needed)
    for setting in cheaper_settings(job, phase):
        if bytes_of(replace(job, setting=setting), phase) <= limit:
            return f"start again with {' '.join(setting.run_flags(but=job.setting))}"
    return "no setting would do: python -m bench plan says which devices would"


def job_of_run(config: RunConfig, shape: ModelShape, preset: Preset) -> Job:
    """The run as the planner sees it, every prompt and completion at its limit."""
    return Job(
        model=config.model,
        shape=shape,
        method=of_algorithm("", config.algo, critic_epochs=config.critic.num_epochs),
        workload=Workload(
            prompt_tokens=config.max_prompt_tokens,
            completion_tokens=max(2, config.sampling.generation_budget),
            samples_per_step=config.samples_per_step,
        ),
        preset=preset,
        setting=EngineSetting.of_run(plain(config)),
    )


def phase_of(place: list[str]) -> Phase | None:
    """The planner's name of the phase; None for loading, which no batch size helps."""
    *roles, phase = place
    if phase == "update":
        return "update_critic" if "critic" in roles else "update_policy"
    if phase in GENERATION:
        return "rollout"
    return "logprobs" if phase == "logprobs" else None


def bytes_of(job: Job, phase: Phase | None) -> float:
    """Predicted on the fullest device, what a process holds before any tensor apart."""
    phases = [roles for (_, name), roles in memory_of_job(job).phases.items() if phase in (None, name)]
    return max(sum(size for role, size in roles.items() if role != "context") for roles in phases)


def cheaper_settings(job: Job, phase: Phase | None) -> Iterator[EngineSetting]:
    """From the cheapest: smaller batches, recomputed activations, higher stages, what waits on the host, adapters."""
    now = job.setting
    ways: list[dict[str, Any]] = [{}, {"gradient_checkpointing": True}]
    if now.train_engine == "deepspeed":
        ways += [{"gradient_checkpointing": True, "zero_stage": stage} for stage in range(now.zero_stage + 1, 4)]
    if not now.lora_rank:
        host = {"train_engine": "deepspeed", "gradient_checkpointing": True}
        ways += [host | {"zero_stage": max(1, now.zero_stage), "offload": "optimizer"}]
        ways += [host | {"zero_stage": 3, "offload": "params"}]
        if now.train_engine == "torch":
            ways += [{"gradient_checkpointing": True, "lora_rank": LORA_RANK, "offload_reference": False}]
    for way in ways:
        if phase == "rollout":
            yield from (replace(now, **way, rollout_batch_size=n) for n in halvings(now.rollout_batch_size, 1))
        else:
            floor = job.workload.sequence_tokens
            yield from (replace(now, **way, micro_batch_tokens=n) for n in halvings(now.micro_batch_tokens, floor))


def halvings(now: int, least: int) -> list[int]:
    """now, a half, a quarter ... while that is `least` or more."""
    return [now] + (halvings(now // 2, least) if now // 2 >= least else [])
