"""The flags of `bench plan`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from bench.machine.presets import AUTO, Dtype
from bench.planner.job import Offload, OptimizerName


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
