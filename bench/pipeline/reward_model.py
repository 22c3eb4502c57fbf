"""A reward model from pairs of completions, by the Bradley-Terry loss (arXiv:2203.02155, equation 1).

    loss = -log sigmoid(score(better) - score(worse))

as a mean over pairs; or from answers marked safe or not, one by one:

    loss = -log sigmoid(score(safe)),  -log sigmoid(-score(unsafe))
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase

from bench.engines.reward import ClassifierReward, encode
from bench.models.load import drop_dropout, load_tokenizer
from bench.reward import Conversation
from bench.rollout import Rollout, generator
from tasks.preferences import Labelled

DataT = TypeVar("DataT")
HEAD_STD = 0.02  # of the new head's initial weights


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two completions of one prompt, of which the first is the better."""

    prompt: str
    better: str
    worse: str


@dataclass(frozen=True, kw_only=True)
class RewardTraining:
    """How a reward model is trained."""

    lr: float = 1e-3
    """Learning rate of AdamW, constant."""
    batch_size: int = 32
    """Pairs, or single answers, of an update."""
    num_epochs: int = 1
    """Passes over the data."""
    seed: int = 0
    """Seed of the head's initial weights and of the order; the pipeline sets its own."""


def pairs_of(rollouts: Sequence[Rollout]) -> list[Pair]:
    """A right completion before a wrong one of the same problem, each used once; siblings must be adjacent."""
    pairs: list[Pair] = []
    for _, siblings in groupby(rollouts, key=lambda r: (r.problem.id, r.occurrence)):
        group = list(siblings)
        right, wrong = ([r.completion.text for r in group if r.score.correct is verdict] for verdict in (True, False))
        prompt = group[0].problem.prompt
        pairs += [Pair(prompt=prompt, better=b, worse=w) for b, w in zip(right, wrong, strict=False)]
    return pairs


def new_classifier(location: str, seed: int) -> PreTrainedModel:
    """A language model's backbone under a head of one score.

    Args:
        location: of a causal language model.
        seed: decides the head's initial weights.
    """
    model = AutoModelForSequenceClassification.from_pretrained(location, num_labels=1, dtype=torch.float32)
    drop_dropout(model)
    config = model.config.get_text_config()
    if config.pad_token_id is None:
        config.pad_token_id = cast("Any", load_tokenizer(location)).pad_token_id
    head = cast("Tensor", model.score.weight)
    head.data.copy_(HEAD_STD * torch.randn(head.shape, generator=generator(seed, "reward-model")))
    return model.train()


def train_reward_model(location: str, pairs: Sequence[Pair], out: Path, settings: RewardTraining) -> list[float]:
    """Train from a language model, and write the classifier with the tokenizer to `out`.

    Returns:
        The loss of each update.
    """
    return trained(location, pairs, pairs_loss, out, settings)


def train_safety_model(location: str, rows: Sequence[Labelled], out: Path, settings: RewardTraining) -> list[float]:
    """The same for a pointwise model: its score is the log-odds that an answer is safe.

    Returns:
        The loss of each update.
    """
    return trained(location, rows, safety_loss, out, settings)


def trained(
    location: str,
    data: Sequence[DataT],
    loss_of: Callable[[PreTrainedModel, PreTrainedTokenizerBase, Sequence[DataT]], Tensor],
    out: Path,
    settings: RewardTraining,
) -> list[float]:
    """A classifier learnt by one loss; returns the loss of each update."""
    model, tokenizer = new_classifier(location, settings.seed), load_tokenizer(location)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.lr, betas=(0.9, 0.95), weight_decay=0.0)
    losses: list[float] = []
    for epoch in range(settings.num_epochs):
        order = torch.randperm(len(data), generator=generator(settings.seed, "pairs", epoch))
        for rows in order.split(settings.batch_size):
            loss = loss_of(model, tokenizer, [data[i] for i in rows.tolist()])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return losses


def pairs_loss(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, batch: Sequence[Pair]) -> Tensor:
    """The Bradley-Terry loss of a batch."""
    return pair_loss(pair_scores(model, tokenizer, batch))


def pair_scores(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, batch: Sequence[Pair]) -> Tensor:
    """(b, 2) of better and worse, read as the reward engine reads them."""
    texts = [(pair.prompt, text) for pair in batch for text in (pair.better, pair.worse)]
    return scores(model, tokenizer, texts).view(-1, 2)


def scores(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[Conversation]) -> Tensor:
    """(b,) differentiable."""
    rows = [torch.tensor(encode(tokenizer, *text)) for text in texts]
    pad = cast("int", model.config.get_text_config().pad_token_id)
    tokens = pad_sequence(rows, batch_first=True, padding_value=pad)
    mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    return model(input_ids=tokens, attention_mask=mask).logits[:, 0]


def pair_loss(scored: Tensor) -> Tensor:
    """(b, 2) -> the mean negative log-likelihood that the first is preferred; which text was asked first is nowhere."""
    return -F.logsigmoid(scored[:, 0] - scored[:, 1]).mean()


def safety_loss(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, batch: Sequence[Labelled]) -> Tensor:
    """The mean negative log-likelihood of the labels."""
    scored = scores(model, tokenizer, [(row.prompt, row.answer) for row in batch])
    return F.binary_cross_entropy_with_logits(scored, torch.tensor([float(row.safe) for row in batch]))


def pair_accuracy(engine: ClassifierReward, pairs: Sequence[Pair]) -> float:
    """Share of pairs whose better completion has the higher score."""
    better, worse = (engine.score([(p.prompt, getattr(p, side)) for p in pairs]) for side in ("better", "worse"))
    return float((better > worse).float().mean())
