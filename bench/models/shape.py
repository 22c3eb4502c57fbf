"""The sizes of a decoder model, read from its config.json: all that counted work and planned memory need of it.

Covers decoders with rotary positions, RMSNorm and a gated MLP: Llama, Mistral, Qwen2, Qwen3, their mixtures of experts
(Mixtral, Qwen3-MoE) and DeepSeek-V2/V3 with multi-head latent attention (arXiv:2405.04434). Parameter counts equal
those of the transformers implementation; multi-token-prediction modules are left out, as transformers does by default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

GATED_MATRICES = 3  # gate, up and down projection
DENSE = {"llama", "mistral", "qwen2", "qwen3"}
MIXTURES = {"mixtral", "qwen3_moe", "deepseek_v2", "deepseek_v3"}
REQUIRED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")


class HubConfig(Protocol):
    """A transformers config object."""

    def to_dict(self) -> dict[str, Any]: ...


Config = HubConfig | Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """Sizes of one decoder; widths in elements."""

    layers: int
    hidden: int
    vocab: int
    heads: int
    kv_heads: int
    head_dim: int
    """Width of a query or key head (latent attention: with its rotary part)."""
    value_dim: int
    """Width of a value head."""
    intermediate: int
    """Inner width of a dense MLP."""
    tied: bool
    """The output head is the embedding matrix."""
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    num_experts: int = 0
    experts_per_token: int = 0
    expert_intermediate: int = 0
    shared_intermediate: int = 0
    """Inner width of the experts every token passes, together."""
    dense_layers: int = 0
    """Leading layers of a mixture that keep a dense MLP."""
    query_rank: int = 0
    kv_rank: int = 0
    """Latent attention: width of the compressed keys and values; 0 is grouped-query attention."""
    rope_dim: int = 0
    """Latent attention: the rotary part of a key, shared by all heads."""
    adapters: int = 0
    """Elements of the adapters that are trained in place of the weights; 0: the weights themselves are trained."""

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """From a transformers config object or a parsed config.json; ValueError for a family not covered."""
        c = dict(config) if isinstance(config, Mapping) else config.to_dict()
        family = str(c.get("model_type"))
        if family not in DENSE | MIXTURES:
            raise ValueError(f"model_type {family!r} is not covered: known are {', '.join(sorted(DENSE | MIXTURES))}")
        if missing := [key for key in REQUIRED if not c.get(key)]:
            raise ValueError(f"the model's config lacks {', '.join(missing)}")
        bias, heads = bool(c.get("attention_bias")), int(c["num_attention_heads"])
        head_dim = int(c.get("head_dim") or c["hidden_size"] // heads)
        shape = cls(
            layers=int(c["num_hidden_layers"]),
            hidden=int(c["hidden_size"]),
            vocab=int(c["vocab_size"]),
            heads=heads,
            kv_heads=int(c.get("num_key_value_heads") or heads),
            head_dim=head_dim,
            value_dim=head_dim,
            intermediate=int(c["intermediate_size"]),
            tied=bool(c.get("tie_word_embeddings")),
            qkv_bias=bias or family == "qwen2",
            out_bias=bias,
            mlp_bias=bool(c.get("mlp_bias")),
            qk_norm=family.startswith("qwen3"),
        )
        mixture = _mixture(c) if family in MIXTURES else {}
        return replace(shape, **mixture, **_latent(c) if c.get("kv_lora_rank") else {})

    @property
    def kv_width(self) -> int:
        """Elements cached for each token in each layer."""
        return self.kv_rank + self.rope_dim if self.kv_rank else 2 * self.kv_heads * self.head_dim

    @property
    def attention_weights(self) -> int:
        """Matrix elements of one layer's projections."""
        out = self.heads * self.value_dim * self.hidden
        if not self.kv_rank:
            return self.hidden * (self.heads + 2 * self.kv_heads) * self.head_dim + out
        query = self.heads * self.head_dim
        query = self.query_rank * (self.hidden + query) if self.query_rank else self.hidden * query
        unrotated = self.head_dim - self.rope_dim
        keys_values = self.hidden * self.kv_width + self.kv_rank * self.heads * (unrotated + self.value_dim)
        return query + keys_values + out

    @property
    def expert_weights(self) -> int:
        """Matrix elements of one routed expert."""
        return GATED_MATRICES * self.hidden * self.expert_intermediate

    @property
    def mixture_layers(self) -> int:
        return self.layers - self.dense_layers if self.num_experts else 0

    @property
    def common_weights(self) -> int:
        """Matrix elements of all layers that every token passes: attention, dense MLPs, shared experts, routers."""
        dense = (self.layers - self.mixture_layers) * GATED_MATRICES * self.hidden * self.intermediate
        shared = self.mixture_layers * self.hidden * (GATED_MATRICES * self.shared_intermediate + self.num_experts)
        return self.layers * self.attention_weights + dense + shared

    @property
    def active_weights(self) -> int:
        """Matrix elements of all layers that one token passes; the head is apart."""
        return self.common_weights + self.mixture_layers * self.experts_per_token * self.expert_weights

    @property
    def vectors(self) -> int:
        """Norm gains and biases."""
        bias = self.qkv_bias * (self.heads + 2 * self.kv_heads) * self.head_dim + self.out_bias * self.hidden
        bias += self.mlp_bias * (2 * self.intermediate + self.hidden)
        inner_norms = self.query_rank + self.kv_rank + self.qk_norm * 2 * self.head_dim
        return self.layers * (2 * self.hidden + bias + inner_norms) + self.hidden

    @property
    def backbone_params(self) -> int:
        """Parameters without an output head of its own: what a critic with a scalar head shares."""
        routed = self.mixture_layers * self.num_experts * self.expert_weights
        return self.common_weights + routed + self.vectors + self.vocab * self.hidden

    @property
    def rotary_bytes(self) -> int:
        """Of the rotary frequencies that every copy of the model holds twice, in float32."""
        return 2 * 4 * ((self.rope_dim or self.head_dim) // 2)

    def num_tensors(self, *, critic: bool = False) -> int:
        """Parameter tensors of a dense model: an optimizer holds a step counter for each."""
        layer = 4 + GATED_MATRICES + 2 + 3 * self.qkv_bias + self.out_bias + 3 * self.mlp_bias + 2 * self.qk_norm
        head = 2 if critic else 0 if self.tied else 1
        return self.layers * layer + 2 + head

    @property
    def largest_module(self) -> int:
        """Elements of the largest single weight holder: what ZeRO-3 gathers at once at the least."""
        experts = (
            self.num_experts * 2 * self.hidden * self.expert_intermediate
        )  # gate and up of all experts: one tensor
        return max(self.vocab * self.hidden, self.hidden * self.intermediate, experts)

    @property
    def params(self) -> int:
        """Parameters of the language model; a tied head is counted once."""
        return self.backbone_params + (0 if self.tied else self.vocab * self.hidden)

    @property
    def active_params(self) -> int:
        """Parameters that one token passes, embedding and head included (a mixture's second figure)."""
        return self.params - self.mixture_layers * (self.num_experts - self.experts_per_token) * self.expert_weights

    @property
    def critic_params(self) -> int:
        """The same backbone with a scalar head and its bias in the vocabulary head's place."""
        return self.backbone_params + self.hidden + 1

    def lora_params(self, rank: int) -> int:
        """Adapters on every projection of attention and dense or shared MLPs: rank x (inputs + outputs) each."""
        h = self.hidden
        query, value = self.heads * self.head_dim, self.heads * self.value_dim
        if self.kv_rank:
            up = self.heads * (self.head_dim - self.rope_dim + self.value_dim)
            attention = (h + self.query_rank) + (self.query_rank + query) if self.query_rank else h + query
            attention += (h + self.kv_width) + (self.kv_rank + up) + (value + h)
        else:
            key = self.kv_heads * self.head_dim
            attention = (h + query) + 2 * (h + key) + (value + h)
        dense = (self.layers - self.mixture_layers) * GATED_MATRICES * (h + self.intermediate)
        shared = (
            self.mixture_layers * GATED_MATRICES * (h + self.shared_intermediate) if self.shared_intermediate else 0
        )
        return rank * (self.layers * attention + dense + shared)


def _mixture(c: dict[str, Any]) -> dict[str, int]:
    width = int(c.get("moe_intermediate_size") or c["intermediate_size"])
    return {
        "num_experts": int(c.get("n_routed_experts") or c.get("num_experts") or c["num_local_experts"]),
        "experts_per_token": int(c["num_experts_per_tok"]),
        "expert_intermediate": width,
        "shared_intermediate": width * int(c.get("n_shared_experts") or 0),
        "dense_layers": int(c.get("first_k_dense_replace") or 0),
    }


def _latent(c: dict[str, Any]) -> dict[str, int]:
    return {
        "head_dim": int(c["qk_nope_head_dim"]) + int(c["qk_rope_head_dim"]),
        "value_dim": int(c["v_head_dim"]),
        "query_rank": int(c.get("q_lora_rank") or 0),
        "kv_rank": int(c["kv_lora_rank"]),
        "rope_dim": int(c["qk_rope_head_dim"]),
    }


def countable(config: Config) -> ModelShape | None:
    """Sizes to count work by; None for an architecture whose work is not counted."""
    try:
        return ModelShape.from_config(config)
    except ValueError:
        return None
