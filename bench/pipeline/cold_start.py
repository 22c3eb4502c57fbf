"""The embedded models, from nothing: tokenizer, supervised training on careless demonstrations, a folder to load.

    python -m bench pipeline cold-start --task gsm8k --seed 0 --out DIR

writes a Llama-architecture model of about 0.4M parameters in transformers format. Its start is imperfect on purpose
(each family's teacher says how), so that what reinforcement learning can add is right answers, not format. The recipe:
a first fifth of the updates on single steps, then whole problems with 15% of single steps mixed in; prompts are
learnt too, at weight 0.3; Muon for the matrices and AdamW for the rest; a fixed number of updates on one thread, so
that a seed reproduces its model.
"""

import hashlib
import json
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import tokenizers
import torch
import torch.nn.functional as F
import transformers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from bench.pipeline.demonstrations import Demonstration, Family
from bench.pipeline.families import FAMILIES
from bench.pipeline.muon import Muon
from bench.pipeline.start_accuracy import chat_prompts
from bench.pipeline.tokenizer import build_tokenizer

BATCH, DRILL_BATCH, POOL = 64, 192, 20
DRILL_PHASE, DRILL_SHARE, PROMPT_WEIGHT = 0.2, 0.15, 0.3
MUON_LR, ADAMW_LR, WARMUP = 0.02, 3e-3, 50
Pair = tuple[list[int], list[int]]  # prompt tokens, completion tokens


def cold_start(
    task: str, out: Path, seed: int = 0, num_updates: int | None = None, log: Callable[[str], None] = print
) -> dict[str, Any]:
    """Trains the embedded model of `task` and writes it to `out`, with `cold_start.json` beside it.

    Args:
        task: a name in `FAMILIES`.
        out: a folder that does not exist yet: no checkpoint is ever overwritten.
        seed: decides the initial weights and the demonstrations.
        num_updates: optimizer updates; None takes the family's own number, which made the shipped model.
        log: called with one line now and then.

    Returns:
        What `cold_start.json` holds.

    Raises:
        ValueError: an unknown task, or `out` exists.
    """
    if task not in FAMILIES:
        raise ValueError(f"no embedded model for task '{task}'; there are {', '.join(sorted(FAMILIES))}")
    if out.exists():
        raise ValueError(f"{out} exists; a checkpoint is never overwritten: choose another --out")
    family, threads, began = FAMILIES[task], torch.get_num_threads(), time.process_time()
    torch.set_num_threads(1)  # the order of sums, and so the weights, would depend on it
    try:
        tokenizer = build_tokenizer(vocabulary_text(family), family.vocab_size)
        model = build_model(family, tokenizer, seed)
        train(model, tokenizer, family, seed, num_updates or family.num_updates, log)
    finally:
        torch.set_num_threads(threads)
    return write(model, tokenizer, family, out, seed, num_updates or family.num_updates, time.process_time() - began)


def vocabulary_text(family: Family) -> Iterator[str]:
    """What the merges are learnt from: prompts and worked solutions, without the marks."""
    for prompt, right, _ in islice(family.demonstrations(0), 8000):
        yield prompt + "\n" + right.replace("<think>", "").replace("</think>", "").replace("\\boxed{", "")


def build_model(family: Family, tokenizer: PreTrainedTokenizerFast, seed: int) -> LlamaForCausalLM:
    """A small Llama with tied embeddings and random weights."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=-(-len(tokenizer) // 8) * 8,
        hidden_size=family.hidden_size,
        intermediate_size=family.hidden_size * 8 // 3,
        num_hidden_layers=family.num_layers,
        num_attention_heads=family.hidden_size // 32,
        num_key_value_heads=family.hidden_size // 32,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    return LlamaForCausalLM(config)


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
        loss = demonstration_loss(model, batch, model.config.pad_token_id)
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


def write(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    family: Family,
    out: Path,
    seed: int,
    num_updates: int,
    cpu_s: float,
) -> dict[str, Any]:
    """The folder that `from_pretrained` loads, and its provenance."""
    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        max_new_tokens=64,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    provenance = {
        "command": f"python -m bench pipeline cold-start --task {family.name} --seed {seed} --out {out.name}",
        "task": family.name,
        "seed": seed,
        "num_updates": num_updates,
        "num_parameters": model.num_parameters(),
        "planted_flaws": family.flaws,
        "weights_sha256": hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest(),
        "cpu_s": round(cpu_s, 1),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__,
        },
    }
    (out / "cold_start.json").write_text(json.dumps(provenance, indent=2) + "\n")
    return provenance
