"""Rollouts -> tensors. The only file that pads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from algorithms.core import Rows, Scored
from bench.ranks import Ranks
from bench.rollout import Rollout, Sample

RowsT = TypeVar("RowsT", bound=Rows)


@dataclass(frozen=True, kw_only=True)
class Padded:
    """Rows of one forward pass. A row is its prompt, its completion, then padding that nothing attends to.

    b rows, l tokens of the longest row, t tokens of the longest completion.
    """

    tokens: Tensor  # (b, l) long
    prompt_lengths: Tensor  # (b,) long
    lengths: Tensor  # (b,) long, of the completions
    prompts: Tensor | None = None  # (b,) long; rows of one number share their prompt. None: each goes with its own

    def to(self, device: torch.device) -> "Padded":
        """The same on `device`."""
        return Padded(
            tokens=self.tokens.to(device),
            prompt_lengths=self.prompt_lengths.to(device),
            lengths=self.lengths.to(device),
            prompts=None if self.prompts is None else self.prompts.to(device),
        )

    @property
    def mask(self) -> Tensor:
        """(b, t) bool; True on generated tokens. From the recorded lengths, never from token ids."""
        return torch.arange(int(self.lengths.max()), device=self.lengths.device) < self.lengths[:, None]

    @property
    def targets(self) -> Tensor:
        """(n,) the generated tokens, row by row."""
        return self.tokens[self._rows, self._positions + 1]

    def states(self, hidden: Tensor) -> Tensor:
        """(b, l, h) -> (n, h): the state that each generated token was drawn from, row by row."""
        return hidden[self._rows, self._positions]

    def unflatten(self, flat: Tensor) -> Tensor:
        """(n,) -> (b, t), zeros on padding."""
        mask = self.mask
        return flat.new_zeros(mask.shape).masked_scatter(mask, flat)

    @property
    def _rows(self) -> Tensor:
        return torch.arange(len(self.lengths), device=self.lengths.device).repeat_interleave(self.lengths)

    @property
    def _positions(self) -> Tensor:
        offsets = torch.arange(int(self.lengths.max()), device=self.lengths.device).expand(len(self.lengths), -1)
        return (offsets + self.prompt_lengths[:, None] - 1)[self.mask]


@dataclass(frozen=True, kw_only=True)
class Sequences:
    """Token ids for the engines, ragged; algorithms never see them."""

    rows: Sequence[Tensor]  # B of (prompt + completion,)
    prompt_lengths: Tensor  # (B,) long
    lengths: Tensor  # (B,) long, of the completions
    prompts: Tensor | None = None  # (B,) long; rows of one number share their prompt. None: each goes with its own

    def __len__(self) -> int:
        """B."""
        return len(self.rows)

    def pad(self, rows: Tensor) -> Padded:
        """These rows as tensors, no wider than they need."""
        return Padded(
            tokens=pad_sequence([self.rows[i] for i in rows.tolist()], batch_first=True),
            prompt_lengths=self.prompt_lengths[rows],
            lengths=self.lengths[rows],
            prompts=None if self.prompts is None else self.prompts[rows],
        )

    def order(self, rows: Tensor) -> Tensor:
        """These rows, longest first; those that share a prompt follow each other, the longest of them first."""
        order = rows[(self.prompt_lengths + self.lengths)[rows].argsort(descending=True, stable=True)]
        if self.prompts is None:
            return order
        first: dict[int, int] = {}
        place = [first.setdefault(prompt, len(first)) for prompt in self.prompts[order].tolist()]
        return order[torch.tensor(place).argsort(stable=True)]

    @property
    def mask(self) -> Tensor:
        """(B, T) bool; True on generated tokens."""
        return torch.arange(int(self.lengths.max())) < self.lengths[:, None]


def sequences(samples: Sequence[Sample], *, sharing: bool = False) -> Sequences:
    """The samples' token ids; with `sharing` also which of them have one prompt, by its tokens."""
    number: dict[tuple[int, ...], int] = {}
    prompts = [number.setdefault(tuple(r.prompt_ids), len(number)) for r in samples]
    return Sequences(
        rows=[torch.tensor(r.prompt_ids + r.completion.token_ids) for r in samples],
        prompt_lengths=torch.tensor([len(r.prompt_ids) for r in samples]),
        lengths=torch.tensor([len(r.completion.token_ids) for r in samples]),
        prompts=torch.tensor(prompts) if sharing else None,
    )


def scored(rollouts: Sequence[Rollout], max_new_tokens: int) -> Scored:
    """The verdicts as tensors; rows of one problem, as it was drawn once, form a group."""
    index: dict[tuple[str, int], int] = {}
    token_rewards, steps = paid_by_token(rollouts)
    return Scored(
        rewards=torch.tensor([r.score.reward for r in rollouts], dtype=torch.float32),
        correct=torch.tensor([r.score.correct for r in rollouts]),
        group=torch.tensor([index.setdefault((r.problem.id, r.occurrence), len(index)) for r in rollouts]),
        truncated=torch.tensor([r.completion.finish_reason == "length" for r in rollouts]),
        lengths=torch.tensor([len(r.completion.token_ids) for r in rollouts]),
        max_new_tokens=max_new_tokens,
        token_rewards=token_rewards,
        steps=steps,
    )


def paid_by_token(rollouts: Sequence[Rollout]) -> tuple[Tensor, Tensor] | tuple[None, None]:
    """What each token earned, and the step it belongs to, each (B, T); None where no completion is paid on its way.

    A step ends with the token that it is paid at; what follows the last is a step that earns nothing.
    """
    if not any(r.paid_at for r in rollouts):
        return None, None
    shape = len(rollouts), max(len(r.completion.token_ids) for r in rollouts)
    rewards, ends = torch.zeros(shape), torch.zeros(shape, dtype=torch.long)
    for row, r in enumerate(rollouts):
        for token, (_, amount) in zip(r.paid_at, r.score.earned, strict=True):
            rewards[row, token] += amount
            ends[row, token] = 1
        if not r.paid_at:
            rewards[row, len(r.completion.token_ids) - 1] = r.score.reward
    return rewards, ends.cumsum(1) - ends


def pad_columns(columns: Sequence[Sequence[float]]) -> Tensor:
    """Ragged per-token numbers as (B, T), zeros on padding."""
    return pad_sequence([torch.tensor(c, dtype=torch.float32) for c in columns], batch_first=True)


def cut(record: RowsT, rows: Tensor, width: int) -> RowsT:
    """These rows of a record, its (B, T) columns cut to the width of a micro-batch."""
    return record[rows].map(lambda column: column[:, :width] if column.ndim == 2 else column)


def micro_batches(sequences: Sequences, rows: Tensor, micro_batch_tokens: int) -> list[Tensor]:
    """Split rows so that no padded micro-batch exceeds `micro_batch_tokens` (one row always goes), longest first."""
    order = sequences.order(rows)
    parts: list[Tensor] = []
    start = 0
    while start < len(order):
        widest = int(sequences.prompt_lengths[order[start]] + sequences.lengths[order[start]])
        size = max(1, micro_batch_tokens // widest)
        parts.append(order[start : start + size])
        start += size
    return parts


def shared_out(sequences: Sequences, rows: Tensor, micro_batch_tokens: int, ranks: Ranks) -> list[tuple[Tensor, bool]]:
    """This rank's micro-batches of `rows`, each with whether it counts.

    Every rank has as many, since passes of sharded weights are made together: what is missing is made up by the
    shortest row once more, which then counts for nothing.
    """
    order = sequences.order(rows)
    parts = [micro_batches(sequences, order[rank :: ranks.size], micro_batch_tokens) for rank in range(ranks.size)]
    mine = [(part, True) for part in parts[ranks.rank]]
    return mine + [(order[-1:], False)] * (max(map(len, parts)) - len(mine))
