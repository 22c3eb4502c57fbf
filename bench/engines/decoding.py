"""One token of decoding: drawn from the logits, put where it belongs, and which rows go on."""

import torch
from torch import Tensor

from bench.config import Sampling

COMPACT_BELOW = 0.8  # share of unfinished rows below which copying the cache costs less than decoding the rest


def draw(logits: Tensor, uniform: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor, Tensor]:
    """Next tokens by the inverse of the cumulative distribution.

    Args:
        logits: (n, V) float32, untempered.
        uniform: (n,) in [0, 1), one number a row, so that a row's token depends on no other row.
        sampling: temperature 0 takes the likeliest token.

    Returns:
        tokens (n,), their log-probs (n,) tempered over the full vocabulary, and (n,) under what top-p and top-k leave.
    """
    if sampling.temperature == 0:
        token = logits.argmax(-1, keepdim=True)
        logprob = logits.gather(-1, token) - logits.logsumexp(-1, keepdim=True)
        return token[:, 0], logprob[:, 0], torch.zeros_like(logprob[:, 0])
    logprobs = (logits / sampling.temperature).log_softmax(-1)
    kept = keep_mass(logprobs, sampling)
    cumulative = kept.double().exp().cumsum(-1)
    total = cumulative[:, -1:]
    token = torch.searchsorted(cumulative, uniform[:, None].double() * total, right=True).clamp(
        max=logits.shape[-1] - 1
    )
    return token[:, 0], logprobs.gather(-1, token)[:, 0], (kept.gather(-1, token) - total.log())[:, 0].float()


def keep_mass(logprobs: Tensor, sampling: Sampling) -> Tensor:
    """(n, V) log-probs with -inf where top-k or top-p cut; not renormalised."""
    if sampling.top_k:
        floor = logprobs.topk(min(sampling.top_k, logprobs.shape[-1]), dim=-1).values[:, -1:]
        logprobs = logprobs.masked_fill(logprobs < floor, -torch.inf)
    if sampling.top_p < 1:
        ordered, index = logprobs.sort(dim=-1, descending=True)
        mass = ordered.softmax(-1)
        cut = mass.cumsum(-1) - mass >= sampling.top_p
        logprobs = logprobs.masked_fill(cut.new_zeros(cut.shape).scatter(-1, index, cut), -torch.inf)
    return logprobs


class Decoding:
    """What has been generated: N rows of at most `budget` tokens, and which rows are still going."""

    def __init__(self, rows: int, budget: int, device: torch.device) -> None:
        self.tokens = torch.zeros(rows, budget, dtype=torch.long, device=device)
        self.logprobs = torch.zeros(rows, budget, device=device)
        self.sampling_logprobs = torch.zeros(rows, budget, device=device)
        self.lengths = torch.full((rows,), budget, device=device)
        self.rows = torch.arange(rows, device=device)  # (n,) rows in the batch
        self.going = torch.ones(rows, dtype=torch.bool, device=device)  # (n,)

    def record(self, t: int, token: Tensor, logprob: Tensor, sampling_logprob: Tensor, eos: Tensor) -> Tensor:
        """Store step t of the rows still going; returns the tokens."""
        rows = self.rows[self.going]
        self.tokens[rows, t] = token[self.going]
        self.logprobs[rows, t] = logprob[self.going]
        self.sampling_logprobs[rows, t] = sampling_logprob[self.going]
        ended = self.going & torch.isin(token, eos)
        self.lengths[self.rows[ended]] = t + 1
        self.going = self.going & ~ended
        return token

    def compact(self, t: int) -> Tensor | None:
        """Indices of the batch to keep, where enough rows have ended to make that worth a copy."""
        going = int(self.going.sum())
        if going > COMPACT_BELOW * len(self.rows):
            return None
        keep = self.going.nonzero()[:, 0]
        self.rows, self.going = self.rows[keep], self.going[keep]
        return keep
