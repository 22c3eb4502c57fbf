"""Formulas on a stored batch, of plain arithmetic and torch alone."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from algorithms import ops
from algorithms.core import Algorithm, Batch, PolicyOutput, Targets

# rows of one group beside each other, and apart
ORDERS = {"": [0, 1, 2, 3], "interleaved ": [2, 0, 3, 1]}


def formulas(method: Algorithm) -> Iterator[tuple[str, float]]:
    """Loss, gradient in the logits (4, 3, 3), and metrics, on the stored batch in both orders.

    A method that reads rewards at positions is tried on a batch that has such, too.
    """
    batch, tokens = stored_batch()
    logits = 0.5 * wave(4, 3, 3, phase=3.0)
    for prefix, order in ORDERS.items():
        rows = torch.tensor(order)
        yield from numbers(method, batch[rows], tokens[rows], logits[rows], prefix)
    if method.reads_token_rewards:
        yield from numbers(method, paid_on_the_way(batch), tokens, logits, "paid on the way ")


def numbers(
    method: Algorithm, batch: Batch, tokens: Tensor, logits: Tensor, prefix: str
) -> Iterator[tuple[str, float]]:
    """Of one batch, whose policy the logits are: (B, T, V)."""
    targets = method.targets(batch)
    logits = logits.clone().requires_grad_()
    out = method.policy_loss(from_logits(logits, tokens, batch.mask), batch, targets)
    loss = reduced(method, out.loss, batch, targets)
    (gradient,) = torch.autograd.grad(loss, logits)
    yield f"{prefix}loss", loss.item()
    yield from ((f"{prefix}gradient/{i}", value) for i, value in enumerate(gradient.flatten().tolist()))
    yield from ((f"{prefix}{name}", float((value * batch.mask).sum())) for name, value in out.metrics.items())


def paid_on_the_way(batch: Batch) -> Batch:
    """The stored batch with a first step of one token, which earned a quarter of the reward and a bit."""
    first = 0.25 * batch.rewards + torch.tensor([0.1, 0.0, 0.2, -0.1], dtype=torch.float64)
    token_rewards = ops.at_last_token(batch.rewards - first, batch.mask)
    token_rewards[:, 0] += first
    steps = (torch.arange(3) > 0).long().expand(4, 3)
    return replace(batch, token_rewards=token_rewards, steps=steps)


def reduced(method: Algorithm, loss: Tensor, batch: Batch, targets: Targets) -> Tensor:
    """The optimizer batch's loss: () ."""
    mask = batch.mask if targets.loss_mask is None else targets.loss_mask
    return (ops.loss_weights(mask, method.aggregation, batch.max_new_tokens) * loss).sum()


def from_logits(logits: Tensor, tokens: Tensor, mask: Tensor) -> PolicyOutput:
    """A policy that is a table of logits (B, T, V): log-probs of `tokens` (B, T) and entropies."""
    logprobs = logits.log_softmax(dim=-1)
    entropy = -(logprobs.exp() * logprobs).sum(dim=-1)
    taken = logprobs.gather(-1, tokens[..., None])[..., 0]
    return PolicyOutput(logprobs=taken * mask, entropy=entropy * mask)


def stored_batch() -> tuple[Batch, Tensor]:
    """Four completions in two groups, and the tokens (B, T) that they hold."""
    lengths = torch.tensor([3, 1, 2, 3])
    mask = torch.arange(3)[None] < lengths[:, None]
    old = (-1.2 + 0.3 * wave(4, 3)) * mask
    batch = Batch(
        rewards=torch.tensor([1.0, 0.0, 0.25, 0.75], dtype=torch.float64),
        correct=torch.tensor([True, False, False, True]),
        group=torch.tensor([0, 0, 1, 1]),
        truncated=torch.zeros(4, dtype=torch.bool),
        lengths=lengths,
        max_new_tokens=4,
        mask=mask,
        old_logprobs=old,
        rollout_logprobs=old,
        ref_logprobs=old + 0.2 * wave(4, 3, phase=1.0) * mask,
        values=0.4 * wave(4, 3, phase=2.0) * mask,
    )
    return batch, torch.tensor([[0, 1, 2], [2, 0, 0], [1, 1, 0], [0, 2, 1]])


def wave(*shape: int, phase: float = 0.0, scale: float = 1.0) -> Tensor:
    """Numbers that look random and need no generator, so that no library can change them."""
    index = torch.arange(torch.tensor(shape).prod().item(), dtype=torch.float64)
    return (scale * torch.sin(12.9898 * index + phase) * torch.cos(4.1414 * index - phase)).reshape(shape)
