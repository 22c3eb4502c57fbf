"""Bytes on one device by role and phase, and bytes on the host of one node, each term with its formula.

Symbols: P parameters of the policy (C of the critic, R of the reward model), A of them trained (all, or LoRA's
adapters), N training devices, G the divisor of gathered weights (N under ZeRO-3, else 1), T tokens of a micro-batch, n
its completion tokens, L layers, h hidden width, I inner width of the MLP, k the width of cached keys and values, V
vocabulary, b completions generated at once, S tokens of a sequence, t tensor parallel size.

ZeRO's states follow the paper (arXiv:1910.02054, section 3) and, for what DeepSpeed holds beside them (a 32-bit copy of
the gradients, the gathered layer), the estimators in its documentation. Activations are in activations.py.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from bench.ground.words import GIB
from bench.ground.words import Role as Measured
from bench.models.shape import ModelShape
from bench.planner.activations import inner_width, recomputed_bytes, saved_bytes
from bench.planner.job import BYTES, Job
from bench.planner.setting import OptimizerName

Phase = Literal["rollout", "score", "logprobs", "update_critic", "update_policy"]
Role = Literal[Measured, "gathered", "temporaries", "context"]
ROLES: tuple[Role, ...] = get_args(Role)
PHASES: tuple[Phase, ...] = get_args(Phase)
Pool = Literal["train", "rollout"]
MOMENTS: dict[OptimizerName, int] = {"adamw": 8, "adamw8bit": 2, "sgd": 0}  # bytes a parameter
ROTARY = " + rotary"
HOST_BUFFERS = 1.5  # DeepSpeed's own factor for what it holds on the host beside the states
LOGIT_COPIES = 3  # (n, V) float32 beside the saved logits, at the worst moment: for the entropy, or for the gradient
SAMPLER_BYTES = 28  # of each logit while tokens are drawn: logits, log-probs and kept in 4, two cumulative sums in 8


@dataclass(frozen=True)
class Term:
    """One thing that is held."""

    role: Role
    device_bytes: float
    formula: str
    phases: tuple[Phase, ...] = PHASES
    pool: Pool = "train"
    host_bytes: float = 0.0
    """On each node."""


def memory_terms(job: Job) -> Iterator[Term]:
    """Everything that the job holds on a device of each pool."""
    yield from _trained(job, "policy", job.shape.params, "P")
    if job.method.critic:
        yield from _trained(job, "critic", job.shape.critic_params, "C")
    yield from _frozen(job)
    yield from _activations(job)
    yield from _rollout(job)
    context = job.preset.device.context_gib * GIB
    yield Term(role="context", device_bytes=context, formula="of the device")
    if job.setting.rollout_devices:
        yield Term(role="context", device_bytes=context, formula="of the device", pool="rollout")


def _trained(job: Job, role: Literal["policy", "critic"], params: int, symbol: str) -> Iterator[Term]:
    """Weights, gradients and optimizer states of one trained model."""
    s, n = job.setting, job.train_devices
    trained = job.shape.lora_params(s.lora_rank) if s.lora_rank else params
    gathered = n if s.zero_stage == 3 else 1
    sharded = n if s.zero_stage else 1
    masters = s.train_engine == "deepspeed" and s.zero_stage > 0  # float32 weights of the optimizer's own
    mixed = masters and s.dtype != "float32"
    update: Phase = "update_policy" if role == "policy" else "update_critic"

    width = BYTES[s.dtype] if mixed or s.lora_rank else 4
    weights, formula = width * params / gathered, f"{width} {symbol} / G"
    if s.lora_rank:  # policy and critic stand on one frozen base
        weights, formula = (0, "4 A") if role == "critic" else (weights, formula + " + 4 A")
        weights += 4 * trained
    on_host = s.offload == "params"
    shown = "0: on the host" if on_host else formula + ROTARY
    yield Term(role, 0 if on_host else weights + job.shape.rotary_bytes, shown)
    if s.offload != "none":
        yield _on_host(job, trained)
    else:
        states = MOMENTS[s.optimizer] + (4 if masters else 0)
        held = states * trained / sharded
        formula = f"{states} A / {_divisor(s.zero_stage >= 1)}"
        if s.train_engine == "torch" and not s.lora_rank:
            held += 4 * job.shape.num_tensors(critic=role == "critic")
            formula += " + 4 x tensors"  # each has a step counter
        yield Term(role="optimizer", device_bytes=held, formula=formula)
        # plain torch forgets a gradient after its step; DeepSpeed keeps its buffers
        held_in = (update,) if s.train_engine == "torch" else PHASES
        grads, formula = _gradients(job, trained, mixed=mixed)
        yield Term(role="gradients", device_bytes=grads, formula=formula, phases=held_in)
    if s.zero_stage == 3:
        layer, formula = 2 * BYTES[s.dtype] * job.shape.largest_module, f"{2 * BYTES[s.dtype]} x largest module"
        yield Term(role="gathered", device_bytes=layer, formula=formula, phases=(update,))


def _on_host(job: Job, trained: int) -> Term:
    """Optimizer states and 32-bit gradients of one model, and under `params` its weights, in the host's memory."""
    s, preset = job.setting, job.preset
    held = 18 if s.offload == "params" else 16
    host, formula = held * trained / preset.nodes, f"{held} A / nodes"
    if s.zero_stage < 3:
        held = max(4 * preset.devices_per_node, 16)
        host, formula = held * trained, f"{held} A"
    formula = f"0: on the host, {HOST_BUFFERS} x {formula}"
    return Term(role="optimizer", device_bytes=0, host_bytes=HOST_BUFFERS * host, formula=formula)


def _gradients(job: Job, trained: int, *, mixed: bool) -> tuple[float, str]:
    """16-bit gradients are accumulated beside a 32-bit copy; ZeRO-3 keeps its own part of the copy only."""
    stage, n = job.setting.zero_stage, job.train_devices
    if not mixed:
        return 4 * trained / (n if stage >= 2 else 1), f"4 A / {_divisor(stage >= 2)}"
    if stage == 3:
        return 4 * trained / n, "4 A / N"
    if stage == 2:
        return 6 * trained / n, "(2 + 4) A / N"
    return 2 * trained + 4 * trained / (n if stage else 1), f"2 A + 4 A / {_divisor(stage == 1)}"


def _divisor(sharded: bool) -> str:
    return "N" if sharded else "1"


def _frozen(job: Job) -> Iterator[Term]:
    """Reference and reward model. With LoRA the reference is the policy with its adapters off."""
    s = job.setting
    width = 4 if s.train_engine == "torch" else BYTES[s.dtype]
    shard = job.train_devices if s.zero_stage == 3 else 1
    held: list[tuple[Role, int, str]] = []
    if job.method.reference and not s.lora_rank:
        held.append(("reference", job.shape.params, "P"))
    if job.reward_shape is not None:
        held.append(("reward_model", job.reward_shape.critic_params, "R"))
    for role, params, symbol in held:
        size = width * params + job.shape.rotary_bytes
        waits, host = role == "reference" and s.offload_reference, size / job.preset.nodes
        if waits and s.train_engine == "torch":  # which brings it whole for its one pass
            yield Term(role, size, f"{width} {symbol}" + ROTARY, phases=("logprobs",), host_bytes=host)
        elif s.offload == "params" or waits:
            yield Term(role, 0, f"0: on the host, {width} {symbol} / nodes", host_bytes=host)
        else:
            yield Term(role, size / shard, f"{width} {symbol} / G" + ROTARY)


def _activations(job: Job) -> Iterator[Term]:
    """What a micro-batch saves for its backward pass, and what passes beside it."""
    shape, w = job.shape, job.workload
    tokens, outputs = job.micro_rows * w.sequence_tokens, job.micro_rows * w.completion_tokens
    logits, head = 4 * outputs * shape.vocab, 0 if job.setting.lora_rank else 4 * shape.vocab * shape.hidden
    saved, formula = saved_bytes(job, tokens, outputs)
    again, again_formula = recomputed_bytes(job, tokens)
    update: tuple[Phase, ...] = ("update_policy",)
    yield Term(role="activations", device_bytes=saved + logits, formula=f"{formula} + 4 n V", phases=update)
    beside = f"{LOGIT_COPIES} x 4 n V + 4 V h{again_formula}"
    yield Term(role="temporaries", device_bytes=LOGIT_COPIES * logits + head + again, formula=beside, phases=update)
    if job.method.critic:
        update = ("update_critic",)
        yield Term(role="activations", device_bytes=saved, formula=formula, phases=update)
        if again:
            formula = again_formula.removeprefix(" + ")
            yield Term(role="temporaries", device_bytes=again, formula=formula, phases=update)
    # two copies of the logits: themselves and the exponentials of their log-sum
    passing, formula = _passing(job, tokens, shape), "dtype x T (4 h + 3 I)"
    size = passing + 2 * logits
    yield Term(role="temporaries", device_bytes=size, formula=f"{formula} + 2 x 4 n V", phases=("logprobs",))
    if job.reward_shape is not None:
        size = _passing(job, tokens, job.reward_shape)
        yield Term(role="temporaries", device_bytes=size, formula=formula, phases=("score",))


def _passing(job: Job, tokens: int, shape: ModelShape) -> int:
    """Held by one layer of a forward pass that saves nothing."""
    return BYTES[job.setting.dtype] * tokens * (4 * shape.hidden + 3 * inner_width(shape))


def _rollout(job: Job) -> Iterator[Term]:
    """The rollout engine: its own weights where it has any, the cache, and the logits of one token a row."""
    s, shape = job.setting, job.shape
    pool: Pool = "rollout" if s.rollout_devices else "train"
    phases: tuple[Phase, ...] = PHASES if s.rollout_devices else ("rollout",)
    width = BYTES[s.dtype]
    if s.rollout_engine == "vllm":
        weights = width * shape.params / s.tensor_parallel
        yield Term(role="rollout_weights", device_bytes=weights, formula=f"{width} P / t", phases=phases, pool=pool)
    elif s.zero_stage == 3:
        yield Term(
            role="rollout_weights", device_bytes=width * shape.params, formula=f"{width} P, gathered", phases=phases
        )
    split = 1 if shape.kv_rank else min(s.tensor_parallel, shape.kv_heads)
    tokens = job.batch * job.workload.sequence_tokens
    cache = width * tokens * shape.kv_width * shape.layers / split
    yield Term(role="kv_cache", device_bytes=cache, formula=f"{width} b S k L / {split}", phases=phases, pool=pool)
    yield Term(
        role="temporaries",
        device_bytes=SAMPLER_BYTES * job.batch * shape.vocab,
        formula=f"{SAMPLER_BYTES} b V",
        phases=phases,
        pool=pool,
    )


@dataclass(frozen=True, kw_only=True)
class Memory:
    """A job's memory, summed."""

    phases: dict[tuple[Pool, Phase], dict[Role, float]]
    """Bytes on one device."""
    host_bytes: float

    @property
    def peak_bytes(self) -> float:
        """On the fullest device, in the fullest phase."""
        return max(sum(roles.values()) for roles in self.phases.values())

    @property
    def worst(self) -> tuple[Pool, Phase]:
        return max(self.phases, key=lambda key: sum(self.phases[key].values()))


def memory_of_job(job: Job) -> Memory:
    """Terms added up by pool, phase and role."""
    phases: dict[tuple[Pool, Phase], dict[Role, float]] = {}
    host = 0.0
    for term in memory_terms(job):
        host += term.host_bytes
        for phase in term.phases:
            roles = phases.setdefault((term.pool, phase), {})
            roles[term.role] = roles.get(term.role, 0.0) + term.device_bytes
    return Memory(phases=phases, host_bytes=host)


def fits_memory(job: Job, held: Memory) -> bool:
    """Whether the fullest phase fits a device, and the off-loaded states a node."""
    enough = not held.host_bytes or held.host_bytes <= (job.preset.host_memory_gib or 0) * GIB
    return held.peak_bytes <= job.preset.device.memory_gib * GIB and enough


def weights_only(job: Job) -> dict[Role, int]:
    """Weights of every model held, each of the policy's size: the usual first estimate, 2 bytes x P x models."""
    held: dict[Role, bool] = {
        "policy": True,
        "critic": job.method.critic,
        "reference": job.method.reference,
        "reward_model": job.reward_shape is not None,
    }
    return {role: BYTES[job.setting.dtype] * job.shape.params for role, present in held.items() if present}
