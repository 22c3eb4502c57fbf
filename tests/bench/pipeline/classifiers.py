"""Small learned rewards for the tests."""

from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForSequenceClassification

from bench.config import ASSETS
from bench.models.load import load_tokenizer

GSM8K = str(ASSETS / "gsm8k")


def classifier(folder: Path, *, pad: int | None = 0, labels: int = 1, seed: int = 0) -> str:
    """A small random classifier with the embedded model's tokenizer, in a folder."""
    tokenizer: Any = load_tokenizer(GSM8K)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.4,
        num_labels=labels,
        pad_token_id=pad,
    )
    LlamaForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
