"""Learning from given completions, as methods of the same update that reinforcement learning makes.

Imitation (supervised fine-tuning):  L = -log pi(completion), a mean over the batch's tokens
DPO (arXiv:2305.18290, equation 7):  L = -log sigmoid(m),  m = beta ((log pi - log ref)(chosen) - (...)(rejected))

DPO's loss joins two rows, and an update adds up rows one by one. With c = sigmoid(-m) at the weights that the update
starts from, its gradient is that of -beta c (log pi(chosen) - log pi(rejected)) at them: rows again. So each update
begins with a pass that gives m, and makes one step.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from algorithms.core import Aggregation, Algorithm, Batch, Need, PolicyOutput, Targets, TokenLoss, required


@dataclass(frozen=True, kw_only=True)
class Imitation(Algorithm):
    """Supervised fine-tuning: the loss on completions only."""

    group_size: int = 1
    num_minibatches: int = 1

    def targets(self, batch: Batch) -> Targets:
        """Nothing is better than anything else."""
        return Targets(advantages=torch.ones_like(batch.old_logprobs))

    def policy_loss(self, policy: PolicyOutput, batch: Batch, targets: Targets) -> TokenLoss:
        """(b, t) -log pi."""
        return TokenLoss(loss=-policy.logprobs, metrics={"entropy": policy.entropy.detach()})


@dataclass(frozen=True, kw_only=True)
class PairPreference(Algorithm):
    """Direct preference optimisation: rows are chosen, rejected, chosen, rejected, ..."""

    group_size: int = 2
    num_minibatches: int = 1
    aggregation: Aggregation = "sequence-sum"
    beta: float = 0.1
    """Strength of the reference."""

    @property
    def needs(self) -> frozenset[Need]:
        """The reference's log-probs."""
        return frozenset({"ref_logprobs"})

    def margins(self, batch: Batch) -> Tensor:
        """(B / 2,) m of each pair, at the weights before the update."""
        ratio = ((batch.old_logprobs - required(batch.ref_logprobs)) * batch.mask).sum(1)
        return self.beta * (ratio[0::2] - ratio[1::2])

    def targets(self, batch: Batch) -> Targets:
        """(B, T) the weight of each row's log-prob: beta c for the chosen, -beta c for the rejected, twice over.

        Twice, since a mean over rows divides by two rows a pair.
        """
        weight = 2 * self.beta * torch.sigmoid(-self.margins(batch))
        signed = torch.stack([weight, -weight], dim=1).flatten()
        return Targets(advantages=signed[:, None] * batch.mask)

    def policy_loss(self, policy: PolicyOutput, batch: Batch, targets: Targets) -> TokenLoss:
        """(b, t) whose gradient is the pair loss's."""
        return TokenLoss(loss=-targets.advantages * policy.logprobs, metrics={"entropy": policy.entropy.detach()})


def dpo_loss(margins: Tensor) -> Tensor:
    """(P,) -> -log sigmoid of each pair's margin."""
    return -F.logsigmoid(margins)
