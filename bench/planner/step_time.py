"""Seconds of one step by phase: a roofline over counted work and bytes, at the preset's stated efficiencies.

    compute     operations / (devices x peak x efficiency)
    decode      passes x max(operations / (t x peak x e), bytes / (t x bandwidth x e)) + tensor parallel's reductions,
                where a pass reads the weights once (a mixture: the experts that b tokens are expected to touch) and the
                cache of b rows at half their completion; launching kernels comes on top
    update      max(compute, communication of ZeRO and off-load) + the optimizer's own traffic
    sync        the policy's weights over the link, or within the device; 0 where the rollout engine shares them
    score       verdicts over the verifier's workers, and the reward model's forward pass

Phases follow one another: nothing here overlaps generation with training.
"""

from dataclasses import dataclass
from math import ceil, log2

from bench.machine.presets import Preset
from bench.models import flops
from bench.models.shape import ModelShape
from bench.planner.job import BYTES, Job

REDUCTION_S = 10e-6  # latency of one all-reduce inside a node
HOST_SLOWDOWN = 20  # a host's memory against a GPU's, for the optimizer's own traffic: our estimate


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Of one device, with every figure known."""

    flops_per_s: float
    bytes_per_s: float
    link_per_s: float | None
    host_per_s: float | None


def device_rates(preset: Preset, dtype: str) -> Rates | None:
    """None where the device's rates are not known: no time is then predicted."""
    device, e = preset.device, preset.efficiency
    if device.peak_tflops is None or device.bandwidth_gb_per_s is None:
        return None
    link = preset.network_gb_per_s if preset.nodes > 1 else device.link_gb_per_s
    return Rates(
        flops_per_s=device.peak_tflops[dtype] * 1e12,
        bytes_per_s=device.bandwidth_gb_per_s * 1e9,
        link_per_s=link * 1e9 * e.link if link else None,
        host_per_s=device.host_link_gb_per_s * 1e9 * e.link if device.host_link_gb_per_s else None,
    )


def step_seconds(job: Job) -> dict[str, float] | None:
    """Seconds of each phase; None where the device's rates are not known."""
    r = device_rates(job.preset, job.setting.dtype)
    if r is None:
        return None
    return {
        "rollout": rollout_seconds(job, r),
        "score": score_seconds(job, r),
        "logprobs": logprobs_seconds(job, r),
        "update": update_seconds(job, r),
        "sync": sync_seconds(job, r),
    }


def rollout_seconds(job: Job, r: Rates) -> float:
    """Prefill once for each prompt, then decode in waves of `batch` rows on each replica."""
    s, w, e, shape = job.setting, job.workload, job.preset.efficiency, job.shape
    prompts = ceil(w.samples_per_step / job.method.group_size)
    devices = job.replicas * s.tensor_parallel
    prefill = flops.prefill_flops(shape, [w.prompt_tokens]) * prompts / (devices * r.flops_per_s * e.prefill)
    passes = (w.completion_tokens - 1) * w.samples_per_step / job.replicas / job.batch
    work = flops.decode_flops(shape, [w.prompt_tokens], [w.completion_tokens]) / (w.completion_tokens - 1) * job.batch
    cached = job.batch * (w.prompt_tokens + w.completion_tokens / 2) * shape.kv_width * shape.layers
    # DeepSeek's latent cache is not split over a replica, so its traffic is not either
    cached *= s.tensor_parallel if shape.kv_rank else 1
    read = decode_bytes(job) + cached * BYTES[s.dtype]
    compute = work / (s.tensor_parallel * r.flops_per_s * e.decode_compute)
    traffic = read / (s.tensor_parallel * r.bytes_per_s * e.decode_bandwidth)
    launches = shape.layers * (e.hf_layer_s if s.rollout_engine == "hf" else e.vllm_layer_s)
    return prefill + passes * (max(compute, traffic) + launches + _reductions(job))


def decode_bytes(job: Job) -> float:
    """Weights that one decoding pass reads on a replica, in the dtype that the engine holds them in."""
    shape, s = job.shape, job.setting
    width = 4 if s.rollout_engine == "hf" and s.train_engine == "torch" and not s.lora_rank else BYTES[s.dtype]
    experts = shape.mixture_layers * shape.num_experts * shape.expert_weights
    dense = shape.params - experts - (0 if shape.tied else shape.vocab * shape.hidden)
    if not shape.num_experts:
        return width * dense
    touched = 1 - (1 - shape.experts_per_token / shape.num_experts) ** job.batch
    return width * (dense + experts * touched)


def _reductions(job: Job) -> float:
    """Two all-reduces a layer, where a replica spans devices; across nodes at the network's rate."""
    t = job.setting.tensor_parallel
    if t == 1:
        return 0.0
    across = t > job.preset.devices_per_node
    link = job.preset.network_gb_per_s if across else job.preset.device.link_gb_per_s
    size = BYTES[job.setting.dtype] * job.batch * job.shape.hidden
    transfer = 2 * size * (t - 1) / t / (link * 1e9 * job.preset.efficiency.link) if link else 0.0
    return 2 * job.shape.layers * (REDUCTION_S * log2(t) + transfer)


def score_seconds(job: Job, r: Rates) -> float:
    """The slower half waits for nothing: verdicts first, then the reward model."""
    w = job.workload
    seconds = w.verifier_s * w.samples_per_step / w.verifier_workers
    if job.reward_shape is not None:
        seconds += _forward_seconds(job, r, job.reward_shape, head=1)
    return seconds


def logprobs_seconds(job: Job, r: Rates) -> float:
    """Forward passes before the update: the policy's, and where they are needed the reference's and the critic's."""
    seconds = _forward_seconds(job, r, job.shape) * (1 + job.method.reference)
    if job.method.reference and job.setting.offload_reference and r.host_per_s:
        one = job.setting.train_engine == "torch"  # which brings it whole, once a step; DeepSpeed a part at a time
        moved = 4 * job.shape.params if one else BYTES[job.setting.dtype] * job.shape.params * _micro_batches(job)
        seconds += moved / job.train_devices / r.host_per_s
    return seconds + (_forward_seconds(job, r, job.shape, head=1) if job.method.critic else 0.0)


def update_seconds(job: Job, r: Rates) -> float:
    """Policy and critic, each its own passes."""
    seconds = _train_seconds(job, r, job.shape.params, job.method.num_epochs, head=None)
    if job.method.critic:
        seconds += _train_seconds(job, r, job.shape.critic_params, job.method.critic_epochs, head=1)
    return seconds


def sync_seconds(job: Job, r: Rates) -> float:
    """The policy's weights into the rollout engine: every device of a replica gathers all of them, layer by layer.

    Where each device trains with whole weights and generates, too, they are read and written on the device.
    """
    s = job.setting
    if s.rollout_engine == "hf":
        return 0.0
    moved = 4 * job.shape.lora_params(s.lora_rank) if s.lora_rank else BYTES[s.dtype] * job.shape.params
    local = 2 * moved / r.bytes_per_s
    across = s.zero_stage == 3 or s.rollout_devices
    return moved / r.link_per_s if across and r.link_per_s else local


def _forward_seconds(job: Job, r: Rates, shape: ModelShape, head: int | None = None) -> float:
    w = job.workload
    work = flops.forward_flops(shape, [w.prompt_tokens], [w.completion_tokens], head=head) * w.samples_per_step
    compute = work / (job.train_devices * r.flops_per_s * job.preset.efficiency.forward)
    weights = BYTES[job.setting.dtype] * shape.params * _micro_batches(job)
    gathered = weights if job.setting.zero_stage == 3 else 0
    fetched = weights / job.train_devices / r.host_per_s if job.setting.offload == "params" and r.host_per_s else 0.0
    return max(compute, _communication(gathered, job, r) + fetched)


def _train_seconds(job: Job, r: Rates, params: int, epochs: int, head: int | None) -> float:
    """Forward, backward, recomputation; ZeRO's traffic beside them; then the optimizer."""
    s, w, n = job.setting, job.workload, job.train_devices
    lengths = ([w.prompt_tokens], [w.completion_tokens])
    forward = flops.forward_flops(job.shape, *lengths, head=head)
    # frozen weights need the gradient of activations only: one product instead of two
    work = forward + (1 if s.lora_rank else 2) * forward
    work += flops.recompute_flops(job.shape, *lengths) if s.gradient_checkpointing else 0
    compute = work * w.samples_per_step / (n * r.flops_per_s * job.preset.efficiency.update)

    trained = job.shape.lora_params(s.lora_rank) if s.lora_rank else params
    width, micro, updates = BYTES[s.dtype], _micro_batches(job), job.method.num_minibatches
    passes = micro if s.zero_stage >= 2 else updates
    moved = width * trained * passes * (1 if s.zero_stage >= 2 else 2) + (
        2 * width * params * micro if s.zero_stage == 3 else 0
    )
    hosted = 0.0
    if s.offload != "none" and r.host_per_s:
        hosted = updates * 2 * width * trained / n / r.host_per_s
        if s.offload == "params":
            hosted += 2 * micro * width * params / n / r.host_per_s
    states = updates * 28 * trained / (n if s.zero_stage else 1) / r.bytes_per_s
    if s.offload != "none":
        states *= HOST_SLOWDOWN
    return epochs * (max(compute, _communication(moved, job, r) + hosted) + states)


def _communication(moved: float, job: Job, r: Rates) -> float:
    """Seconds to gather or reduce `moved` bytes over the training devices (ring: each sends (N - 1) / N of them)."""
    n = job.train_devices
    return moved * (n - 1) / n / r.link_per_s if n > 1 and r.link_per_s else 0.0


def _micro_batches(job: Job) -> int:
    """Of one pass over the samples, on one device."""
    return ceil(job.workload.samples_per_step / job.train_devices / job.micro_rows)
