"""Rollouts by a transformers model: one prefill a group, the cache expanded, finished rows dropped."""

import copy
import inspect
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from bench.config import EngineConfig, Sampling
from bench.engines import caches
from bench.engines.decoding import Decoding, draw
from bench.meter import storage_bytes
from bench.models.load import autocast
from bench.models.text import decode_completion, encode_prompt, eos_ids
from bench.rollout import Completion


@dataclass(frozen=True, kw_only=True)
class Job:
    """Part of a group: which prompt, which of its samples."""

    prompt: int
    first: int
    seeds: Sequence[int]


@contextmanager
def evaluating(model: PreTrainedModel) -> Generator[None]:
    """Every module in evaluation meanwhile, and afterwards each in the mode that it was in, whatever its parent's."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


class HFRollout:
    """A `RolloutEngine` that generates from the very modules being trained: no copy that could fall out of step.

    With `own_weights` it has a copy after all, for rollouts from weights that lag behind.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        where: EngineConfig,
        *,
        own_weights: bool = False,
    ) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False) if own_weights else model
        self.weights_bytes = self.resting_bytes = storage_bytes(self.model.parameters()) if own_weights else 0
        self.tokenizer = tokenizer
        self.where = where
        self.eos = torch.tensor(eos_ids(model, tokenizer), device=model.device)
        self.cache_bytes = 0  # largest key-value cache so far
        known = inspect.signature(model.forward).parameters
        self.cache_name = "cache" if "cache" in known else "past_key_values"  # as in transformers 5.19
        self.plain = caches.is_plain(model.config)
        self.takes_positions = "position_ids" in known

    def encode(self, prompt: str) -> list[int]:
        """Token ids of a user message in the chat template."""
        return encode_prompt(self.tokenizer, prompt)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of generated tokens."""
        return str(self.tokenizer.decode(list(token_ids), skip_special_tokens=False))

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
        results: list[list[Completion | None]] = [[None] * len(s) for s in seeds]
        with evaluating(self.model):
            for jobs in self._chunks(prompts, seeds):
                completions = iter(self._generate(prompts, jobs, sampling))
                for job in jobs:
                    for i in range(len(job.seeds)):
                        results[job.prompt][job.first + i] = next(completions)
        return [[c for c in group if c is not None] for group in results]

    def _chunks(self, prompts: Sequence[list[int]], seeds: Sequence[Sequence[int]]) -> Iterator[list[Job]]:
        room = self.where.rollout_batch_size
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
                    chunk, room = [], self.where.rollout_batch_size
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
        caches.spread(cache, owner, budget)
        self.cache_bytes = max(self.cache_bytes, caches.nbytes(cache))
        seen = torch.cat([real[owner], real.new_ones(len(owner), budget)], dim=1)
        positions = prompt_lengths[owner]

        for t in range(budget):
            token = state.record(t, *draw(logits, uniforms[state.rows, t], sampling), self.eos)
            keep = state.compact(t)
            if keep is not None:
                token, seen, positions = token[keep], seen[keep], positions[keep]
                caches.select(cache, keep)
            if len(state.rows) == 0 or t == budget - 1:
                break
            mask = seen[:, : width + t + 1]
            mask = mask[:, None, None] if self.plain else mask
            logits = self._forward(token[:, None], mask, positions[:, None], cache)
            positions = positions + 1
        return self._completions(state, [prompts[job.prompt] for job in jobs for _ in job.seeds])

    def _prefill(self, tokens: Tensor, real: Tensor) -> tuple[Tensor, DynamicCache]:
        """A plain model is given its mask; any other makes its layers' own from which tokens are real."""
        width = tokens.shape[1]
        positions = (real.long().cumsum(1) - 1).clamp(min=0)
        cache = caches.empty(self.model.config)
        if not self.plain:
            return self._forward(tokens, real, positions, cache), cache
        causal = torch.ones(width, width, dtype=torch.bool, device=tokens.device).tril()
        itself = torch.eye(width, dtype=torch.bool, device=tokens.device)  # padding must attend to something
        mask = (causal & real[:, None, :]) | itself
        return self._forward(tokens, mask[:, None], positions, cache), cache

    def _forward(self, tokens: Tensor, mask: Tensor, positions: Tensor, cache: DynamicCache) -> Tensor:
        """(n, V) float32 logits behind the last token."""
        placed = {"position_ids": positions} if self.takes_positions else {}
        with autocast(self.model.device, self.where.dtype):
            out = self.model(
                input_ids=tokens,
                attention_mask=mask,
                **placed,
                use_cache=True,
                logits_to_keep=1,
                **{self.cache_name: cache},
            )
        return out.logits[:, -1].float()

    def _completions(self, state: Decoding, prompts: Sequence[list[int]]) -> list[Completion]:
        eos = set(self.eos.tolist())
        completions: list[Completion] = []
        for prompt, ids, logprobs, sampling_logprobs, length in zip(
            prompts,
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
                    text=decode_completion(self.tokenizer, prompt, ids[:-1] if stopped else ids),
                    finish_reason="stop" if stopped else "length",
                )
            )
        return completions
