"""Random batches, the same for every comparison: three groups of four, float64."""

from dataclasses import dataclass

import torch
from torch import Tensor

from algorithms.core import Algorithm, Batch, required
from bench.gate.formulas import reduced
from tests.algorithms.support import make_batch, moved, output

NUM_DRAWS = 200
GROUP_SIZE = 4
GROUP = [g for g in range(3) for _ in range(GROUP_SIZE)]


@dataclass(frozen=True, kw_only=True)
class Draw:
    """A batch, and a policy and a critic that have moved since it was sampled."""

    batch: Batch
    logprobs: Tensor  # (B, T), a leaf
    values: Tensor  # (B, T), a leaf

    @property
    def mask(self) -> Tensor:
        """(B, T) in float64, as the peers take it."""
        return self.batch.mask.double()

    @property
    def scores(self) -> Tensor:
        """(B, T) the rewards on the last tokens."""
        last = self.batch.mask.sum(dim=1) - 1
        placed = torch.zeros_like(self.batch.old_logprobs)
        placed[torch.arange(len(last)), last] = self.batch.rewards
        return placed


def draw(seed: int, scale: float = 0.3) -> Draw:
    """The seed's batch; `scale` is how far the policy has moved."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 8, (len(GROUP),), generator=generator).tolist()
    rewards = (torch.randint(0, 5, (len(GROUP),), generator=generator) / 4).tolist()
    batch = make_batch(rewards, lengths, GROUP, seed=seed)
    values = required(batch.values)
    wander = 0.4 * torch.randn(values.shape, generator=generator, dtype=torch.float64) * batch.mask
    return Draw(batch=batch, logprobs=moved(batch, scale, seed + 1), values=(values + wander).requires_grad_())


def largest(*pairs: tuple[Tensor, Tensor]) -> float:
    """The largest absolute difference."""
    return max(float((a.double() - b.double()).abs().max()) for a, b in pairs)


def ours(algorithm: Algorithm, d: Draw) -> tuple[Tensor, Tensor]:
    """Our loss () and gradient (B, T), with our own advantages."""
    targets = algorithm.targets(d.batch)
    loss = reduced(algorithm, algorithm.policy_loss(output(d.logprobs), d.batch, targets).loss, d.batch, targets)
    return loss.detach(), torch.autograd.grad(loss, d.logprobs, retain_graph=True)[0]


def theirs(loss: Tensor, d: Draw) -> tuple[Tensor, Tensor]:
    """A peer's loss and its gradient."""
    return loss.detach(), torch.autograd.grad(loss, d.logprobs, retain_graph=True)[0]


def compare(algorithm: Algorithm, loss: Tensor, d: Draw) -> float:
    """Largest difference of loss and gradient."""
    return largest(*zip(ours(algorithm, d), theirs(loss, d), strict=True))
