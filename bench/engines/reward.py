"""A learned reward model: a sequence classifier with one label, read in its own words."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from bench.engines.reference import tensors_of
from bench.ground.errors import UserError
from bench.meter import storage_bytes
from bench.models import folder
from bench.models.load import autocast, drop_dropout
from bench.models.shape import countable
from bench.models.text import apply_template
from bench.reward import Conversation


class ClassifierReward:
    """A `RewardEngine`: the classifier's one logit for prompt and completion, in its own tokenizer's chat template."""

    def __init__(
        self,
        location: str,
        device: torch.device,
        dtype: str | None,
        micro_batch_tokens: int,
        flag: str = "--reward-model",
    ) -> None:
        """Load from a folder or the hub; `flag` is how messages name it.

        Raises:
            UserError: it cannot be loaded, or it is no classifier with one label.
        """
        self.location = location
        self.device = device
        self.dtype = dtype
        self.micro_batch_tokens = micro_batch_tokens
        self.flag = flag
        self.model, self.tokenizer = load_classifier(location, flag)
        cast("Any", self.model).to(device)
        self.pad = padding(self.model, self.tokenizer)
        self.shape = countable(self.model.config)
        self._lengths: list[int] = []

    def encode(self, conversation: Conversation) -> list[int]:
        """Token ids of one conversation.

        Raises:
            UserError: it is longer than the model takes.
        """
        ids = encode(self.tokenizer, *conversation)
        room = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        if room is not None and len(ids) > room:
            raise UserError(
                f"{self.flag} {self.location} takes {room} tokens, and a completion with its prompt has {len(ids)}: "
                "lower --sampling.max-new-tokens or --max-prompt-tokens"
            )
        return ids

    @torch.no_grad()
    def score(self, conversations: Sequence[Conversation]) -> Tensor:
        """(B,) float32 on the CPU; rows are batched by length, so that little is padded."""
        rows = [self.encode(conversation) for conversation in conversations]
        self._lengths += map(len, rows)
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
        scores = torch.zeros(len(rows))
        start = 0
        while start < len(order):
            size = 1 if self.pad is None else max(1, self.micro_batch_tokens // len(rows[order[start]]))
            part = order[start : start + size]
            scores[part] = self._forward([rows[i] for i in part])
            start += size
        return scores

    def _forward(self, rows: Sequence[list[int]]) -> Tensor:
        width = len(rows[0])
        tokens = torch.tensor([row + [self.pad or 0] * (width - len(row)) for row in rows])
        mask = torch.arange(width) < torch.tensor([len(row) for row in rows])[:, None]
        with autocast(self.device, self.dtype):
            out = self.model(input_ids=tokens.to(self.device), attention_mask=mask.long().to(self.device))
        return out.logits[:, 0].float().cpu()

    def memory(self) -> int:
        """Bytes of weights and buffers."""
        return storage_bytes(tensors_of(self.model))

    def take_lengths(self) -> list[int]:
        """Tokens of each text that was scored since the last call."""
        lengths, self._lengths = self._lengths, []
        return lengths


def encode(tokenizer: PreTrainedTokenizerBase, prompt: str, completion: str) -> list[int]:
    """A conversation in the chat template; the bare texts, one behind the other, where there is none."""
    if tokenizer.chat_template is None:
        return cast("list[int]", tokenizer(prompt + completion)["input_ids"])
    return apply_template(tokenizer, [("user", prompt), ("assistant", completion)], tokenize=True)


def load_classifier(location: str, flag: str = "--reward-model") -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The classifier in float32 without dropout, and its tokenizer.

    Raises:
        UserError: it cannot be loaded, or it is no classifier with one label.
    """
    config = folder.read_model(AutoConfig, location, flag)
    kind = (config.architectures or ["model of no stated kind"])[0]
    if not kind.endswith("ForSequenceClassification"):
        raise UserError(f"{flag} {location}: a {kind} is no sequence classifier; see docs/reward_model.md")
    if config.num_labels != 1:
        raise UserError(f"{flag} {location}: it has {config.num_labels} labels; a reward model has one")
    model = folder.read_weights(AutoModelForSequenceClassification, location, flag, dtype=torch.float32)
    tokenizer = folder.read_model(AutoTokenizer, location, flag)
    drop_dropout(model)
    model.config.use_cache = False
    return model.eval().requires_grad_(False), tokenizer


def padding(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The id that fills up a batch; None where the model reads none, and rows must go one by one.

    A decoder scores the last token that is not padding, so a classifier without padding of its own is given the
    tokenizer's only where that ends no text.
    """
    config: Any = model.config.get_text_config()
    if config.pad_token_id is None and tokenizer.pad_token_id != tokenizer.eos_token_id:
        config.pad_token_id = tokenizer.pad_token_id
    return cast("int | None", config.pad_token_id)
