"""Models of known shapes with random weights, and a task of random words for them: no network, no files."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2ForSequenceClassification,
)

from bench.planner.sizes import ALIASES, TABLE
from tasks.core import Problem, Score, Split

NUM_PROBLEMS = 64
TINY = {
    "model_type": "qwen2",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 97,
    "tie_word_embeddings": True,
}


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Where the models are, how large, and one step's work, in which nearly every completion has full length."""

    device: torch.device
    tiny: bool = False
    prompt_tokens: int = 128
    completion_tokens: int = 128
    samples: int = 64
    micro_batch_tokens: int = 4096
    dtype: str = "bfloat16"

    def sizes(self, size: str) -> dict[str, Any]:
        """A model's config.json; under `tiny` a toy's, whatever was asked for."""
        return TINY if self.tiny else TABLE["Qwen/Qwen2.5-7B" if size == "7b" else ALIASES[size]]

    def config(self, size: str, **more: Any) -> Qwen2Config:  # noqa: ANN401 - transformers' own
        """For transformers."""
        sizes = {key: value for key, value in self.sizes(size).items() if key != "model_type"}
        return Qwen2Config(**sizes, eos_token_id=None, bos_token_id=None, **more)

    def language_model(self, size: str, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
        """Random weights, made on the device; equal ones at every call."""
        torch.manual_seed(0)
        with torch.device(self.device):
            config = self.config(size, pad_token_id=None)
            make: Any = Qwen2ForCausalLM._from_config  # pyright: ignore[reportPrivateUsage]
            return make(config, dtype=dtype, attn_implementation="sdpa").eval()

    def classifier(self, size: str) -> PreTrainedModel:
        """The same with one score."""
        torch.manual_seed(0)
        with torch.device(self.device):
            return Qwen2ForSequenceClassification(self.config(size, num_labels=1, pad_token_id=0)).eval()

    def tokenizer(self, size: str) -> PreTrainedTokenizerFast:
        """One word for each id of the vocabulary; the first one ends a text."""
        vocabulary = {f"w{i}": i for i in range(self.sizes(size)["vocab_size"])}
        tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="w0"))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # pyright: ignore[reportAttributeAccessIssue]
        return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="w0", pad_token="w0")


@dataclass(frozen=True)
class Parity:
    """A task whose reward says nothing, but differs between samples, so that updates have a gradient."""

    prompt_tokens: int
    vocab: int

    def problems(self, split: Split) -> Sequence[Problem]:
        """Random words, as many in each prompt."""
        draw = torch.Generator().manual_seed(0)
        rows = torch.randint(1, self.vocab, (NUM_PROBLEMS, self.prompt_tokens), generator=draw).tolist()
        texts = [" ".join(f"w{word}" for word in row) for row in rows]
        return [Problem(id=f"{split}/{i}", prompt=text, reference="") for i, text in enumerate(texts)]

    def score(self, problem: Problem, completion: str) -> Score:
        """1 for an odd number of letters."""
        del problem
        odd = len(completion.replace(" ", "")) % 2
        return Score(reward=float(odd), correct=bool(odd))
