"""Supervised training of a small model on demonstrations: next-token prediction, prompts included at a low weight."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import cast

import torch
import torch.nn.functional as F
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from bench.pipeline.demonstrations import Demonstration, Family
from bench.pipeline.muon import Muon
from bench.pipeline.start_accuracy import chat_prompts

BATCH, DRILL_BATCH, POOL = 64, 192, 20
DRILL_PHASE, DRILL_SHARE, PROMPT_WEIGHT = 0.2, 0.15, 0.3
MUON_LR, ADAMW_LR, WARMUP = 0.02, 3e-3, 50
Pair = tuple[list[int], list[int]]  # prompt tokens, completion tokens


def train(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    family: Family,
    seed: int,
    num_updates: int,
    log: Callable[[str], None],
) -> None:
    """Next-token training on the careless completions, in place."""
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    rest = [p for n, p in model.named_parameters() if p.ndim != 2 or "embed" in n]
    optimizers: list[torch.optim.Optimizer] = [
        Muon(matrices, lr=MUON_LR),
        torch.optim.AdamW(rest, lr=ADAMW_LR, betas=(0.9, 0.95), weight_decay=0.01),
    ]
    rates = [optimizer.param_groups[0]["lr"] for optimizer in optimizers]
    model.train()
    batches = batch_stream(tokenizer, family, seed, num_updates)
    for update, batch in enumerate(islice(batches, num_updates)):
        done = update / num_updates
        factor = min(1.0, (update + 1) / WARMUP) * min(1.0, max(0.05, 2 * (1 - done)))
        for optimizer, rate in zip(optimizers, rates, strict=True):
            optimizer.param_groups[0]["lr"] = rate * factor
            optimizer.zero_grad()
        loss = demonstration_loss(model, batch, cast("int", model.config.pad_token_id))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        if (update + 1) % 100 == 0:
            log(f"update {update + 1}/{num_updates}  loss {loss.item():.3f}")


def demonstration_loss(model: LlamaForCausalLM, batch: Sequence[Pair], pad: int) -> torch.Tensor:
    """Weighted mean of the next-token losses: completions count 1, prompts PROMPT_WEIGHT, padding nothing."""
    length = max(len(prompt) + len(answer) for prompt, answer in batch)
    ids = torch.full((len(batch), length), pad)  # (B, L), right-padded: causal attention needs no mask
    weight = torch.zeros(len(batch), length)
    for row, (prompt, answer) in enumerate(batch):
        ids[row, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
        weight[row, 1 : len(prompt)] = PROMPT_WEIGHT
        weight[row, len(prompt) : len(prompt) + len(answer)] = 1
    logits = model(input_ids=ids[:, :-1]).logits  # (B, L-1, V)
    losses = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    return (losses * weight[:, 1:].flatten()).sum() / weight[:, 1:].sum()


def batch_stream(
    tokenizer: PreTrainedTokenizerFast, family: Family, seed: int, num_updates: int
) -> Iterator[list[Pair]]:
    """Batches in the recipe's order; whole problems come in pools sorted by length, which halves the padding."""
    order = torch.Generator().manual_seed(seed)
    drills, problems = family.drills(seed), family.demonstrations(seed)
    for _ in range(int(DRILL_PHASE * num_updates)):
        yield encode(tokenizer, list(islice(drills, DRILL_BATCH)))
    while True:
        pool = encode(tokenizer, list(islice(problems, BATCH * POOL)))
        pool.sort(key=lambda pair: len(pair[0]) + len(pair[1]))
        batches = [pool[i : i + BATCH] for i in range(0, len(pool), BATCH)]
        batches += [encode(tokenizer, list(islice(drills, DRILL_BATCH))) for _ in range(int(DRILL_SHARE * POOL))]
        for index in torch.randperm(len(batches), generator=order).tolist():
            yield batches[index]


def encode(tokenizer: PreTrainedTokenizerFast, demonstrations: Sequence[Demonstration]) -> list[Pair]:
    """Token ids of the chat-formatted prompts and of the careless completions, with their end mark."""
    prompts = chat_prompts(tokenizer, [d.prompt for d in demonstrations])
    answers = [d.careless + str(tokenizer.eos_token) for d in demonstrations]
    ids = tokenizer([*prompts, *answers], add_special_tokens=False)["input_ids"]
    return list(zip(ids[: len(prompts)], ids[len(prompts) :], strict=True))
