"""The cheapest setting that fits, by trying them all; and, where none does, the smallest change that would."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, get_args

from bench.ground.words import GIB
from bench.machine.presets import NETWORK_GB_PER_S, Efficiency, Preset, devices
from bench.planner.job import Job
from bench.planner.memory import Memory, fits_memory, memory_of_job
from bench.planner.setting import EngineSetting, Offload
from bench.planner.step_time import step_seconds

Feasible = Literal["no", "LoRA", "off-load", "fits"]
MAX_ROWS = 64  # of a micro-batch: more changes nothing but memory
LORA_RANK = 16  # of the suggestion


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A job with what it is predicted to need."""

    job: Job
    memory: Memory
    fits: bool
    seconds: dict[str, float] | None
    """By phase; None where the device's rates are not known."""

    @property
    def step_s(self) -> float | None:
        return sum(self.seconds.values()) if self.seconds else None

    @property
    def samples_per_s(self) -> float | None:
        return self.job.workload.samples_per_step / self.step_s if self.step_s else None

    @property
    def generated_tokens_per_s(self) -> float | None:
        rate = self.samples_per_s
        return rate * self.job.workload.completion_tokens if rate else None

    def gpu_hours(self, samples: float) -> float | None:
        """Device-hours for so many samples."""
        rate = self.samples_per_s
        return samples / rate / 3600 * self.job.preset.num_devices if rate else None


def plan_of_job(job: Job) -> Plan:
    """What the job needs as it is set."""
    held = memory_of_job(job)
    return Plan(job=job, memory=held, fits=fits_memory(job, held), seconds=step_seconds(job))


def cheapest_plan(job: Job, pinned: frozenset[str], *, runnable: bool = False) -> Plan | None:
    """The fitting setting with the least time a step (and so GPU-hours a sample); None where nothing fits.

    `pinned` names the fields of the setting that the user fixed; every other one is searched. Where no time can be
    predicted, the setting that leaves most memory free. `runnable`: of what `bench run` can do alone.
    """
    best: Plan | None = None
    for setting in candidate_settings(job, pinned):
        if runnable and setting.beyond_a_run(job.preset.num_devices - setting.rollout_devices):
            continue
        plan = _fill(replace(job, setting=setting), pinned)
        if plan is not None and (best is None or _cost(plan) < _cost(best)):
            best = plan
    return best


def candidate_settings(job: Job, pinned: frozenset[str]) -> Iterator[EngineSetting]:
    """Settings without contradictions, the two batch sizes aside."""
    preset, now = job.preset, job.setting
    count = preset.num_devices
    gpu = preset.device.name != "cpu"
    choices: dict[str, tuple[Any, ...]] = {
        "train_engine": ("torch", "deepspeed") if gpu else ("torch",),
        "rollout_engine": ("hf", "vllm") if gpu else ("hf",),
        "zero_stage": (0, 1, 2, 3),
        "offload": get_args(Offload),
        "gradient_checkpointing": (False, True),
        "rollout_devices": tuple(sorted({0, count // 4, count // 2})),
        "tensor_parallel": tuple(t for t in (1, 2, 4, 8, 16, 32, 64) if t <= count),
    }
    free = {name: (getattr(now, name),) if name in pinned else options for name, options in choices.items()}
    for values in product(*free.values()):
        setting = replace(now, **dict(zip(free, values, strict=True)))
        if not setting.contradictions(preset):
            yield setting


def _fill(job: Job, pinned: frozenset[str]) -> Plan | None:
    """The largest micro-batch and the largest rollout batch that fit, since a larger one is never slower."""
    w = job.workload
    unlimited = replace(job.setting, micro_batch_tokens=MAX_ROWS * w.sequence_tokens, rollout_batch_size=10**9)
    widest = replace(job, setting=unlimited)
    micro = [rows * w.sequence_tokens for rows in _halvings(widest.micro_rows)]
    batches = _halvings(widest.batch)
    if "micro_batch_tokens" in pinned:
        micro = [job.setting.micro_batch_tokens]
    if "rollout_batch_size" in pinned:
        batches = [job.setting.rollout_batch_size]
    smallest = replace(job.setting, micro_batch_tokens=micro[-1], rollout_batch_size=batches[-1])
    if not _fits(job, smallest):
        return None
    tokens = next(t for t in micro if _fits(job, replace(smallest, micro_batch_tokens=t)))
    batch = next(b for b in batches if _fits(job, replace(smallest, micro_batch_tokens=tokens, rollout_batch_size=b)))
    return plan_of_job(replace(job, setting=replace(smallest, micro_batch_tokens=tokens, rollout_batch_size=batch)))


def _fits(job: Job, setting: EngineSetting) -> bool:
    trial = replace(job, setting=setting)
    return fits_memory(trial, memory_of_job(trial))


def feasibility(job: Job) -> Feasible:
    """What it takes to fit at all, the smallest batches granted: nothing, off-load, LoRA beside it, or more devices."""
    for lora_rank in (0, LORA_RANK):
        trial = replace(job, setting=job.setting.adapted(lora_rank))
        fitting = {s.offload for s in candidate_settings(trial, frozenset()) if _fits(trial, _smallest(trial, s))}
        if fitting:
            return "LoRA" if lora_rank else "fits" if "none" in fitting else "off-load"
    return "no"


def _smallest(job: Job, setting: EngineSetting) -> EngineSetting:
    return replace(setting, micro_batch_tokens=job.workload.sequence_tokens, rollout_batch_size=1)


def _halvings(largest: int) -> list[int]:
    """largest, a half, a quarter ... 1."""
    return [largest] + (_halvings(largest // 2) if largest > 1 else [])


def _cost(plan: Plan) -> float:
    return plan.step_s if plan.step_s is not None else plan.memory.peak_bytes


def largest_micro_batch(job: Job) -> int:
    """Sequences of the largest micro-batch that fits at this setting, up to MAX_ROWS."""
    wide = replace(job, workload=replace(job.workload, samples_per_step=10**9))
    for rows in _halvings(MAX_ROWS):
        tokens = rows * job.workload.sequence_tokens
        setting = replace(job.setting, micro_batch_tokens=tokens, rollout_batch_size=job.batch)
        if _fits(wide, setting):
            return rows
    return 0


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """A change after which it fits."""

    change: str
    plan: Plan

    def __str__(self) -> str:
        peak = self.plan.memory.peak_bytes / GIB
        return f"{self.change}: {describe_setting(self.plan.job.setting)} ({peak:.0f} GiB a device)"


def remedies(job: Job, pinned: frozenset[str]) -> list[Remedy]:
    """What would make it fit, each tried: settings that were pinned, LoRA, more devices."""
    found: list[Remedy] = []
    if pinned and (plan := cheapest_plan(job, frozenset())):
        found.append(Remedy(change="other settings", plan=plan))
    adapters = replace(job, setting=job.setting.adapted(LORA_RANK))
    if not job.setting.lora_rank and (plan := cheapest_plan(adapters, frozenset())):
        found.append(Remedy(change=f"LoRA of rank {LORA_RANK}", plan=plan))
    more = (cheapest_plan(replace(job, preset=preset), frozenset()) for preset in _larger(job.preset))
    if plan := next((p for p in more if p), None):
        found.append(Remedy(change=plan.job.preset.name, plan=plan))
    return found


def _larger(preset: Preset) -> Iterator[Preset]:
    """More of the same devices (of the largest known, in a CPU's place), doubling to 1,024, in nodes of at most 8."""
    if preset.device.name == "cpu":
        largest = max(devices().values(), key=lambda d: d.memory_gib)
        preset = replace(preset, device=largest, dtype="bfloat16", train_engine="deepspeed", rollout_engine="vllm")
        preset = replace(preset, efficiency=Efficiency())
        yield replace(preset, name=f"1x{largest.name}")
    count = preset.num_devices * 2
    while count <= 1024:
        per_node = min(8, count)
        nodes = count // per_node
        name = f"{count}x{preset.device.name}" if nodes == 1 else f"{nodes}x{per_node}x{preset.device.name}"
        more = replace(preset, name=name, nodes=nodes, devices_per_node=per_node)
        yield replace(more, network_gb_per_s=preset.network_gb_per_s or NETWORK_GB_PER_S)
        count *= 2


def describe_setting(setting: EngineSetting) -> str:
    """The setting in a few words."""
    parts = [setting.train_engine + (f" ZeRO-{setting.zero_stage}" if setting.train_engine == "deepspeed" else "")]
    if setting.offload != "none":
        parts.append(f"{setting.offload} off-loaded")
    if setting.offload_reference:
        parts.append("reference off-loaded")
    if setting.lora_rank:
        parts.append(f"LoRA {setting.lora_rank}")
    if setting.gradient_checkpointing:
        parts.append("checkpointing")
    parts.append(f"micro-batch {setting.micro_batch_tokens} tokens")
    shared = f"{setting.rollout_devices} devices" if setting.rollout_devices else "the same devices"
    parts.append(f"{setting.rollout_engine} TP {setting.tensor_parallel} on {shared}")
    parts.append(f"{setting.rollout_batch_size} at once")
    return ", ".join(parts)
