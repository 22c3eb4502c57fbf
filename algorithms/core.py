"""What an algorithm sees and what it returns.

Axes:
    B  completions in the batch, B = num_prompts * group_size
    T  generated tokens, right-padded to the longest completion

Everything is completion-aligned: index t is the t-th generated token, so no formula
shifts. Where `mask` is False a tensor holds zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import torch

if TYPE_CHECKING:
    from torch import Tensor

Need = Literal["ref_logprobs", "values", "entropy"]
Aggregation = Literal["token-mean", "sequence-mean", "sequence-sum", "constant"]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What the batched records below share: `batch[rows]`, and one function for every column."""

    def __getitem__(self, rows: Tensor) -> Self:
        return self.map(lambda column: column[rows])

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """The record with `function` of each of its tensors."""
        columns = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{name: function(v) for name, v in columns.items() if isinstance(v, torch.Tensor)})

    def to(self, device: torch.device) -> Self:
        """The record with its tensors on `device`."""
        return self.map(lambda column: column.to(device))


@dataclass(frozen=True, kw_only=True)
class Scored(Rows):
    """Completions and their verdicts, before any forward pass: what the filters see."""

    rewards: Tensor  # (B,) score of the whole completion, in float32
    correct: Tensor  # (B,) bool; the binary verdict, whatever `rewards` mixes in
    group: Tensor  # (B,) long; equal values answer the same prompt
    truncated: Tensor  # (B,) bool; cut at the generation budget, no end-of-sequence token
    lengths: Tensor  # (B,) long; generated tokens, end-of-sequence token included
    max_new_tokens: int  # the generation budget L
    token_rewards: Tensor | None = None  # (B, T) of these rewards what each token earned; None: all at the end
    steps: Tensor | None = None  # (B, T) long; which of the completion's paid steps a token belongs to, from 0


@dataclass(frozen=True, kw_only=True)
class Batch(Scored):
    """Scored rollouts with their token columns, before credit assignment."""

    mask: Tensor  # (B, T) bool; True on generated tokens
    old_logprobs: Tensor  # (B, T) log pi_old by the trainer, before the update
    rollout_logprobs: Tensor  # (B, T) log pi_old by the sampler
    ref_logprobs: Tensor | None = None  # (B, T) log pi_ref
    values: Tensor | None = None  # (B, T) V(s_t) by the critic, before the update


@dataclass(frozen=True, kw_only=True)
class Targets(Rows):
    """Credit assignment: constants of the update."""

    advantages: Tensor  # (B, T)
    returns: Tensor | None = None  # (B, T) the critic's regression target
    loss_mask: Tensor | None = None  # (B, T) bool; tokens that count (default: `mask`)
    token_weight: Tensor | None = None  # (B, T) factor of the policy-gradient term
    nll_weight: Tensor | None = None  # (B, T) factor of an added -log pi term


@dataclass(frozen=True, kw_only=True)
class PolicyOutput:
    """One differentiable forward pass of the policy being trained."""

    logprobs: Tensor  # (B, T) log pi_theta
    entropy: Tensor  # (B, T); carries a gradient only where `needs` lists it


@dataclass(frozen=True, kw_only=True)
class TokenLoss:
    """Per-token results; the trainer alone reduces them."""

    loss: Tensor  # (B, T)
    metrics: dict[str, Tensor]  # each (B, T), averaged over the tokens that count


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """One method: its settings are its fields, its formulas its methods."""

    formula_version: ClassVar[int] = 1
    """Raised when the same settings begin to compute something else; golden gradients are stored under it."""

    reads_token_rewards: ClassVar[bool] = False
    """Whether credit goes by where a task pays a reward; a method without takes each completion's sum."""

    group_size: int = 8
    """Completions sampled for each prompt."""
    num_epochs: int = 1
    """Passes over each batch of rollouts."""
    num_minibatches: int = 2
    """Optimizer updates in each pass; with one pass and one minibatch the ratio is always 1."""
    aggregation: Aggregation = "token-mean"
    """How per-token losses become one number; see `ops.loss_weights`."""

    def __post_init__(self) -> None:
        for reason in self.contradictions():
            raise ValueError(f"{type(self).__name__}: {reason}")

    def contradictions(self) -> Iterator[str]:
        """Reasons why these fields cannot go together; the first is raised as a ValueError."""
        for name in ("group_size", "num_epochs", "num_minibatches"):
            if getattr(self, name) < 1:
                yield f"{name} must be at least 1, got {getattr(self, name)}"

    @property
    def needs(self) -> frozenset[Need]:
        """Columns this setting reads; what is not listed is not built, held or paid for."""
        return frozenset()

    @property
    def value_pretraining(self) -> int:
        """First steps in which only the critic learns, where the critic's settings name none."""
        return 0

    def prompts_to_ask(self, whole: int, missing: int, kept_frac: float) -> int:
        """Prompts of a further round: `whole` fill a batch, `missing` groups are wanted, `kept_frac` were kept."""
        return whole

    @property
    def max_rounds(self) -> int:
        """Rounds of generation allowed to replace the groups that `keep_group` drops."""
        return 1

    def shape_rewards(self, scored: Scored) -> Tensor:
        """(B,) the rewards to train on; the recorded reward stays the task's."""
        return scored.rewards

    def keep_group(self, scored: Scored) -> Tensor:
        """(B,) bool, equal along each group: which groups are trained on."""
        return torch.ones_like(scored.group, dtype=torch.bool)

    def targets(self, batch: Batch) -> Targets:
        """Credit assignment for the whole batch of one step."""
        raise NotImplementedError  # pragma: abstract

    def policy_loss(self, policy: PolicyOutput, batch: Batch, targets: Targets) -> TokenLoss:
        """Per-token loss of one micro-batch of rows."""
        raise NotImplementedError  # pragma: abstract

    def value_loss(self, values: Tensor, batch: Batch, targets: Targets) -> TokenLoss:
        """Per-token loss of the critic, called only where `needs` lists `values`."""
        raise NotImplementedError  # pragma: abstract

    def adapt(self, metrics: Mapping[str, float]) -> Self:
        """The method to use from the next step on, given this step's metrics (adaptive coefficients)."""
        del metrics
        return self


def required(tensor: Tensor | None) -> Tensor:
    """A column that the algorithm listed in `needs`."""
    assert tensor is not None, "the engine did not supply a column that this algorithm needs"
    return tensor
