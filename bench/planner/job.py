"""What is planned: a model, a method, a workload, a configuration of devices, and a setting of the engines."""

from collections.abc import Collection
from dataclasses import dataclass
from math import ceil
from typing import Literal

from bench.machine.presets import Dtype, Preset
from bench.models.shape import ModelShape

Offload = Literal["none", "optimizer", "params"]
OptimizerName = Literal["adamw", "adamw8bit", "sgd"]
TrainEngineName = Literal["torch", "deepspeed"]
RolloutEngineName = Literal["hf", "vllm"]

BYTES: dict[Dtype, int] = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, kw_only=True)
class Method:
    """What of an algorithm costs anything: which models it holds, and how often it passes over the samples."""

    name: str
    critic: bool
    reference: bool
    group_size: int
    num_epochs: int = 1
    num_minibatches: int = 2
    critic_epochs: int = 1

    def models(self, *, reward_model: bool) -> int:
        """Models held, the policy among them."""
        return 1 + self.critic + self.reference + reward_model


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One step. Every completion is taken to use its whole budget, so memory is an upper bound."""

    prompt_tokens: int
    completion_tokens: int
    samples_per_step: int
    verifier_s: float = 0.005
    """Seconds of one processor core for one verdict."""
    verifier_workers: int = 16

    @property
    def sequence_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How the engines are set; what the search varies."""

    train_engine: TrainEngineName
    rollout_engine: RolloutEngineName
    dtype: Dtype
    optimizer: OptimizerName = "adamw"
    lora_rank: int = 0
    zero_stage: int = 0
    offload: Offload = "none"
    gradient_checkpointing: bool = False
    micro_batch_tokens: int = 8192
    rollout_batch_size: int = 256
    """Completions generated at once by one rollout replica."""
    rollout_devices: int = 0
    """Devices that only generate; 0: every device generates and trains in turn."""
    tensor_parallel: int = 1
    """Devices that share one rollout replica."""

    def contradictions(self, num_devices: int) -> list[str]:
        """Why this setting cannot be; empty where it can."""
        found: list[str] = []
        if self.train_engine == "torch" and (self.zero_stage or self.offload != "none"):
            found.append("ZeRO stages and off-loading need --train-engine deepspeed: the torch engine has none")
        if self.train_engine == "torch" and num_devices - self.rollout_devices > 1:
            found.append("the torch engine trains on one device: --train-engine deepspeed for more")
        if self.offload == "optimizer" and self.zero_stage == 0:
            found.append("--offload optimizer needs --zero-stage 1, 2 or 3")
        if self.offload == "params" and self.zero_stage < 3:
            found.append("--offload params needs --zero-stage 3")
        if self.rollout_devices and self.rollout_engine == "hf":
            found.append("the hf rollout engine generates from the weights being trained: --rollout-devices needs vllm")
        if self.rollout_devices >= num_devices:
            found.append(f"--rollout-devices {self.rollout_devices} leaves none of {num_devices} devices to train on")
        if self.rollout_engine == "hf" and self.tensor_parallel > 1:
            found.append("--tensor-parallel is vllm's: the hf rollout engine has one device a replica")
        if (self.rollout_devices or num_devices) % self.tensor_parallel:
            found.append(f"--tensor-parallel {self.tensor_parallel} must divide the devices that generate")
        return found


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything a prediction is a function of."""

    model: str
    shape: ModelShape
    method: Method
    workload: Workload
    preset: Preset
    setting: Setting
    reward_shape: ModelShape | None = None
    """A learned reward model; None where rules judge."""

    @property
    def train_devices(self) -> int:
        return self.preset.num_devices - self.setting.rollout_devices

    @property
    def replicas(self) -> int:
        """Rollout engines, each on `tensor_parallel` devices."""
        return max(1, (self.setting.rollout_devices or self.preset.num_devices) // self.setting.tensor_parallel)

    @property
    def batch(self) -> int:
        """Completions generated at once by one replica."""
        return min(self.setting.rollout_batch_size, ceil(self.workload.samples_per_step / self.replicas))

    @property
    def micro_rows(self) -> int:
        """Rows of one forward and backward pass: as many as the token budget holds, and no more than there are."""
        rows = self.setting.micro_batch_tokens // self.workload.sequence_tokens
        per_device = ceil(self.workload.samples_per_step / self.method.num_minibatches / self.train_devices)
        return max(1, min(rows, per_device))


def offload_of(kinds: Collection[str]) -> Offload:
    """A run's `--offload` as the planner has it: parameters imply the optimizer's states."""
    return "params" if "params" in kinds else "optimizer" if "optimizer" in kinds else "none"
