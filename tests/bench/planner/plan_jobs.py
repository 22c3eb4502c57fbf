"""Jobs for the planner's tests."""

from dataclasses import replace
from typing import Any

from bench.machine.presets import Preset, devices
from bench.planner.job import Job, Method, Workload
from bench.planner.setting import EngineSetting
from bench.planner.sizes import resolve_shape

PPO = Method(name="ppo", critic=True, reference=False, group_size=1)
GRPO = Method(name="grpo", critic=False, reference=True, group_size=8)
PLAIN = Method(name="plain", critic=False, reference=False, group_size=8)
WORKLOAD = Workload(prompt_tokens=200, completion_tokens=300, samples_per_step=256)


def preset(nodes: int = 1, per_node: int = 1, device: str = "A100-80GB") -> Preset:
    """Devices alone; settings come from the job."""
    network = 50.0 if nodes > 1 else None
    return Preset(
        name=f"{nodes}x{per_node}x{device}",
        device=devices()[device],
        nodes=nodes,
        devices_per_node=per_node,
        network_gb_per_s=network,
        host_memory_gib=1024,
    )


def job(model: str = "7b", method: Method = PLAIN, hardware: Preset | None = None, **setting: Any) -> Job:  # noqa: ANN401
    """A job at the given setting, plain torch in float32 on one A100 unless told otherwise."""
    chosen = {"train_engine": "torch", "rollout_engine": "hf", "dtype": "float32"} | setting
    return Job(
        model=model,
        shape=resolve_shape(model),
        method=method,
        workload=WORKLOAD,
        preset=hardware or preset(),
        setting=EngineSetting(**chosen),
    )


def deepspeed(stage: int, devices_per_node: int, nodes: int = 1, **setting: Any) -> Job:  # noqa: ANN401
    """bf16 training of the 7B model by ZeRO."""
    hardware = preset(nodes, devices_per_node)
    chosen = {"train_engine": "deepspeed", "rollout_engine": "vllm", "dtype": "bfloat16", "zero_stage": stage}
    return job(hardware=hardware, **chosen | setting)


def with_samples(base: Job, samples: int) -> Job:
    return replace(base, workload=replace(base.workload, samples_per_step=samples))
