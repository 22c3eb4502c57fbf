"""The flags of `bench plan`: a run's own wherever a run has them, so that either's can be pasted into the other."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from bench.machine.presets import AUTO, Dtype
from bench.planner.setting import OptimizerName, RolloutEngineName, TrainEngineName, offload_of


@dataclass(frozen=True, kw_only=True)
class PlannedAlgorithm:
    """What of the algorithms changes a plan."""

    kl_coef: float | None = None
    """Weight of the KL term; 0 needs no reference. None: each algorithm's own."""
    group_size: int | None = None
    """Completions sampled for each prompt. None: each algorithm's own."""


@dataclass(frozen=True, kw_only=True)
class PlannedSampling:
    """How much is generated."""

    max_new_tokens: int = 1024
    """Generation budget of a completion; every completion is taken to use all of it, for an upper bound."""


@dataclass(frozen=True, kw_only=True)
class PlannedLora:
    """Low-rank adapters in place of every weight."""

    rank: int = 0
    """Rank of the adapters; 0 trains every weight."""


@dataclass(frozen=True, kw_only=True)
class PlannedReward:
    """A learned reward model."""

    path: str | None = None
    """The reward model, named as --model is; `--reward-model` for short. None: one of the policy's own size."""


@dataclass(frozen=True, kw_only=True)
class PlannedEngine:
    """The engines' settings; all but dtype are searched where nothing is given."""

    train: TrainEngineName | None = None
    """Engine that trains; `--engine` for short. None: whichever is cheapest."""
    rollout: RolloutEngineName | None = None
    """Engine that generates; `--rollout` for short. None: whichever is cheapest."""
    dtype: Dtype | None = None
    """Arithmetic of the models. None: the preset's."""
    zero: Literal[0, 1, 2, 3] | None = None
    """What deepspeed shares out: 1 optimizer states, 2 gradients too, 3 weights too; `--zero` for short."""
    offload: tuple[Literal["none", "optimizer", "params", "reference"], ...] = ()
    """What waits in the host's memory; `--offload` for short. None given: whatever is cheapest; `none`: nothing."""
    gradient_checkpointing: bool | None = None
    """Whether activations are computed again in the backward pass. None: whichever is cheapest."""
    micro_batch_tokens: int | None = None
    """Padded tokens of one forward and backward pass. None: the most that fit."""
    rollout_batch_size: int | None = None
    """Most completions that one replica of the sampler generates at once. None: the most that fit."""
    tensor_parallel: int | None = None
    """Devices of one replica of the sampler. None: whichever number is cheapest."""


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
    reward_model: PlannedReward = field(default_factory=PlannedReward)
    algo: PlannedAlgorithm = field(default_factory=PlannedAlgorithm)
    samples_per_step: int = 512
    """Completions of one step, equal for every algorithm."""
    max_prompt_tokens: int = 512
    """Length of every prompt, for an upper bound."""
    sampling: PlannedSampling = field(default_factory=PlannedSampling)
    verifier_s: float = 0.005
    """Seconds of one core for one verdict."""
    optimizer: OptimizerName = "adamw"
    """What the optimizer keeps: adamw 8 bytes a parameter, adamw8bit 2, sgd none."""
    lora: PlannedLora = field(default_factory=PlannedLora)
    engine: PlannedEngine = field(default_factory=PlannedEngine)
    rollout_devices: int | None = None
    """Devices that only generate; 0: all generate and train in turn."""
    budget: str = "samples=100000"
    """What the run is to use, for GPU-hours and cost: steps=N, samples=N, tokens=N (generated) or seconds=N."""
    price: float | None = None
    """Price of one device for an hour, in any currency; without it no cost is shown."""
    weights_only: bool = False
    """Show the bytes of the weights alone, in --engine.dtype, in GB: the usual first estimate."""
    plots: bool = False
    """Draw memory by role, what fits, and cost against the group size."""
    validate: tuple[Path, ...] = ()
    """Run directories: set prediction against what was measured there, and plan nothing."""
    out: Path = Path("results/plans")
    """Folder for the tables and plots."""
    quiet: bool = False
    """Print the closing line only."""

    def pinned(self) -> dict[str, Any]:
        """The fields of an `EngineSetting` that flags fix; the search leaves them alone."""
        engine = self.engine
        given = {
            "train_engine": engine.train,
            "rollout_engine": engine.rollout,
            "zero_stage": engine.zero,
            "offload": offload_of(engine.offload) if {*engine.offload} - {"reference"} else None,
            "offload_reference": True if "reference" in engine.offload else None,
            "gradient_checkpointing": engine.gradient_checkpointing,
            "micro_batch_tokens": engine.micro_batch_tokens,
            "rollout_batch_size": engine.rollout_batch_size,
            "rollout_devices": self.rollout_devices,
            "tensor_parallel": engine.tensor_parallel,
        }
        return {name: value for name, value in given.items() if value is not None}
