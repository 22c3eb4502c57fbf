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
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, cast

import tokenizers
import torch
import transformers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from bench.ground.errors import UserError
from bench.pipeline.demonstrations import Family
from bench.pipeline.families import FAMILIES
from bench.pipeline.pretrain import train
from bench.pipeline.start_accuracy import start_accuracy
from bench.pipeline.tokenizer import build_tokenizer
from tasks import TASKS


@dataclass(frozen=True, kw_only=True)
class ColdStart:
    """Rebuild an embedded model from nothing: the seed reproduces the shipped weights."""

    task: str = "gsm8k"
    """Task whose model is built."""
    out: Path
    """Folder to make; it must not exist."""
    seed: int = 0
    """Seed of the initial weights and the demonstrations."""
    num_updates: int | None = None
    """Number of optimizer updates. None: the number that made the shipped model."""
    quiet: bool = False
    """Print the closing line only."""


def command(config: ColdStart) -> int:
    """`python -m bench pipeline cold-start`; returns the exit code."""
    cold_start(
        config.task, config.out, config.seed, config.num_updates, log=(lambda _: None) if config.quiet else print
    )
    print(config.out)
    return 0


def cold_start(
    task: str,
    out: Path,
    seed: int = 0,
    num_updates: int | None = None,
    num_problems: int = 1000,
    log: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Trains the embedded model of `task` and writes it to `out`, with `cold_start.json` beside it.

    Args:
        task: a name in `FAMILIES`.
        out: a folder that does not exist yet: no checkpoint is ever overwritten.
        seed: decides the initial weights and the demonstrations.
        num_updates: optimizer updates; None takes the family's own number, which made the shipped model.
        num_problems: of the test split, to measure the start on.
        log: called with one line now and then.

    Returns:
        What `cold_start.json` holds.

    Raises:
        UserError: an unknown task, or `out` exists.
    """
    if task not in FAMILIES:
        raise UserError(f"no embedded model for task '{task}'; there are {', '.join(sorted(FAMILIES))}")
    if out.exists():
        raise UserError(f"{out} exists; a checkpoint is never overwritten: choose another --out")
    made = {"task": task, "seed": seed}
    made["num_updates"] = FAMILIES[task].num_updates if num_updates is None else num_updates
    with one_thread():
        model, tokenizer, cpu_s = taught_model(task, seed, made["num_updates"], log)
        judge = TASKS[FAMILIES[task].task or task]()
        start = start_accuracy(model, tokenizer, judge, judge.problems("test")[:num_problems], seed)
    log(f"start on the test split: {start}")
    weights = write(model, tokenizer, FAMILIES[task], out)
    made |= {"num_parameters": model.num_parameters(), "planted_flaws": FAMILIES[task].flaws}
    return recorded(made | {"start": start, "cpu_s": round(cpu_s, 1)}, weights, out)


@contextmanager
def one_thread() -> Generator[None]:
    """The order of sums, and so the weights, would depend on their number."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def taught_model(
    task: str, seed: int, num_updates: int, log: Callable[[str], None]
) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast, float]:
    """The family's model after its demonstrations, its tokenizer, and the CPU seconds that it took."""
    family, began = FAMILIES[task], time.process_time()
    tokenizer = build_tokenizer(vocabulary_text(family), family.vocab_size)
    model = build_model(family, tokenizer, seed)
    train(model, tokenizer, family, seed, num_updates, log)
    if family.half_precision:
        model.half().float()  # what is measured is what is stored
    return model, tokenizer, time.process_time() - began


def recorded(made: dict[str, Any], weights: Path, out: Path) -> dict[str, Any]:
    """Write how the model was made beside it, as `cold_start.json`; returns what it holds."""
    provenance = {
        "command": f"python -m bench pipeline cold-start --task {made['task']} --seed {made['seed']} --out {out.name}",
        **made,
        "weights_sha256": hashlib.sha256(weights.read_bytes()).hexdigest(),
        "versions": versions(),
    }
    (out / "cold_start.json").write_text(json.dumps(provenance, indent=2) + "\n", encoding="utf-8")
    return provenance


def vocabulary_text(family: Family) -> Iterator[str]:
    """What the merges are learnt from: prompts and worked solutions, without the marks."""
    for prompt, right, taught in islice(family.demonstrations(0), 8000):
        text = f"{prompt}\n{right}\n{taught}" if family.reads_all else f"{prompt}\n{right}"
        yield text.replace("<think>", "").replace("</think>", "").replace("\\boxed{", "")


def build_model(family: Family, tokenizer: PreTrainedTokenizerFast, seed: int) -> LlamaForCausalLM:
    """A small Llama with tied embeddings and random weights."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=-(-len(tokenizer) // 8) * 8,
        hidden_size=family.hidden_size,
        intermediate_size=family.hidden_size * 8 // 24 * 8,
        num_hidden_layers=family.num_layers,
        num_attention_heads=family.hidden_size // 32,
        num_key_value_heads=family.hidden_size // 32,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=cast("int", tokenizer.eos_token_id),
        pad_token_id=cast("int", tokenizer.pad_token_id),
        dtype="float32",
    )
    return LlamaForCausalLM(config)


def write(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, family: Family, out: Path) -> Path:
    """The folder that `from_pretrained` loads; returns the file of its weights.

    fp16 is a way of storing only: the configuration says float32, so that the model is loaded as it was measured.
    """
    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        max_new_tokens=64,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    (model.half() if family.half_precision else model).save_pretrained(out)
    model.config.dtype = torch.float32
    model.config.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return out / "model.safetensors"


def versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
    }
