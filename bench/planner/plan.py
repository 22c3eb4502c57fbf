"""`bench plan`: what each method would need on given hardware, before anybody rents it. No engine, no weights."""

from collections.abc import Iterator
from dataclasses import replace

from bench.ground.errors import UserError
from bench.ground.words import GIB
from bench.machine.presets import Preset, load, parse_gpus
from bench.planner.config import SEARCHED, PlanConfig
from bench.planner.job import Job, Setting, Workload
from bench.planner.methods import method
from bench.planner.sizes import resolve


def plan(config: PlanConfig) -> int:
    """Print and write the plan; 0 when something fits, 1 when nothing does.

    Raises:
        UserError: what cannot be planned.
    """
    if config.validate:
        from bench.planner.validate import report

        return report(config.validate, config.out, quiet=config.quiet)
    from bench.planner import show

    planned = list(jobs(config))
    if config.weights_only:
        return show.weights(planned, config.quiet)
    return show.plans(planned, config, pinned(config))


def jobs(config: PlanConfig) -> Iterator[Job]:
    """One for each algorithm and configuration, at the preset's setting with the flags over it.

    Raises:
        UserError: unknown model, algorithm or hardware, or flags that contradict each other.
    """
    check(config)
    shape = resolve(config.model)
    reward = None
    if config.reward == "model":
        reward = resolve(config.reward_model) if config.reward_model else shape
    workload = Workload(
        prompt_tokens=config.prompt_tokens,
        completion_tokens=config.completion_tokens,
        samples_per_step=config.samples_per_step,
        verifier_s=config.verifier_s,
    )
    for preset in configurations(config):
        for name in config.algos:
            yield Job(
                model=config.model,
                shape=shape,
                method=method(name, config.kl_coef, config.group_size),
                workload=workload,
                preset=preset,
                setting=setting(config, preset),
                reward_shape=reward,
            )


def check(config: PlanConfig) -> None:
    """Refuse what cannot be planned."""
    positive = ("samples_per_step", "prompt_tokens", "completion_tokens", "micro_batch_tokens", "rollout_batch_size")
    for name in (*positive, "group_size", "tensor_parallel", "memory_gb"):
        value = getattr(config, name)
        if value is not None and value <= 0:
            raise UserError(f"--{name.replace('_', '-')} must be positive, got {value}")
    for name in ("lora_rank", "rollout_devices", "kl_coef", "price", "verifier_s"):
        value = getattr(config, name)
        if value is not None and value < 0:
            raise UserError(f"--{name.replace('_', '-')} must not be negative, got {value}")
    if config.completion_tokens < 2:
        raise UserError("--completion-tokens must be at least 2: the first comes with the prompt")
    if config.reward_model and config.reward == "rule":
        raise UserError("--reward-model is held only with --reward model")
    if not config.algos:
        raise UserError("--algos: name at least one algorithm")


def configurations(config: PlanConfig) -> list[Preset]:
    """What to plan for, by name."""
    if config.gpus:
        return [parse_gpus(spec, config.memory_gb) for spec in config.gpus]
    presets = [load(name) for name in config.presets]
    if config.memory_gb is None:
        return presets
    gib = config.memory_gb * 1e9 / GIB
    return [replace(preset, device=replace(preset.device, memory_gib=gib)) for preset in presets]


def setting(config: PlanConfig, preset: Preset) -> Setting:
    """The preset's, with the flags over it.

    Raises:
        UserError: flags that contradict each other.
    """
    start = Setting(
        train_engine=preset.train_engine,
        rollout_engine=preset.rollout_engine,
        dtype=config.dtype or preset.dtype,
        optimizer=config.optimizer,
        lora_rank=config.lora_rank,
        zero_stage=preset.zero_stage,
        micro_batch_tokens=preset.micro_batch_tokens,
        rollout_devices=preset.rollout_devices,
    )
    flags = {name: value for name in SEARCHED if (value := getattr(config, name)) is not None}
    if flags.get("train_engine") == "torch" and "zero_stage" not in flags:
        start = replace(start, zero_stage=0)
    if {"zero_stage", "offload"} & flags.keys() and "train_engine" not in flags:
        start = replace(start, train_engine="deepspeed")
    if flags.get("offload") == "params" and "zero_stage" not in flags:
        start = replace(start, zero_stage=3)
    chosen = replace(start, **flags)
    if found := chosen.contradictions(preset.num_devices):
        raise UserError(f"{preset.name}: {found[0]}")
    return chosen


def pinned(config: PlanConfig) -> frozenset[str]:
    """Fields of the setting that the search leaves alone."""
    return frozenset(name for name in SEARCHED if getattr(config, name) is not None)
