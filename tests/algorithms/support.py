"""Small batches and the reduction that the trainer applies, for the algorithms' tests."""

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from algorithms import ALGORITHMS
from algorithms.core import Algorithm, Batch, PolicyOutput
from bench.gate.formulas import reduced

BUDGET = 8


def make_batch(
    rewards: list[float], lengths: list[int], group: list[int], seed: int = 0, **columns: Tensor | int | None
) -> Batch:
    """A float64 batch with random log-probs and values on the generated tokens, zeros on padding."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    noise = lambda scale: scale * torch.randn(mask.shape, generator=generator, dtype=torch.float64) * mask
    old = -noise(1.0).abs()
    defaults: dict[str, Any] = {
        "rewards": torch.tensor(rewards, dtype=torch.float64),
        "correct": torch.tensor(rewards) > 0,
        "group": torch.tensor(group),
        "truncated": torch.zeros(len(rewards), dtype=torch.bool),
        "lengths": torch.tensor(lengths),
        "max_new_tokens": BUDGET,
        "mask": mask,
        "old_logprobs": old,
        "rollout_logprobs": old + noise(0.1),
        "ref_logprobs": old + noise(0.3),
        "values": noise(0.5),
    }
    return Batch(**(defaults | columns))


def some_batch(seed: int = 0, **columns: Tensor | int | None) -> Batch:
    """Two groups of three, their rows interleaved, completions of one to five tokens."""
    return make_batch([1.0, 0.0, 0.0, 1.0, 0.5, 0.0], [5, 3, 1, 4, 2, 5], [7, 2, 7, 2, 7, 2], seed, **columns)


def moved(batch: Batch, scale: float = 0.3, seed: int = 1) -> Tensor:
    """Log-probs of a policy that has left the old one: (B, T), with gradient."""
    noise = torch.randn(batch.mask.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (batch.old_logprobs + scale * noise * batch.mask).requires_grad_()


def output(logprobs: Tensor) -> PolicyOutput:
    """A forward pass whose entropy is some differentiable function of the log-probs."""
    return PolicyOutput(logprobs=logprobs, entropy=-logprobs * logprobs.detach().exp())


def policy_gradient(algorithm: Algorithm, batch: Batch, logprobs: Tensor) -> tuple[Tensor, Tensor]:
    """The batch's loss () and its gradient (B, T) in the log-probs."""
    targets = algorithm.targets(batch)
    loss = reduced(algorithm, algorithm.policy_loss(output(logprobs), batch, targets).loss, batch, targets)
    (gradient,) = torch.autograd.grad(loss, logprobs)
    return loss.detach(), gradient


def plain(name: str, **settings: object) -> Algorithm:
    """The named method's surrogate alone: no KL, no likelihood term; other settings as given."""
    cls = ALGORITHMS[name]
    bare = {"kl_coef": 0.0, "positive_coef": 0.0} | settings
    return cls(**{key: value for key, value in bare.items() if key in {f.name for f in fields(cls)}})  # type: ignore[arg-type]


def wider(batch: Batch, by: int) -> Batch:
    """The same batch with more padding."""
    more = torch.nn.functional.pad
    columns = {f.name: getattr(batch, f.name) for f in fields(batch)}
    return Batch(**{k: more(v, (0, by)) if isinstance(v, Tensor) and v.dim() == 2 else v for k, v in columns.items()})
