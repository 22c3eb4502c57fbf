"""Models by name, a folder with a config.json, or the hub's: their sizes only, no weights."""

import json
import urllib.request
from pathlib import Path
from typing import Any

from bench.ground.errors import UserError, nearest
from bench.ground.hub import hub_url
from bench.models.shape import ModelShape


def _sizes(family: str, hidden: int, layers: int, *rest: int, tied: bool) -> dict[str, Any]:
    heads, kv_heads, inner, vocab = rest
    return {
        "model_type": family,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": inner,
        "vocab_size": vocab,
        "tie_word_embeddings": tied,
    }


# From the models' own config.json; arXiv:2412.15115 (Qwen2.5), 2401.02954 (DeepSeek LLM), 2412.19437 (DeepSeek-V3).
TABLE: dict[str, dict[str, Any]] = {
    "HuggingFaceTB/SmolLM2-135M-Instruct": _sizes("llama", 576, 30, 9, 3, 1536, 49152, tied=True),
    "Qwen/Qwen2.5-0.5B": _sizes("qwen2", 896, 24, 14, 2, 4864, 151936, tied=True),
    "Qwen/Qwen2.5-1.5B": _sizes("qwen2", 1536, 28, 12, 2, 8960, 151936, tied=True),
    "Qwen/Qwen2.5-3B": _sizes("qwen2", 2048, 36, 16, 2, 11008, 151936, tied=True),
    "Qwen/Qwen2.5-7B": _sizes("qwen2", 3584, 28, 28, 4, 18944, 152064, tied=False),
    "Qwen/Qwen2.5-14B": _sizes("qwen2", 5120, 48, 40, 8, 13824, 152064, tied=False),
    "Qwen/Qwen2.5-32B": _sizes("qwen2", 5120, 64, 40, 8, 27648, 152064, tied=False),
    "deepseek-ai/deepseek-llm-7b-base": _sizes("llama", 4096, 30, 32, 32, 11008, 102400, tied=False),
    "deepseek-ai/deepseek-llm-67b-base": _sizes("llama", 8192, 95, 64, 8, 22016, 102400, tied=False),
    "deepseek-ai/DeepSeek-V3-Base": _sizes("llama", 7168, 61, 128, 128, 18432, 129280, tied=False)
    | {
        "model_type": "deepseek_v3",
        "moe_intermediate_size": 2048,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "first_k_dense_replace": 3,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
    },
}

ALIASES = {
    "smollm2-135m": "HuggingFaceTB/SmolLM2-135M-Instruct",
    "0.5b": "Qwen/Qwen2.5-0.5B",
    "1.5b": "Qwen/Qwen2.5-1.5B",
    "3b": "Qwen/Qwen2.5-3B",
    "7b": "deepseek-ai/deepseek-llm-7b-base",
    "14b": "Qwen/Qwen2.5-14B",
    "32b": "Qwen/Qwen2.5-32B",
    "67b": "deepseek-ai/deepseek-llm-67b-base",
    "671b": "deepseek-ai/DeepSeek-V3-Base",
}
ASSETS = Path(__file__).parents[1] / "assets"
HUB_TIMEOUT_S = 2.0


def resolve_shape(model: str) -> ModelShape:
    """The sizes of a model: a size or hub id of the table, a folder or config.json, an embedded model, any hub id.

    Raises:
        UserError: no such model, or a config that is not covered; one line that says what to give.
    """
    name = ALIASES.get(model.lower(), model)
    known = {key.lower(): config for key, config in TABLE.items()}
    base = name.lower().removesuffix("-instruct")
    if config := known.get(name.lower()) or known.get(base):
        return ModelShape.from_config(config)
    path = Path(name).expanduser()
    embedded = sorted(ASSETS.glob(f"{'*' if model == 'embedded' else model}/config.json")) if "/" not in model else []
    for candidate in (path, path / "config.json", *embedded):
        if candidate.is_file():
            return _read(model, candidate.read_text(encoding="utf-8"))
    if model.count("/") == 1 and not model.startswith((".", "/", "~")):
        return _read(model, _from_hub(model))
    raise UserError(f"unknown model {model!r}, and no folder with a config.json; {nearest(model, [*ALIASES, *TABLE])}")


def name_for_run(model: str) -> str:
    """The model as `bench run` knows it: a size of the table is some model's of the hub."""
    return model if model == "smollm2-135m" else ALIASES.get(model.lower(), model)


def _read(model: str, text: str) -> ModelShape:
    try:
        return ModelShape.from_config(json.loads(text))
    except ValueError as error:  # bad JSON is one, too
        raise UserError(f"model {model}: its config.json is of no use: {error}") from error


def _from_hub(model: str) -> str:
    """The config's text from the hub's cache on this disk, else from the hub."""
    from huggingface_hub import get_token, try_to_load_from_cache

    cached = try_to_load_from_cache(model, "config.json")
    if isinstance(cached, str):
        return Path(cached).read_text(encoding="utf-8")
    # the hub's own client retries for half a minute where there is no network
    url = f"{hub_url()}/{model}/resolve/main/config.json"
    token = get_token()
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=HUB_TIMEOUT_S) as answer:
            return answer.read().decode()
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise UserError(
            f"model {model!r} is not in the table, and the hub does not give its config.json ({reason}): "
            "give a folder with a config.json"
        ) from error
