"""Counted work against torch's own counter, and parameter counts against transformers."""

from collections.abc import Callable

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    AutoModelForCausalLM,
    DeepseekV3Config,
    DynamicCache,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaModel,
    MistralConfig,
    MixtralConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
)

from bench.models import flops
from bench.models.shape import ModelShape

# the eager kernel: torch's counter has no entry for the fused attention of the CPU
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "vocab_size": 300,
    "attn_implementation": "eager",
}
LLAMAS = {
    "gqa-tied": LlamaConfig(**SIZES, num_key_value_heads=2, tie_word_embeddings=True),
    "mha-untied": LlamaConfig(**SIZES, num_key_value_heads=4, tie_word_embeddings=False),
    "wide-heads": LlamaConfig(**SIZES, num_key_value_heads=1, head_dim=32, tie_word_embeddings=False),
}
ROWS = [(17, 9), (5, 23), (31, 1)]  # (prompt, completion) lengths, run one row at a time: unpadded
PROMPTS, COMPLETIONS = [p for p, _ in ROWS], [n for _, n in ROWS]

config = pytest.mark.parametrize("config", LLAMAS.values(), ids=list(LLAMAS))


def counted(work: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def ids(length: int) -> torch.Tensor:
    return torch.zeros(1, length, dtype=torch.long)


@config
def test_prefill_and_decode_equal_the_counter(config: LlamaConfig) -> None:
    shape = ModelShape.from_config(config)
    model = LlamaForCausalLM(config).eval()

    def prefill(p: int) -> DynamicCache:
        cache = DynamicCache(config=config)
        model(ids(p), cache=cache, logits_to_keep=1)
        return cache

    def decode(cache: DynamicCache, n: int) -> None:
        for _ in range(n - 1):
            model(ids(1), cache=cache)

    with torch.no_grad():
        caches = [prefill(p) for p in PROMPTS]
        prefilling = counted(lambda: [prefill(p) for p in PROMPTS])
        decoding = counted(lambda: [decode(c, n) for c, n in zip(caches, COMPLETIONS, strict=True)])
    assert prefilling == pytest.approx(flops.prefill_flops(shape, PROMPTS), rel=0.01)
    assert decoding == pytest.approx(flops.decode_flops(shape, PROMPTS, COMPLETIONS), rel=0.01)


@config
def test_forward_and_backward_equal_the_counter(config: LlamaConfig) -> None:
    shape = ModelShape.from_config(config)
    model = LlamaForCausalLM(config)

    def forward() -> torch.Tensor:
        return torch.stack([model(ids(p + n), logits_to_keep=n).logits.sum() for p, n in ROWS]).sum()

    expected = flops.forward_flops(shape, PROMPTS, COMPLETIONS)
    assert counted(forward) == pytest.approx(expected, rel=0.01)
    loss = forward()
    assert counted(loss.backward) == pytest.approx(flops.backward_flops(shape, PROMPTS, COMPLETIONS), rel=0.01)


@config
def test_checkpointing_recomputes_the_layers(config: LlamaConfig) -> None:
    shape = ModelShape.from_config(config)
    model = LlamaForCausalLM(config).train()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    losses = [model(ids(p + n), logits_to_keep=n, use_cache=False).logits.sum() for p, n in ROWS]
    expected = flops.backward_flops(shape, PROMPTS, COMPLETIONS) + flops.recompute_flops(shape, PROMPTS, COMPLETIONS)
    assert counted(torch.stack(losses).sum().backward) == pytest.approx(expected, rel=0.01)


@config
def test_a_critic_has_a_scalar_head(config: LlamaConfig) -> None:
    shape = ModelShape.from_config(config)
    backbone, head = LlamaModel(config), torch.nn.Linear(config.hidden_size, 1)

    def values() -> torch.Tensor:
        rows = [head(backbone(ids(p + n)).last_hidden_state[:, p:]).sum() for p, n in ROWS]
        return torch.stack(rows).sum()

    assert counted(values) == pytest.approx(flops.forward_flops(shape, PROMPTS, COMPLETIONS, head=1), rel=0.01)
    loss = values()
    assert counted(loss.backward) == pytest.approx(flops.backward_flops(shape, PROMPTS, COMPLETIONS, head=1), rel=0.01)
    critic = sum(p.numel() for module in (backbone, head) for p in module.parameters())
    assert critic == shape.critic_params


def test_decoding_by_hand() -> None:
    """One layer, h = 2, one head of 2, MLP 3, V = 5: W = 4 * 4 + 3 * 6 = 34; a query-key pair costs 2 * (2 + 2) = 8."""
    shape = ModelShape(
        layers=1, hidden=2, vocab=5, heads=1, kv_heads=1, head_dim=2, value_dim=2, intermediate=3, tied=True
    )
    assert flops.prefill_flops(shape, [4]) == 2 * 34 * 4 + 8 * 16 + 2 * 2 * 5
    assert flops.decode_flops(shape, [4, 4], [3, 1]) == 2 * 34 * 2 + 8 * (5 + 6) + 2 * 2 * 5 * 2
    assert flops.forward_flops(shape, [4], [3]) == 2 * 34 * 7 + 8 * 49 + 2 * 2 * 5 * 3


def test_lengths_must_pair() -> None:
    shape = ModelShape.from_config(LLAMAS["gqa-tied"])
    with pytest.raises(ValueError, match="one prompt length for each completion"):
        flops.decode_flops(shape, [4], [3, 1])


SMALL = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 50, "intermediate_size": 48}
FAMILIES: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**SMALL, num_key_value_heads=2, attention_bias=True, mlp_bias=True),
    "mistral": MistralConfig(**SMALL, num_key_value_heads=2),
    "qwen2": Qwen2Config(**SMALL, num_key_value_heads=2),
    "qwen3": Qwen3Config(**SMALL, num_key_value_heads=2, head_dim=16, tie_word_embeddings=True),
    "mixtral": MixtralConfig(**SMALL, num_key_value_heads=2, num_local_experts=4),
    "qwen3_moe": Qwen3MoeConfig(**SMALL, num_key_value_heads=2, num_experts=6, moe_intermediate_size=24),
    "deepseek_v3": DeepseekV3Config(
        **SMALL,
        num_key_value_heads=4,
        n_routed_experts=8,
        n_group=2,
        topk_group=1,
        num_experts_per_tok=2,
        moe_intermediate_size=24,
        q_lora_rank=12,
        kv_lora_rank=10,
        qk_nope_head_dim=8,
        qk_rope_head_dim=4,
        v_head_dim=6,
        first_k_dense_replace=1,
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_parameter_counts_equal_transformers(name: str) -> None:
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(FAMILIES[name])
    assert ModelShape.from_config(FAMILIES[name]).params == sum(p.numel() for p in model.parameters())


def test_published_sizes() -> None:
    """DeepSeek-V3: 671B parameters, 37B active for a token (arXiv:2412.19437)."""
    shape = ModelShape.from_config(DeepseekV3Config())
    assert shape.params / 1e9 == pytest.approx(671, abs=0.5)
    assert shape.active_params / 1e9 == pytest.approx(37, abs=1)


def test_a_config_read_from_json_is_the_same() -> None:
    config = FAMILIES["qwen2"]
    assert ModelShape.from_config(config.to_dict()) == ModelShape.from_config(config)


def test_an_unknown_family_is_named() -> None:
    with pytest.raises(ValueError, match="model_type 'gpt2' is not covered"):
        ModelShape.from_config({"model_type": "gpt2", "n_embd": 768})
