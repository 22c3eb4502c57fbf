"""`bench plan`: what each method would need on given hardware, before anybody rents it. No engine, no weights."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from bench.planner.job import Job, Offload, OptimizerName, Setting, Workload
from bench.planner.methods import method
from bench.planner.models import resolve
from bench.presets import AUTO, Dtype, Preset, load, parse_gpus


@dataclass(frozen=True, kw_only=True)
class PlanConfig:
    """Predict memory, time and cost. What is left at None is searched for the cheapest setting that fits."""

    model: str = "7b"
    """A size of the table (0.5b, 1.5b, 3b, 7b, 14b, 32b, 67b, 671b), a hub id, or a folder with a config.json."""
    algos: Annotated[tuple[str, ...], tyro.conf.arg(aliases=["--algo"])] = ("ppo", "grpo")
    """Algorithms to plan for."""
    presets: Annotated[tuple[str, ...], tyro.conf.arg(aliases=["--preset"])] = (AUTO,)
    """Configurations by name; they need not be here. auto: what this machine has."""
    gpus: tuple[str, ...] = ()
    """COUNTxDEVICE or NODESxCOUNTxDEVICE, such as 4xA100-80GB; takes the place of presets."""
    memory_gb: float | None = None
    """Memory of one device, for a device that is not in the table."""
    reward: Literal["rule", "model"] = "rule"
    """Whether rules judge, or a learned reward model that is held, too."""
    reward_model: str | None = None
    """The reward model, named as `model` is. None: one of the policy's own size."""
    kl_coef: float | None = None
    """KL coefficient; 0 needs no reference. None: each algorithm's own."""
    group_size: int | None = None
    """Completions a prompt. None: each algorithm's own."""
    samples_per_step: int = 512
    """Completions of one step, equal for every algorithm."""
    prompt_tokens: int = 512
    """Length of a prompt."""
    completion_tokens: int = 1024
    """Length of a completion: the generation budget, for an upper bound."""
    verifier_s: float = 0.005
    """Seconds of one core for one verdict."""
    dtype: Dtype | None = None
    """Arithmetic. None: the preset's."""
    optimizer: OptimizerName = "adamw"
    """What the optimizer keeps: adamw 8 bytes a parameter, adamw8bit 2, sgd none."""
    lora_rank: int = 0
    """Rank of LoRA adapters; 0 trains every weight."""
    train_engine: Literal["torch", "deepspeed"] | None = None
    rollout_engine: Literal["hf", "vllm"] | None = None
    zero_stage: Literal[0, 1, 2, 3] | None = None
    """DeepSpeed's ZeRO stage."""
    offload: Offload | None = None
    """What waits in the host's memory."""
    gradient_checkpointing: bool | None = None
    """Recompute activations in the backward pass."""
    micro_batch_tokens: int | None = None
    """Tokens of one forward and backward pass."""
    rollout_batch_size: int | None = None
    """Completions generated at once by one rollout replica."""
    rollout_devices: int | None = None
    """Devices that only generate; 0: all generate and train in turn."""
    tensor_parallel: int | None = None
    """Devices of one rollout replica."""
    budget: str = "samples=100000"
    """What the run is to use, for GPU-hours and cost: steps=N, samples=N, tokens=N (generated) or seconds=N."""
    price: float | None = None
    """Of one device for an hour, in any currency; without it no cost is shown."""
    weights_only: bool = False
    """Show the bytes of the weights alone, in `dtype`, in GB: the usual first estimate."""
    plots: bool = False
    """Draw memory by role, what fits, and cost against the group size."""
    validate: tuple[Path, ...] = ()
    """Run directories: set prediction against what was measured there, and plan nothing."""
    out: Path = Path("results/plans")
    """Folder for the tables and plots."""
    quiet: bool = False
    """Print the closing line only."""


SEARCHED = (
    "train_engine",
    "rollout_engine",
    "zero_stage",
    "offload",
    "gradient_checkpointing",
    "micro_batch_tokens",
    "rollout_batch_size",
    "rollout_devices",
    "tensor_parallel",
)


def plan(config: PlanConfig) -> int:
    """Print and write the plan; 0 when something fits, 1 when nothing does, 2 after one line for a user's mistake."""
    try:
        if config.validate:
            from bench.planner.validate import report

            return report(config.validate, config.out, quiet=config.quiet)
        return _plan(config)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _plan(config: PlanConfig) -> int:
    from bench.planner import show

    planned = list(jobs(config))
    if config.weights_only:
        return show.weights(planned, config.quiet)
    return show.plans(planned, config, pinned(config))


def jobs(config: PlanConfig) -> Iterator[Job]:
    """One for each algorithm and configuration, at the preset's setting with the flags over it.

    Raises:
        ValueError: unknown model, algorithm or hardware, or flags that contradict each other.
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
            raise ValueError(f"--{name.replace('_', '-')} must be positive, got {value}")
    for name in ("lora_rank", "rollout_devices", "kl_coef", "price", "verifier_s"):
        value = getattr(config, name)
        if value is not None and value < 0:
            raise ValueError(f"--{name.replace('_', '-')} must not be negative, got {value}")
    if config.completion_tokens < 2:
        raise ValueError("--completion-tokens must be at least 2: the first comes with the prompt")
    if config.reward_model and config.reward == "rule":
        raise ValueError("--reward-model is held only with --reward model")
    if not config.algos:
        raise ValueError("--algos: name at least one algorithm")


def configurations(config: PlanConfig) -> list[Preset]:
    """What to plan for, by name."""
    if config.gpus:
        return [parse_gpus(spec, config.memory_gb) for spec in config.gpus]
    presets = [load(name) for name in config.presets]
    if config.memory_gb is None:
        return presets
    gib = config.memory_gb * 1e9 / 2**30
    return [replace(preset, device=replace(preset.device, memory_gib=gib)) for preset in presets]


def setting(config: PlanConfig, preset: Preset) -> Setting:
    """The preset's, with the flags over it.

    Raises:
        ValueError: flags that contradict each other.
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
        raise ValueError(f"{preset.name}: {found[0]}")
    return chosen


def pinned(config: PlanConfig) -> frozenset[str]:
    """Fields of the setting that the search leaves alone."""
    return frozenset(name for name in SEARCHED if getattr(config, name) is not None)
