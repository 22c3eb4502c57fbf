"""Completions of one prompt packed behind it: the prompt goes through the layers once, and nothing is padded there.

A pass lays all its tokens in one row: each distinct prompt, then each completion. Norms, projections and the MLP work
on that row. Only attention looks at sequences: keys, values and queries are gathered into the padded rows of a plain
pass, which then attends as ever, and its outputs are gathered back. So a pass equals the plain one but for the order of
its sums, and a position is what it was.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from bench.batch import Padded, Sequences
from bench.config import EngineConfig
from bench.engines import caches
from bench.ground.errors import UserError

LEAST_SPARED = 0.2  # share of a padded pass's tokens from which packing it pays for the gathering
TOLERANCE = 1e-3  # of states between a packed and a plain pass; where packing is not served they are far apart
NAME = "bench_shared_prompts"  # under which transformers finds `attend`


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where the N tokens of one packed row stand in (b, l) padded rows, and the other way round."""

    tokens: Tensor  # (1, N) long
    positions: Tensor  # (1, N) long, in the token's own sequence
    padded: Tensor  # (b * l,) long: the packed token at each place of the padded rows; 0 on padding
    packed: Tensor  # (N,) long: the place that each packed token's output is read at
    states: Tensor  # (n,) long: the packed token that each generated token is drawn from
    rows: int


def layout(padded: Padded) -> Layout:
    """The packed row of these padded ones: prompts in the order of their first rows, then completions."""
    assert padded.prompts is not None, "nothing says which rows share their prompt"
    device, (b, width) = padded.tokens.device, padded.tokens.shape
    _, prompt = padded.prompts.unique(return_inverse=True)  # (b,) 0 .. P-1
    first = torch.full((int(prompt.max()) + 1,), b, device=device).scatter_reduce(
        0, prompt, torch.arange(b, device=device), "amin"
    )  # (P,) the first row of each prompt
    place = torch.arange(width, device=device)
    in_prompt = place < padded.prompt_lengths[first][:, None]  # (P, l)
    own = (place >= padded.prompt_lengths[:, None]) & (place < (padded.prompt_lengths + padded.lengths)[:, None])
    number = torch.zeros(len(first), width, dtype=torch.long, device=device)
    number[in_prompt] = torch.arange(int(in_prompt.sum()), device=device)
    where = torch.where(place < padded.prompt_lengths[:, None], number[prompt], 0)  # (b, l)
    where[own] = torch.arange(int(own.sum()), device=device) + int(in_prompt.sum())
    flat = torch.arange(b * width, device=device).view(b, width)
    packed = torch.cat([flat[first][in_prompt], flat[own]])
    tokens = padded.tokens.flatten()[packed]
    return Layout(
        tokens=tokens[None],
        positions=(packed % width)[None],
        padded=where.flatten(),
        packed=packed,
        states=padded.states(where[..., None])[:, 0],
        rows=b,
    )


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,  # noqa: ANN401 - transformers' own
) -> tuple[Tensor, None]:
    """(1, heads, N, d) each -> (1, N, heads, d): the padded rows attend, by transformers' own function."""
    del attention_mask  # the padded rows are causal, and their padding stands behind all that counts
    at: Layout = options.pop("packing")
    q, k, v = (x[0].index_select(1, at.padded).unflatten(1, (at.rows, -1)).transpose(0, 1) for x in (query, key, value))
    out, _ = sdpa_attention_forward(module, q, k, v, None, **cast("Any", options | {"is_causal": True}))
    return out.flatten(0, 1).index_select(0, at.packed)[None], None


AttentionInterface.register(NAME, attend)


@contextmanager
def packed_attention(backbone: PreTrainedModel) -> Generator[None]:
    """The model's layers attend by `attend` meanwhile."""
    config: Any = backbone.config.get_text_config(decoder=True)
    before, config._attn_implementation = config._attn_implementation, NAME
    try:
        yield
    finally:
        config._attn_implementation = before


def states_of(backbone: nn.Module, padded: Padded) -> Tensor:
    """(n, h) the state that each generated token was drawn from, row by row; packed where rows share prompts."""
    if padded.prompts is not None:
        return packed_states(cast("PreTrainedModel", backbone), padded)
    return padded.states(backbone(input_ids=padded.tokens, use_cache=False).last_hidden_state)


def packed_states(backbone: PreTrainedModel, padded: Padded) -> Tensor:
    """(n, h) the state that each generated token was drawn from, row by row."""
    at = layout(padded)
    unused = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=at.tokens.device)  # 4-D: the model then makes no mask
    with packed_attention(backbone):
        hidden = backbone(
            input_ids=at.tokens, position_ids=at.positions, attention_mask=unused, use_cache=False, packing=at
        ).last_hidden_state
    return hidden[0].index_select(0, at.states)


def tokens_passed(padded: Padded) -> int:
    """Tokens of a packed pass: each distinct prompt once, and the completions."""
    assert padded.prompts is not None, "nothing says which rows share their prompt"
    lengths = dict(zip(padded.prompts.tolist(), padded.prompt_lengths.tolist(), strict=True))
    return sum(lengths.values()) + int(padded.lengths.sum())


def pays(padded: Padded) -> bool:
    """Whether a packed pass has so few tokens that it costs less than a padded one."""
    return tokens_passed(padded) <= (1 - LEAST_SPARED) * padded.tokens.numel()


def shares_prompts(policy: PreTrainedModel, where: EngineConfig) -> tuple[bool, str]:
    """Whether passes may be packed, and where the settings leave it open and they may not, why.

    Raises:
        UserError: they must be, by the settings, and cannot.
    """
    if where.share_prompts == "never":
        return False, ""
    reason = hindrance(policy, where)
    if reason and where.share_prompts == "always":
        raise UserError(f"--engine.share-prompts always: {reason}; take auto or never")
    return not reason, reason


def hindrance(policy: PreTrainedModel, where: EngineConfig) -> str:
    """Why passes of this model cannot be packed, or nothing."""
    if where.train == "deepspeed":
        return "DeepSpeed's engines take padded rows"
    if where.gradient_checkpointing:
        return "layers that are computed again in the backward pass forget how they were packed"
    if not caches.is_plain(policy.config):
        return "the model's layers do not all attend to every earlier token by its position"
    if not agrees(policy):
        return "the model's attention is not transformers' own"
    return ""


@torch.no_grad()
def agrees(policy: PreTrainedModel) -> bool:
    """Whether a packed pass of two prompts, one of them shared, gives the states of a plain one."""
    ids = torch.arange(1, 20) % policy.config.get_text_config(decoder=True).vocab_size
    rows = Sequences(
        rows=[ids[:6], torch.cat([ids[:3], ids[8:13]]), ids[4:11]],
        prompt_lengths=torch.tensor([3, 3, 2]),
        lengths=torch.tensor([3, 5, 5]),
        prompts=torch.tensor([0, 0, 1]),
    ).pad(torch.arange(3))
    rows = rows.to(policy.device)
    backbone = cast("PreTrainedModel", policy.base_model)
    try:
        packed = packed_states(backbone, rows)
    except (RuntimeError, ValueError, LookupError, TypeError, AttributeError):
        return False
    return bool((packed - states_of(backbone, replace(rows, prompts=None))).abs().max() < TOLERANCE)
