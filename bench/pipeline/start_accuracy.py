"""How good a new embedded model is before any reinforcement learning: the figures kept in its provenance."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from bench.scoring import checked_score
from tasks.core import Problem, Task

BATCH = 250


def start_accuracy(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, task: Task, problems: Sequence[Problem], seed: int = 0
) -> dict[str, Any]:
    """One greedy and one sampled answer (temperature 1, full vocabulary) to each problem, as fractions of 1."""
    torch.manual_seed(seed)
    model.eval()
    figures: dict[str, Any] = {"num_problems": len(problems)}
    longest = int(getattr(task, "longest_answer", 64))
    for kind in ("greedy", "sampled"):
        texts: list[str] = []
        for first in range(0, len(problems), BATCH):
            prompts = [problem.prompt for problem in problems[first : first + BATCH]]
            texts += answers(model, tokenizer, prompts, sample=kind == "sampled", longest=longest)
        scores = [checked_score(task, problem, text) for problem, text in zip(problems, texts, strict=True)]
        figures[f"{kind}_accuracy"] = sum(score.correct for score in scores) / len(scores)
        figures[f"{kind}_reward"] = sum(score.reward for score in scores) / len(scores)
        figures[f"{kind}_format_ok"] = sum(bool(score.format_ok) for score in scores) / len(scores)
    return figures


def chat_prompts(tokenizer: PreTrainedTokenizerFast, prompts: Sequence[str]) -> list[str]:
    """User messages in the tokenizer's chat template, up to where the model begins."""
    conversations = [[{"role": "user", "content": prompt}] for prompt in prompts]
    return tokenizer.apply_chat_template(conversations, tokenize=False, add_generation_prompt=True)  # type: ignore[return-value]


@torch.no_grad()
def answers(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    prompts: Sequence[str],
    *,
    sample: bool,
    longest: int,
) -> list[str]:
    batch = tokenizer(chat_prompts(tokenizer, prompts), add_special_tokens=False, padding=True, return_tensors="pt")
    sampling = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0} if sample else {"do_sample": False}
    tokens = {"max_new_tokens": longest, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    generate = cast("Any", model).generate  # transformers types it for its own protocol, which its models do not meet
    ids = generate(batch["input_ids"], attention_mask=batch["attention_mask"], **tokens, **sampling)
    return tokenizer.batch_decode(ids[:, batch["input_ids"].shape[1] :], skip_special_tokens=True)
