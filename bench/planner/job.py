"""What is planned: a model, a method, a workload, a configuration of devices, and a setting of the engines."""

from dataclasses import dataclass
from math import ceil

from bench.machine.presets import Dtype, Preset
from bench.models.shape import ModelShape
from bench.planner.setting import EngineSetting

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
class Job:
    """Everything a prediction is a function of."""

    model: str
    shape: ModelShape
    method: Method
    workload: Workload
    preset: Preset
    setting: EngineSetting
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
