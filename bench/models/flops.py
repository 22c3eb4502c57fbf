"""Counted work of each phase, in floating-point operations, from the model's sizes and real lengths.

A multiply-add is 2. With W the layers' matrix elements that one token passes (a mixture counts its active experts), h
the hidden width, V the width of the output head (vocabulary, or 1 for a critic), L layers, H heads of query and value
widths d and d_v:

    a token through the layers             2 W
    a query against c keys                 2 L H (d + d_v) c
    an output position                     2 h V

    prefill   a prompt of p tokens         2 W p + 2 L H (d + d_v) p^2 + 2 h V              once for each group
    decode    n tokens after it            sum over i = 1 .. n-1 of  2 W + 2 L H (d + d_v) (p + i) + 2 h V
    forward   p + n tokens, n outputs      2 W (p + n) + 2 L H (d + d_v) (p + n)^2 + 2 h V n
    backward                               twice the forward pass; with adapters, less one product a frozen matrix

The first completion token comes from the prefill's last position, and the last is never fed back: n tokens take n - 1
decoding passes. Attention is counted over the full square although it is causal, as torch's FlopCounterMode and the
usual model-FLOPs utilisation do (arXiv:2204.02311, appendix B). Padding, norms, activations, rotary positions and the
optimizer are not counted. Checkpointing each decoder layer adds its forward pass again, less the MLP's last projection,
whose output nothing saved (torch stops the recomputation before it).

Where completions share a packed prompt (docs/engines.md) the tokens that are not repeated are not counted; their
attention is, since the gathered rows attend as plain ones do.

With adapters of A elements (`ModelShape.adapters`) W grows by A, which is trained; the matrices beside them are frozen,
the vocabulary head too, and need the gradient of their input only. That of the first layer's input, which nothing
needs, is counted all the same, as are the adapters in a reference that is the policy with its adapters off.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.models.shape import ModelShape

__all__ = [
    "ModelShape",
    "backward_flops",
    "decode_flops",
    "forward_flops",
    "layer_flops",
    "prefill_flops",
    "recompute_flops",
    "trained_token_flops",
]

Lengths = Sequence[int] | NDArray[np.int64]  # (N,) token counts


def layer_flops(shape: ModelShape, tokens: int, query_keys: int) -> int:
    """The decoder layers for `tokens` tokens whose queries meet `query_keys` keys in all."""
    attention = 2 * shape.layers * shape.heads * (shape.head_dim + shape.value_dim)
    return 2 * (shape.active_weights + shape.adapters) * tokens + attention * query_keys


def prefill_flops(shape: ModelShape, prompts: Lengths) -> int:
    """Reading each prompt once; `prompts` holds one length for each group, not for each completion."""
    p = _lengths(prompts)
    return layer_flops(shape, _total(p), _total(p * p)) + 2 * shape.hidden * shape.vocab * len(p)


def decode_flops(shape: ModelShape, prompts: Lengths, completions: Lengths) -> int:
    """Generating each completion token by token after its prompt; one prompt length for each completion."""
    p, n = _pair(prompts, completions)
    passes = np.maximum(n - 1, 0)
    keys = p * passes + passes * (passes + 1) // 2
    return layer_flops(shape, _total(passes), _total(keys)) + 2 * shape.hidden * shape.vocab * _total(passes)


def forward_flops(shape: ModelShape, prompts: Lengths, completions: Lengths, *, head: int | None = None) -> int:
    """One teacher-forced pass over prompt and completion, with outputs at the completion's tokens only.

    `head` is the output width: the vocabulary by default, 1 for a critic or a reward model.
    """
    p, n = _pair(prompts, completions)
    total = p + n
    width = shape.vocab if head is None else head
    return layer_flops(shape, _total(total), _total(total * total)) + 2 * shape.hidden * width * _total(n)


def backward_flops(shape: ModelShape, prompts: Lengths, completions: Lengths, *, head: int | None = None) -> int:
    """Gradients of every weight and activation: two products for each of the forward pass's, one where it is frozen."""
    both = 2 * forward_flops(shape, prompts, completions, head=head)
    if not shape.adapters:
        return both
    p, n = _pair(prompts, completions)
    frozen_head = shape.hidden * shape.vocab * _total(n) if head is None else 0
    return both - 2 * (shape.active_weights * _total(p + n) + frozen_head)


def trained_token_flops(shape: ModelShape) -> int:
    """One token through the layers and back, its attention apart."""
    frozen = 2 * shape.active_weights if shape.adapters else 0
    return 3 * layer_flops(shape, 1, 0) - frozen


def recompute_flops(shape: ModelShape, prompts: Lengths, completions: Lengths) -> int:
    """What checkpointing adds to a dense model's backward pass. Real work, but no part of model-FLOPs utilisation."""
    p, n = _pair(prompts, completions)
    total = p + n
    last_projections = 2 * shape.layers * shape.hidden * shape.intermediate * _total(total)
    return layer_flops(shape, _total(total), _total(total * total)) - (0 if shape.num_experts else last_projections)


def _lengths(lengths: Lengths) -> NDArray[np.int64]:
    return np.asarray(lengths, dtype=np.int64)


def _pair(prompts: Lengths, completions: Lengths) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    p, n = _lengths(prompts), _lengths(completions)
    if p.shape != n.shape:
        raise ValueError(f"one prompt length for each completion: got {len(p)} and {len(n)}")
    return p, n


def _total(lengths: NDArray[np.int64]) -> int:
    return int(lengths.sum())
