"""Rollouts by vLLM, which runs in a process of its own."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from bench.config import EngineConfig, Sampling
from bench.engines.process import Remote
from bench.engines.vllm_host import Drawn, Host, Setup
from bench.ground.errors import UserError
from bench.ground.words import GIB
from bench.models.text import decode_completion, encode_prompt, eos_ids
from bench.rollout import Completion, EngineError

SHARED_MEMORY = Path("/dev/shm")
BUCKET_BYTES = GIB  # of weights handed over at a time


class VLLMRollout:
    """A `RolloutEngine`. Its copy of the weights is updated in place, and its prefix cache emptied, at every sync.

    Args:
        model: the policy, for its sizes and end tokens.
        tokenizer: the policy's.
        where: device, type, memory and parallelism.
        location: where vLLM reads the model from, once.
        longest: longest prompt and completion together.

    Raises:
        UserError: vLLM cannot load the model, not in the memory it may take, or not on so many devices.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        where: EngineConfig,
        *,
        location: str,
        longest: int,
    ) -> None:
        on_gpu = model.device.type == "cuda"
        if where.tensor_parallel > 1 and not on_gpu:
            raise UserError(f"--engine.tensor-parallel {where.tensor_parallel}: there are no GPUs to split over")
        self.tokenizer = tokenizer
        self.eos = eos_ids(model, tokenizer)
        self.dtype = torch.bfloat16 if where.dtype == "bfloat16" else torch.float32
        positions = getattr(model.config.get_text_config(), "max_position_embeddings", longest)
        setup = Setup(
            location=location,
            where=replace(where, device="cuda" if on_gpu else "cpu"),
            longest=min(longest, positions),
            eos=self.eos,
            gpu=model.device.index or 0,
        )
        try:
            self.remote = Remote("vllm", Host, setup)
            self.weights_bytes, self.cache_bytes = self.remote.call("held")
            self.resting_bytes = 0 if on_gpu else self.weights_bytes + self.cache_bytes
        except EngineError as error:
            hint = "--engine.rollout-memory sets what it may take, and --rollout hf takes any model"
            raise UserError(f"--rollout vllm cannot start: {error}; {hint}") from error

    def encode(self, prompt: str) -> list[int]:
        """Token ids of a user message in the chat template."""
        return encode_prompt(self.tokenizer, prompt)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of generated tokens."""
        return str(self.tokenizer.decode(list(token_ids), skip_special_tokens=False))

    def load_weights(self, weights: Iterator[tuple[str, Tensor]]) -> None:
        """Hand the weights over by files in shared memory, a bucket at a time: one way for any device and any split."""
        self.remote.call("wake")
        roomy = SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free > 2 * BUCKET_BYTES
        with tempfile.TemporaryDirectory(prefix="bench-weights-", dir=SHARED_MEMORY if roomy else None) as folder:
            file = str(Path(folder) / "bucket.safetensors")
            for bucket in buckets((name, tensor.to("cpu", self.dtype).contiguous()) for name, tensor in weights):
                save_file(bucket, file)
                self.remote.call("load", file)
        self.remote.call("loaded")

    def sleep(self) -> None:
        """On a GPU, give the memory of the weights and of the cache back."""
        self.remote.call("sleep")

    def generate(
        self, prompts: Sequence[list[int]], seeds: Sequence[Sequence[int]], sampling: Sampling
    ) -> list[list[Completion]]:
        """Completions in the order of `prompts` and `seeds`, each by its own seed."""
        drawn = iter(self.remote.call("generate", prompts, seeds, sampling))
        return [
            [self._completion(prompt, next(drawn), sampling) for _ in part]
            for prompt, part in zip(prompts, seeds, strict=True)
        ]

    def _completion(self, prompt: list[int], drawn: Drawn, sampling: Sampling) -> Completion:
        ids = drawn.token_ids
        stopped = ids[-1] in self.eos
        return Completion(
            token_ids=ids,
            logprobs=drawn.logprobs,
            sampling_logprobs=[0.0] * len(ids) if sampling.temperature == 0 else drawn.sampling_logprobs,
            text=decode_completion(self.tokenizer, prompt, ids[:-1] if stopped else ids),
            finish_reason="stop" if stopped else "length",
        )


def buckets(weights: Iterator[tuple[str, Tensor]]) -> Iterator[dict[str, Tensor]]:
    """The weights in parts of at least `BUCKET_BYTES`, the last apart."""
    part: dict[str, Tensor] = {}
    for name, tensor in weights:
        part[name] = tensor
        if sum(t.nbytes for t in part.values()) >= BUCKET_BYTES:
            yield part
            part = {}
    if part:
        yield part
