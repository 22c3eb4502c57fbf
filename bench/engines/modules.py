"""The networks' own passes: log-probs of generated tokens, entropy, and the critic."""

import copy
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from bench.batch import Padded
from bench.engines.shared_prompts import states_of
from bench.models.load import autocast, output_layer


class Critic(nn.Module):
    """The policy's architecture with a scalar head that starts at 0: V(s) (b, l) for every position.

    What the policy holds frozen is shared with it, so that with adapters a critic costs its adapters and its head.
    """

    def __init__(self, policy: PreTrainedModel) -> None:
        super().__init__()
        frozen = {id(p): p for p in policy.base_model.parameters() if not p.requires_grad}
        self.backbone = copy.deepcopy(policy.base_model, cast("dict[int, Any]", frozen))
        self.head = nn.Linear(policy.config.get_text_config().hidden_size, 1, dtype=policy.dtype)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, padded: Padded) -> Tensor:
        """(b, t) the value of the state that each generated token was drawn from."""
        return padded.unflatten(at_least_float32(self.head(states_of(self.backbone, padded))[:, 0]))


class Scorer(nn.Module):
    """A policy whose forward pass is `token_logprobs`: what wraps modules wraps the whole of it."""

    def __init__(self, model: PreTrainedModel, temperature: float) -> None:
        super().__init__()
        self.model = model
        self.temperature = temperature

    def forward(self, padded: Padded) -> tuple[Tensor, Tensor]:
        """(n,) and (n, V), row by row."""
        return token_logprobs(self.model, padded, self.temperature)


def token_logprobs(model: PreTrainedModel, padded: Padded, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probs of the generated tokens, and the tempered logits behind them.

    Rows are right-padded, so causal attention alone keeps padding out; logits exist for generated tokens only; the
    log-prob is a gather less a log-sum-exp, in float32 (a float64 model's in float64), so no (b, t, V) log-softmax is
    made.

    Returns:
        (n,) and (n, V), row by row.
    """
    logits = at_least_float32(output_layer(model)(states_of(model.base_model, padded)))
    if temperature != 1:
        logits = logits / temperature
    return logits.gather(-1, padded.targets[:, None])[:, 0] - logits.logsumexp(-1), logits


def plain_logprobs(model: PreTrainedModel, dtype: str | None) -> Callable[[Padded], Tensor]:
    """Untempered log-probs (b, t) without gradient, for where nothing is trained."""

    @torch.no_grad()
    def run(padded: Padded) -> Tensor:
        placed = padded.to(model.device)
        with autocast(model.device, dtype):
            return placed.unflatten(token_logprobs(model, placed, 1.0)[0])

    return run


def entropy(logits: Tensor) -> Tensor:
    """(n, V) -> (n,) in nats."""
    logprobs = logits.log_softmax(-1)
    return -(logprobs.exp() * logprobs).sum(-1)


def at_least_float32(x: Tensor) -> Tensor:
    """What half precision cannot hold is kept in float32; float64 stays."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
