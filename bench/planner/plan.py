"""`bench plan`: what each method would need on given hardware, before anybody rents it. No engine, no weights."""

from collections.abc import Iterator
from dataclasses import replace

from bench.ground.errors import UserError
from bench.ground.words import GIB
from bench.machine.presets import Preset, load_preset, parse_gpus
from bench.planner.config import PlanConfig
from bench.planner.job import Job, Workload
from bench.planner.methods import method
from bench.planner.setting import EngineSetting
from bench.planner.sizes import resolve_shape


def plan(config: PlanConfig) -> int:
    """Print and write the plan; 0 when something fits, 1 when nothing does.

    Raises:
        UserError: what cannot be planned.
    """
    if config.validate:
        from bench.planner.validate import report_validation

        return report_validation(config.validate, config.out, quiet=config.quiet)
    from bench.planner import show

    planned = list(jobs_of_config(config))
    if config.weights_only:
        return show.show_weights(planned, config.quiet)
    return show.show_plans(planned, config, frozenset(config.pinned()))


def jobs_of_config(config: PlanConfig) -> Iterator[Job]:
    """One for each algorithm and configuration, at the preset's setting with the flags over it.

    Raises:
        UserError: unknown model, algorithm or hardware, or flags that contradict each other.
    """
    check_plan_config(config)
    shape = resolve_shape(config.model)
    reward = None
    if config.reward == "model":
        reward = resolve_shape(config.reward_model.path) if config.reward_model.path else shape
    workload = Workload(
        prompt_tokens=config.max_prompt_tokens,
        completion_tokens=config.sampling.max_new_tokens,
        samples_per_step=config.samples_per_step,
        verifier_s=config.verifier_s,
    )
    for preset in configurations(config):
        for name in config.algos:
            yield Job(
                model=config.model,
                shape=shape,
                method=method(name, config.algo.kl_coef, config.algo.group_size),
                workload=workload,
                preset=preset,
                setting=setting_on(config, preset),
                reward_shape=reward,
            )


def check_plan_config(config: PlanConfig) -> None:
    """Refuse what cannot be planned.

    Raises:
        UserError: says which flag, in one line.
    """
    engine = config.engine
    positive = {
        "samples-per-step": config.samples_per_step,
        "max-prompt-tokens": config.max_prompt_tokens,
        "sampling.max-new-tokens": config.sampling.max_new_tokens,
        "engine.micro-batch-tokens": engine.micro_batch_tokens,
        "engine.rollout-batch-size": engine.rollout_batch_size,
        "engine.tensor-parallel": engine.tensor_parallel,
        "algo.group-size": config.algo.group_size,
        "memory-gb": config.memory_gb,
    }
    not_negative = {
        "lora.rank": config.lora.rank,
        "rollout-devices": config.rollout_devices,
        "algo.kl-coef": config.algo.kl_coef,
        "price": config.price,
        "verifier-s": config.verifier_s,
    }
    rules = [(n is not None and n <= 0, f"--{name} must be positive, got {n}") for name, n in positive.items()]
    rules += [(n is not None and n < 0, f"--{name} must not be negative, got {n}") for name, n in not_negative.items()]
    rules += [
        (config.sampling.max_new_tokens < 2, "--sampling.max-new-tokens must be at least 2: one comes with the prompt"),
        (bool(config.reward_model.path) and config.reward == "rule", "--reward-model is held only with --reward model"),
        ("none" in engine.offload and len(engine.offload) > 1, "--offload none goes with nothing else"),
        (not config.algos, "--algos: name at least one algorithm"),
    ]
    if found := [message for wrong, message in rules if wrong]:
        raise UserError(found[0])


def configurations(config: PlanConfig) -> list[Preset]:
    """What to plan for, by name."""
    if config.gpus:
        return [parse_gpus(spec, config.memory_gb) for spec in config.gpus]
    presets = [load_preset(name) for name in config.presets]
    if config.memory_gb is None:
        return presets
    gib = config.memory_gb * 1e9 / GIB
    return [replace(preset, device=replace(preset.device, memory_gib=gib)) for preset in presets]


def setting_on(config: PlanConfig, preset: Preset) -> EngineSetting:
    """The preset's, with the flags over it.

    Raises:
        UserError: flags that contradict each other.
    """
    start = replace(
        EngineSetting.of_preset(preset),
        dtype=config.engine.dtype or preset.dtype,
        optimizer=config.optimizer,
        lora_rank=config.lora.rank,
    )
    flags = config.pinned()
    if flags.get("train_engine") == "torch" and "zero_stage" not in flags:
        start = replace(start, zero_stage=0)
    if {"zero_stage", "offload"} & flags.keys() and "train_engine" not in flags:
        start = replace(start, train_engine="deepspeed")
    if flags.get("offload") == "params" and "zero_stage" not in flags:
        start = replace(start, zero_stage=3)
    chosen = replace(start, **flags)
    if found := chosen.contradictions(preset):
        raise UserError(f"{preset.name}: {found[0]}")
    return chosen
