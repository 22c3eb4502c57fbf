"""Rollouts by a transformers model: one prefill a group, the cache expanded, finished rows dropped."""

import copy
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase
from transformers.cache_utils import DynamicLayer

from bench.config import EngineConfig, Sampling
from bench.engines.decoding import Decoding, draw
from bench.meter import storage_bytes
from bench.models.load import autocast, encode, eos_ids
from bench.rollout import Completion


class BufferedLayer(DynamicLayer):
    """A cache layer with room for every token to come, so that decoding copies nothing."""

    def __init__(self, keys: Tensor, values: Tensor, room: int) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self.buffers = tuple(torch.cat([x, x.new_empty(*x.shape[:2], room, x.shape[3])], dim=2) for x in (keys, values))
        self.keys, self.values = keys, values

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Write behind the last token; returns everything up to it."""
        start, stop = self.filled, self.filled + key_states.shape[2]
        for buffer, states in zip(self.buffers, (key_states, value_states), strict=True):
            buffer[:, :, start:stop] = states
        self.keys, self.values = (buffer[:, :, :stop] for buffer in self.buffers)
        return self.keys, self.values

    @property
    def filled(self) -> int:
        """Tokens held."""
        return cast("Tensor", self.keys).shape[2]

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch."""
        stop = self.filled
        self.buffers = tuple(buffer[rows] for buffer in self.buffers)
        self.keys, self.values = (buffer[:, :, :stop] for buffer in self.buffers)


@dataclass(frozen=True, kw_only=True)
class Job:
    """Part of a group: which prompt, which of its samples."""

    prompt: int
    first: int
    seeds: Sequence[int]


class HFRollout:
    """A `RolloutEngine` that generates from the very modules being trained: no copy that could fall out of step.

    With `own_weights` it has a copy after all, for rollouts from weights that lag behind.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        engine: EngineConfig,
        *,
        own_weights: bool = False,
    ) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False) if own_weights else model
        self.weights_bytes = self.resting_bytes = storage_bytes(self.model.parameters()) if own_weights else 0
        self.tokenizer = tokenizer
        self.engine = engine
        self.eos = torch.tensor(eos_ids(model, tokenizer), device=model.device)
        self.cache_bytes = 0  # largest key-value cache so far
        known = inspect.signature(model.forward).parameters
        self.cache_name = "cache" if "cache" in known else "past_key_values"  # as in transformers 5.19

    def encode(self, prompt: str) -> list[int]:
        """Token ids of a user message in the chat template."""
        return encode(self.tokenizer, prompt)

    def load_weights(self, weights: Iterator[tuple[str, Tensor]]) -> None:
        """Copy what is not already the same storage."""
        own = dict(self.model.named_parameters())
        for name, tensor in weights:
            if own[name].data_ptr() != tensor.data_ptr():
                own[name].data.copy_(tensor)

    def sleep(self) -> None:
        """It holds nothing between calls."""

    @torch.no_grad()
    def generate(
        self, prompts: Sequence[list[int]], seeds: Sequence[Sequence[int]], sampling: Sampling
    ) -> list[list[Completion]]:
        """Completions in the order of `prompts` and `seeds`, whatever batches they were generated in."""
        training = self.model.training
        self.model.eval()
        results: list[list[Completion | None]] = [[None] * len(s) for s in seeds]
        for jobs in self._chunks(prompts, seeds):
            completions = iter(self._generate(prompts, jobs, sampling))
            for job in jobs:
                for i in range(len(job.seeds)):
                    results[job.prompt][job.first + i] = next(completions)
        self.model.train(training)
        return [[c for c in group if c is not None] for group in results]

    def _chunks(self, prompts: Sequence[list[int]], seeds: Sequence[Sequence[int]]) -> Iterator[list[Job]]:
        room = self.engine.rollout_batch_size
        chunk: list[Job] = []
        for prompt in sorted(range(len(prompts)), key=lambda i: len(prompts[i])):
            first = 0
            while first < len(seeds[prompt]):
                part = seeds[prompt][first : first + room]
                chunk.append(Job(prompt=prompt, first=first, seeds=part))
                first += len(part)
                room -= len(part)
                if room == 0:
                    yield chunk
                    chunk, room = [], self.engine.rollout_batch_size
        if chunk:
            yield chunk

    def _generate(self, prompts: Sequence[list[int]], jobs: Sequence[Job], sampling: Sampling) -> list[Completion]:
        device = self.model.device
        ids = [torch.tensor(prompts[job.prompt]) for job in jobs]
        tokens = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_side="left").to(device)
        prompt_lengths = torch.tensor([len(x) for x in ids], device=device)
        width = tokens.shape[1]
        real = torch.arange(width, device=device) >= width - prompt_lengths[:, None]  # (P, width)
        logits, cache = self._prefill(tokens, real)

        owner = torch.arange(len(jobs), device=device).repeat_interleave(
            torch.tensor([len(j.seeds) for j in jobs], device=device)
        )
        budget = sampling.generation_budget
        uniforms = torch.stack(
            [torch.rand(budget, generator=torch.Generator().manual_seed(s)) for job in jobs for s in job.seeds]
        ).to(device)
        state = Decoding(rows=len(owner), budget=budget, device=device)
        logits = logits[owner]
        layers = [BufferedLayer(layer.keys[owner], layer.values[owner], budget) for layer in cache.layers]  # type: ignore[union-attr]
        cache.layers = layers  # type: ignore[assignment]
        self.cache_bytes = max(self.cache_bytes, sum(b.nbytes for layer in layers for b in layer.buffers))
        seen = torch.cat([real[owner], real.new_ones(len(owner), budget)], dim=1)
        positions = prompt_lengths[owner]

        for t in range(budget):
            token = state.record(t, *draw(logits, uniforms[state.rows, t], sampling), self.eos)
            keep = state.compact(t)
            if keep is not None:
                token, seen, positions = token[keep], seen[keep], positions[keep]
                for layer in layers:
                    layer.select(keep)
            if len(state.rows) == 0 or t == budget - 1:
                break
            logits = self._forward(token[:, None], seen[:, None, None, : width + t + 1], positions[:, None], cache)
            positions = positions + 1
        return self._completions(state)

    def _prefill(self, tokens: Tensor, real: Tensor) -> tuple[Tensor, DynamicCache]:
        width = tokens.shape[1]
        causal = torch.ones(width, width, dtype=torch.bool, device=tokens.device).tril()
        itself = torch.eye(width, dtype=torch.bool, device=tokens.device)  # padding must attend to something
        mask = (causal & real[:, None, :]) | itself
        positions = (real.long().cumsum(1) - 1).clamp(min=0)
        cache = DynamicCache()
        return self._forward(tokens, mask[:, None], positions, cache), cache

    def _forward(self, tokens: Tensor, mask: Tensor, positions: Tensor, cache: DynamicCache) -> Tensor:
        """(n, V) float32 logits behind the last token."""
        with autocast(self.model.device, self.engine.dtype):
            out = self.model(
                input_ids=tokens,
                attention_mask=mask,
                position_ids=positions,
                use_cache=True,
                logits_to_keep=1,
                **{self.cache_name: cache},
            )
        return out.logits[:, -1].float()

    def _completions(self, state: Decoding) -> list[Completion]:
        eos = set(self.eos.tolist())
        completions: list[Completion] = []
        for ids, logprobs, sampling_logprobs, length in zip(
            state.tokens.tolist(),
            state.logprobs.tolist(),
            state.sampling_logprobs.tolist(),
            state.lengths.tolist(),
            strict=True,
        ):
            ids = ids[:length]
            stopped = ids[-1] in eos
            completions.append(
                Completion(
                    token_ids=ids,
                    logprobs=logprobs[:length],
                    sampling_logprobs=sampling_logprobs[:length],
                    text=str(self.tokenizer.decode(ids[:-1] if stopped else ids, skip_special_tokens=False)),
                    finish_reason="stop" if stopped else "length",
                )
            )
        return completions
