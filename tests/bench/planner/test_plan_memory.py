"""Planned memory: hand numbers, DeepSpeed's estimators, what autograd really saves, what the engine really holds."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

from bench.ground.words import GIB
from bench.models.shape import ModelShape
from bench.planner.activations import saved_bytes
from bench.planner.job import Job, Method, Workload
from bench.planner.memory import Role, fits_memory, memory_of_job, memory_terms, weights_only
from bench.planner.sizes import ALIASES
from bench.planner.step_time import step_seconds
from tests.bench.planner.plan_jobs import GRPO, PLAIN, PPO, deepspeed, job, preset, with_samples

BILLION = 10**9
SEVEN = ModelShape(  # exactly 7e9 parameters is nobody's model: its count is set by hand below
    layers=1, hidden=2, vocab=5, heads=1, kv_heads=1, head_dim=2, value_dim=2, intermediate=3, tied=True
)


class Nominal(ModelShape):
    """A model of 7e9 parameters, whatever its widths."""

    @property
    def params(self) -> int:
        return 7 * BILLION


NOMINAL = Nominal(**{name: getattr(SEVEN, name) for name in SEVEN.__dataclass_fields__})


@pytest.mark.parametrize(
    ("critic", "reference", "reward_model", "gigabytes"),
    [
        (True, True, True, 56),  # PPO with its four models
        (False, True, False, 28),  # GRPO, rules
        (False, True, True, 42),  # GRPO with a reward model
        (False, False, False, 14),  # GRPO, KL 0, rules: one model
        (True, False, False, 28),  # PPO, KL 0, rules: two
    ],
)
def test_weights_of_a_7b_in_fp16(critic: bool, reference: bool, reward_model: bool, gigabytes: int) -> None:
    method = Method(name="any", critic=critic, reference=reference, group_size=8)
    base = replace(job(method=method, dtype="float16"), shape=NOMINAL, reward_shape=NOMINAL if reward_model else None)
    assert sum(weights_only(base).values()) == gigabytes * BILLION
    assert method.models(reward_model=reward_model) == gigabytes // 14


def of(base: Job, *roles: Role, phase: str = "update_policy") -> float:
    """Bytes of these roles on a device in one phase."""
    held = memory_of_job(base).phases[("train", phase)]  # type: ignore[index]
    return sum(held.get(role, 0.0) for role in roles)


STATES: tuple[Role, ...] = ("policy", "gradients", "optimizer", "gathered")


def test_a_reference_on_the_host_is_on_the_device_for_its_pass_alone() -> None:
    kept = job("0.5b", GRPO)
    moved = replace(kept, setting=replace(kept.setting, offload_reference=True))
    size = 4 * kept.shape.params + kept.shape.rotary_bytes
    for phase, away in (("rollout", size), ("logprobs", 0), ("update_policy", size)):
        assert of(kept, "reference", phase=phase) - of(moved, "reference", phase=phase) == pytest.approx(away)
    assert memory_of_job(moved).host_bytes - memory_of_job(kept).host_bytes == pytest.approx(size)
    seconds = [step_seconds(one) for one in (kept, moved)]
    assert seconds[0] is not None
    assert seconds[1] is not None
    assert seconds[1]["logprobs"] > seconds[0]["logprobs"]


@pytest.mark.parametrize(("nodes", "per_node"), [(1, 1), (1, 4), (1, 8), (2, 8), (16, 8)])
def test_zero_2_and_3_follow_the_published_formulas(nodes: int, per_node: int) -> None:
    """DeepSpeed's documentation, memory requirements: stage 2 takes 2 P + 18 P / N, stage 3 18 P / N + 4 x largest."""
    n = nodes * per_node
    p, largest = deepspeed(2, 1).shape.params, deepspeed(2, 1).shape.largest_module
    assert of(deepspeed(2, per_node, nodes), *STATES) == pytest.approx(2 * p + 18 * p / n, rel=1e-6)
    assert of(deepspeed(3, per_node, nodes), *STATES) == pytest.approx(18 * p / n + 4 * largest, rel=1e-6)
    assert of(deepspeed(2, per_node, nodes, offload="optimizer"), *STATES) == pytest.approx(2 * p, rel=1e-6)
    off = of(deepspeed(3, per_node, nodes, offload="optimizer"), *STATES)
    assert off == pytest.approx(2 * p / n + 4 * largest, rel=1e-6)
    assert of(deepspeed(3, per_node, nodes, offload="params"), *STATES) == pytest.approx(4 * largest, rel=1e-6)


@pytest.mark.parametrize("per_node", [1, 4, 8])
def test_zero_2_and_3_agree_with_deepspeed_itself(per_node: int) -> None:
    stage2 = pytest.importorskip("deepspeed.runtime.zero.stage_1_and_2", reason="deepspeed is not installed")
    stage3 = pytest.importorskip("deepspeed.runtime.zero.stage3", reason="deepspeed is not installed")
    shape = deepspeed(2, 1).shape
    for nodes in (1, 2, 4):
        for offload in ("none", "optimizer"):
            base = deepspeed(2, per_node, nodes, offload=offload)
            host, device = stage2.estimate_zero2_model_states_mem_needs(
                shape.params, per_node, nodes, cpu_offload=offload != "none"
            )
            assert of(base, *STATES) == pytest.approx(device, rel=0.02)
            if offload != "none" and nodes == 1:
                assert memory_of_job(base).host_bytes == pytest.approx(host, rel=0.02)
        for offload in ("none", "optimizer", "params"):
            base = deepspeed(3, per_node, nodes, offload=offload)
            host, device, _ = stage3.estimate_zero3_model_states_mem_needs(
                shape.params,
                shape.largest_module,
                per_node,
                nodes,
                cpu_offload=offload != "none",
                cpu_offload_params=offload == "params",
            )
            assert of(base, *STATES) == pytest.approx(device, rel=0.02)
            if offload != "none":
                assert memory_of_job(base).host_bytes == pytest.approx(host, rel=0.02)


def test_zero_1_shards_the_optimizer_and_the_copy_of_the_gradients() -> None:
    """ZeRO paper, section 3, mixed precision: 2 P weights, 2 P gradients, and the rest over N."""
    base = deepspeed(1, 8)
    p = base.shape.params
    assert of(base, "policy", "gradients", "optimizer") == pytest.approx(2 * p + 2 * p + (4 + 4 + 8) * p / 8, rel=1e-6)


def test_plain_torch_holds_16_bytes_a_parameter() -> None:
    """float32: 4 weights, 4 gradients, 8 Adam; a critic the same, but the two never hold gradients at once."""
    base = job("0.5b")
    p, c = base.shape.params, base.shape.critic_params
    assert of(base, "policy", "gradients", "optimizer") == pytest.approx(16 * p, rel=1e-4)
    ppo = job("0.5b", PPO)
    assert of(ppo, "policy", "critic", "gradients", "optimizer") == pytest.approx(16 * p + 12 * c, rel=1e-4)
    in_critic = of(ppo, "policy", "critic", "gradients", "optimizer", phase="update_critic")
    assert in_critic == pytest.approx(12 * p + 16 * c, rel=1e-4)


def test_lora_trains_adapters_and_needs_no_reference() -> None:
    """Rank 16 on every projection of the 7B: 30 layers x 16 x (4 x (4096 + 4096) + 3 x (4096 + 11008))."""
    base = job("7b", GRPO, dtype="bfloat16", lora_rank=16)
    adapters = 30 * 16 * (4 * 8192 + 3 * 15104)
    assert base.shape.lora_params(16) == adapters == 37_478_400
    assert of(base, "reference") == 0
    assert of(base, "policy") == pytest.approx(2 * base.shape.params + 4 * adapters, rel=1e-6)
    assert of(base, "optimizer", "gradients") == 12 * adapters
    critic = job("7b", PPO, dtype="bfloat16", lora_rank=16)
    assert of(critic, "critic") == 4 * adapters + critic.shape.rotary_bytes  # on the policy's base


def test_kv_cache_by_hand() -> None:
    """B (P + C) x 2 x kv heads x width x layers x bytes: 256 x 500 x 2 x 32 x 128 x 30 x 2."""
    base = job("7b", dtype="bfloat16")
    assert memory_of_job(base).phases[("train", "rollout")]["kv_cache"] == 256 * 500 * 2 * 32 * 128 * 30 * 2


def test_latent_attention_caches_576_elements_a_token() -> None:
    """DeepSeek-V3: 512 + 64 in each of 61 layers (arXiv:2412.19437), and not split over a replica."""
    base = job("671b", rollout_engine="vllm", dtype="bfloat16", tensor_parallel=8, hardware=preset(1, 8))
    assert memory_of_job(base).phases[("train", "rollout")]["kv_cache"] == base.batch * 500 * 576 * 61 * 2


def test_devices_that_only_generate_hold_no_training_state() -> None:
    base = deepspeed(3, 8, rollout_devices=4, tensor_parallel=4)
    rollout = memory_of_job(base).phases[("rollout", "rollout")]
    assert set(rollout) == {"rollout_weights", "kv_cache", "temporaries", "context"}
    assert rollout["rollout_weights"] == 2 * base.shape.params / 4
    assert "rollout_weights" not in memory_of_job(base).phases[("train", "update_policy")]


def test_offloaded_states_must_fit_the_host() -> None:
    base = deepspeed(3, 8, offload="params", gradient_checkpointing=True, micro_batch_tokens=500, rollout_batch_size=8)
    assert fits_memory(base, memory_of_job(base))
    small = replace(base, preset=replace(base.preset, host_memory_gib=64))
    assert not fits_memory(small, memory_of_job(small))


@given(
    model=st.sampled_from([name for name in ALIASES if name[0].isdigit()]),
    method=st.sampled_from([PPO, GRPO, PLAIN]),
    stage=st.sampled_from([0, 1, 2, 3]),
    offload=st.sampled_from(["none", "optimizer", "params"]),
    checkpointing=st.booleans(),
    log_devices=st.integers(0, 7),
    tokens=st.integers(500, 50_000),
    samples=st.integers(16, 4096),
)
def test_more_devices_never_hold_more_each(
    model: str,
    method: Method,
    stage: int,
    offload: str,
    checkpointing: bool,
    log_devices: int,
    tokens: int,
    samples: int,
) -> None:
    def held(log: int) -> dict[tuple[str, str, str], float]:
        hardware = preset(max(1, 2**log // 8), min(8, 2**log))
        base = job(
            model,
            method,
            hardware,
            train_engine="deepspeed",
            rollout_engine="vllm",
            dtype="bfloat16",
            zero_stage=stage,
            offload=offload,
            gradient_checkpointing=checkpointing,
            micro_batch_tokens=tokens,
        )
        phases = memory_of_job(with_samples(base, samples)).phases
        return {(*key, role): size for key, roles in phases.items() for role, size in roles.items()}

    fewer, more = held(log_devices), held(log_devices + 1)
    assert all(more[key] <= size * (1 + 1e-12) for key, size in fewer.items())


@given(
    method=st.sampled_from([PPO, GRPO, PLAIN]),
    engine=st.sampled_from(["torch", "deepspeed"]),
    prompts=st.integers(1, 64),
    group=st.integers(1, 64),
    tokens=st.integers(500, 50_000),
)
def test_a_larger_group_never_needs_less(method: Method, engine: str, prompts: int, group: int, tokens: int) -> None:
    def held(size: int) -> Job:
        base = job("3b", replace(method, group_size=size), train_engine=engine, micro_batch_tokens=tokens)
        return with_samples(base, prompts * size)

    smaller, larger = memory_of_job(held(group)), memory_of_job(held(group + 1))
    for key, roles in smaller.phases.items():
        assert all(larger.phases[key][role] >= size for role, size in roles.items())
    assert larger.peak_bytes >= smaller.peak_bytes


def test_phases_are_the_sum_of_their_terms() -> None:
    base = deepspeed(3, 8, micro_batch_tokens=4000)
    for (pool, phase), roles in memory_of_job(base).phases.items():
        listed = sum(t.device_bytes for t in memory_terms(base) if t.pool == pool and phase in t.phases)
        assert sum(roles.values()) == pytest.approx(listed)


@contextmanager
def saving(model: torch.nn.Module) -> Iterator[dict[int, int]]:
    """Bytes by storage of what autograd saves, weights apart."""
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    saved: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield saved


@pytest.mark.parametrize("kv_heads", [1, 4])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize(("engine", "dtype"), [("torch", "float32"), ("torch", "bfloat16"), ("deepspeed", "bfloat16")])
def test_saved_activations_are_counted_tensor_by_tensor(
    engine: str, dtype: str, checkpointing: bool, kv_heads: int
) -> None:
    """Against the transformers implementation; what is left out is the rotary table and the token ids."""
    config = LlamaConfig(
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=kv_heads,
        vocab_size=400,
    )
    model = LlamaForCausalLM(config).train()
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if engine == "deepspeed":
        model = model.bfloat16()
    rows, prompt, completion = 4, 40, 60
    base = replace(
        job(train_engine=engine, dtype=dtype, gradient_checkpointing=checkpointing),
        shape=ModelShape.from_config(config),
        workload=Workload(prompt_tokens=prompt, completion_tokens=completion, samples_per_step=8),
    )
    casting = engine == "torch" and dtype == "bfloat16"
    ids = torch.randint(0, 400, (rows, prompt + completion))
    with saving(model) as saved, torch.autocast("cpu", dtype=torch.bfloat16, enabled=casting):
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
        model.lm_head(hidden[:, -completion:].reshape(-1, config.hidden_size))
    head = 2 * config.vocab_size * config.hidden_size if casting else 0  # autocast's copy of the output layer
    predicted, _ = saved_bytes(base, rows * (prompt + completion), rows * completion)
    assert sum(saved.values()) - head == pytest.approx(predicted, rel=0.03)


def test_largest_module_is_deepspeeds() -> None:
    """The largest sum of parameters that one module holds itself, as DeepSpeed takes it from a live model."""
    sizes = {"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(**sizes, vocab_size=90)
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    largest = max(sum(p.numel() for p in m.parameters(recurse=False)) for m in model.modules())
    assert ModelShape.from_config(config).largest_module == largest


def test_gib_are_binary() -> None:
    assert GIB == 1_073_741_824


@pytest.mark.parametrize("method", [PPO, GRPO])
def test_roles_are_the_engines_to_the_byte(method: Method) -> None:
    """What the torch engine counts in its storages after an update, against the formulas."""
    from bench.batch import Padded
    from bench.config import CriticConfig, EngineConfig, OptimizerConfig
    from bench.engines.torch_train import TorchEngine
    from bench.trainer import TrainSetup

    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(**sizes, vocab_size=50, tie_word_embeddings=True)
    engine = TorchEngine(
        LlamaForCausalLM(config),
        None,  # type: ignore[arg-type]
        TrainSetup(
            needs=frozenset({"values"} if method.critic else {"ref_logprobs"}),
            temperature=1.0,
            engine=EngineConfig(device="cpu"),
            optimizer=OptimizerConfig(),
            critic=CriticConfig(),
        ),
    )
    rows, prompt, completion = 6, 9, 20
    padded = Padded(
        tokens=torch.randint(0, 50, (rows, prompt + completion)),
        prompt_lengths=torch.full((rows,), prompt),
        lengths=torch.full((rows,), completion),
    )
    if method.critic:
        engine.backward(engine.values(padded).sum())
        engine.step("critic", 1e-3)
    engine.backward(engine.forward(padded, entropy_grad=False).logprobs.sum())
    engine.step("policy", 1e-3)
    measured = engine.memory()

    base = replace(
        job(method=replace(method, num_minibatches=1)),
        shape=ModelShape.from_config(config),
        workload=Workload(prompt_tokens=prompt, completion_tokens=completion, samples_per_step=rows),
    )
    phases = memory_of_job(base).phases.values()
    predicted = {role: max(p.get(role, 0.0) for p in phases) for role in measured}  # type: ignore[call-overload]
    activations = "activations"
    assert predicted.pop(activations) == pytest.approx(measured.pop(activations), rel=0.15)
    assert predicted == measured
