"""How the engines of a run are set, as the planner sees it: from a preset, from a run, and back as a run's flags."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from bench.machine.placement import Placement
from bench.machine.presets import Dtype, Preset

Offload = Literal["none", "optimizer", "params"]
OptimizerName = Literal["adamw", "adamw8bit", "sgd"]
TrainEngineName = Literal["torch", "deepspeed"]
RolloutEngineName = Literal["hf", "vllm"]

FLAGS = {
    "train_engine": "--engine {}",
    "zero_stage": "--zero {}",
    "offload": "--offload {}",
    "lora_rank": "--lora.rank {}",
    "gradient_checkpointing": "--engine.gradient-checkpointing",
    "micro_batch_tokens": "--engine.micro-batch-tokens {}",
    "rollout_engine": "--rollout {}",
    "rollout_batch_size": "--engine.rollout-batch-size {}",
    "tensor_parallel": "--engine.tensor-parallel {}",
    "dtype": "--engine.dtype {}",
}  # of `bench run`; --rollout-devices and --optimizer are the planner's own
OFFLOADED = {"none": (), "optimizer": ("optimizer",), "params": ("optimizer", "params")}


@dataclass(frozen=True, kw_only=True)
class EngineSetting:
    """How the engines are set; what the search varies."""

    train_engine: TrainEngineName
    rollout_engine: RolloutEngineName
    dtype: Dtype
    optimizer: OptimizerName = "adamw"
    lora_rank: int = 0
    zero_stage: int = 0
    offload: Offload = "none"
    offload_reference: bool = False
    """The reference waits in the host's memory, too."""
    gradient_checkpointing: bool = False
    micro_batch_tokens: int = 8192
    rollout_batch_size: int = 256
    """Completions generated at once by one rollout replica."""
    rollout_devices: int = 0
    """Devices that only generate; 0: every device generates and trains in turn."""
    tensor_parallel: int = 1
    """Devices that share one rollout replica."""

    @classmethod
    def of_preset(cls, preset: Preset) -> Self:
        """What a run takes there unless it is told otherwise."""
        return cls(
            train_engine=preset.train_engine,
            rollout_engine=preset.rollout_engine,
            dtype=preset.dtype,
            zero_stage=preset.zero_stage,
            micro_batch_tokens=preset.micro_batch_tokens,
            rollout_devices=preset.rollout_devices,
        )

    @classmethod
    def of_run(cls, config: Mapping[str, Any]) -> Self:
        """A run's resolved settings, as its config.json holds them; one of an older version lacks the newest."""
        engine = config["engine"]
        return cls(
            train_engine=engine.get("train") or "torch",
            rollout_engine=engine.get("rollout", "hf"),
            dtype=engine["dtype"],
            lora_rank=config.get("lora", {}).get("rank", 0),
            zero_stage=engine.get("zero") or 0,
            offload=offload_of(engine.get("offload", ())),
            offload_reference="reference" in engine.get("offload", ()),
            gradient_checkpointing=engine["gradient_checkpointing"],
            micro_batch_tokens=engine["micro_batch_tokens"],
            rollout_batch_size=engine["rollout_batch_size"],
            tensor_parallel=engine.get("tensor_parallel", 1),
        )

    def adapted(self, rank: int) -> Self:
        """This with adapters of a rank, whose reference is the policy's own base; 0: none."""
        return replace(self, lora_rank=rank, offload_reference=self.offload_reference and not rank)

    def run_flags(self, but: Self | None = None) -> list[str]:
        """The flags by which a run is set like this; with `but`, those alone in which this differs from it."""
        found: list[str] = []
        for name, flag in FLAGS.items():
            value = self._flag_value(name)
            if but is not None and value == but._flag_value(name):
                continue
            if but is None and (value in (False, "") or (name == "zero_stage" and self.train_engine == "torch")):
                continue
            found.append(flag.format(value).rstrip())
        return found

    @property
    def offloaded(self) -> tuple[str, ...]:
        """What waits on the host, in the words of a run's `--offload`."""
        return OFFLOADED[self.offload] + (("reference",) if self.offload_reference else ())

    def _flag_value(self, name: str) -> Any:  # noqa: ANN401
        return ",".join(self.offloaded) if name == "offload" else getattr(self, name)

    def contradictions(self, preset: Preset) -> list[str]:
        """Why this setting cannot be; empty where it can."""
        num_devices = preset.num_devices
        placement = Placement(
            train=self.train_engine,
            rollout=self.rollout_engine,
            zero=self.zero_stage,
            offload=frozenset(self.offloaded),
            train_devices=num_devices - self.rollout_devices,
            tensor_parallel=self.tensor_parallel,
            adapters=self.lora_rank > 0,
            on_cpu=preset.device.name == "cpu",
        )
        shared, size = self.rollout_devices, self.tensor_parallel
        rules = [
            (shared and self.rollout_engine == "hf", "--rollout-devices needs --rollout vllm: hf generates in place"),
            (shared >= num_devices, f"--rollout-devices {shared} leaves none of {num_devices} devices to train on"),
            ((shared or num_devices) % size, f"--engine.tensor-parallel {size} must divide the devices that generate"),
        ]
        return placement.contradictions() + [message for wrong, message in rules if wrong]

    def beyond_a_run(self, train_devices: int) -> list[str]:
        """What of this the planner knows and `bench run` cannot do."""
        rules = [
            (self.rollout_devices, "devices that only generate"),
            (self.tensor_parallel > 1 and train_devices > 1, "a sampler over several devices beside several processes"),
            (self.lora_rank and self.train_engine == "deepspeed", "adapters under deepspeed"),
            (self.optimizer != "adamw", f"the optimizer {self.optimizer}"),
            (self.dtype == "float16", "float16"),
        ]
        return [what for wrong, what in rules if wrong]


def offload_of(kinds: Collection[str]) -> Offload:
    """A run's `--offload` as the planner has it: parameters imply the optimizer's states."""
    return "params" if "params" in kinds else "optimizer" if "optimizer" in kinds else "none"
