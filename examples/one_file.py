"""GRPO on one page: python -m examples.one_file

What `bench run` does, top to bottom, on the same parts and with the same numbers, without settings, records or resume:

    prompts -> samples -> verdicts -> advantages -> log-probs -> clipped loss -> AdamW
"""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from bench.batch import Sequences, micro_batches, pad_columns, sequences
from bench.config import ASSETS, EngineConfig, Sampling
from bench.engines.hf import HFRollout
from bench.engines.modules import token_logprobs
from bench.models.load import load_model, load_tokenizer
from bench.rollout import ProblemStream, generate, generator, score
from tasks.gsm8k import Gsm8k

SEED, STEPS = 0, 4
PROMPTS, GROUP = 32, 8  # 32 prompts a step, 8 completions each
MINIBATCHES, MICRO_BATCH_TOKENS = 2, 8192
LR, WARMUP_STEPS, CLIP, KL_COEF, GRAD_CLIP = 2e-4, 3, 0.2, 0.04, 1.0
SAMPLING = Sampling(max_new_tokens=64)


def advantages(rewards: Tensor) -> Tensor:
    """(B,) -> (B,): how far a completion's reward lies from its group's mean, in the group's standard deviations."""
    groups = rewards.view(-1, GROUP)
    spread = groups.std(dim=1, keepdim=True)
    return ((groups - groups.mean(dim=1, keepdim=True)) / (spread + 1e-6)).flatten()


def grpo_loss(logprobs: Tensor, old: Tensor, reference: Tensor, advantage: Tensor) -> Tensor:
    """(b, t) each, the advantage (b, 1): the clipped surrogate and the k3 estimate of the KL to the reference."""
    ratio = (logprobs - old).exp()
    clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
    surrogate = torch.minimum(ratio * advantage, clipped * advantage)
    log_ratio = reference - logprobs
    return -surrogate + KL_COEF * (log_ratio.exp() - 1 - log_ratio)


class Trainer:
    """Policy, frozen reference and optimizer."""

    def __init__(self) -> None:
        folder = str(ASSETS / "gsm8k")
        self.policy, self.reference = load_model(folder), load_model(folder)
        self.reference.requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), lr=0.0, betas=(0.9, 0.95), weight_decay=0.0)
        self.sampler = HFRollout(self.policy, load_tokenizer(folder), EngineConfig(device="cpu"))
        self.task = Gsm8k()
        self.stream = ProblemStream(self.task.problems("train"), SEED)

    def step(self, number: int) -> dict[str, float]:
        """Sample, score, learn; returns what a run would record under the same names."""
        seed = (SEED, "rollout", self.stream.position)
        samples = generate(self.sampler, self.stream.take(PROMPTS), GROUP, SAMPLING, seed)
        rollouts = score(self.task, samples)
        rewards = torch.tensor([r.score.reward for r in rollouts])
        tokens, advantage = sequences(rollouts), advantages(rewards)

        everything = torch.arange(len(rollouts))
        with torch.no_grad():
            networks = {"old": self.policy, "reference": self.reference}
            columns = {name: self.logprobs(model, tokens, everything) for name, model in networks.items()}

        order = torch.randperm(len(rollouts), generator=generator(SEED, "minibatches", number))
        norms = [
            self.update(tokens, rows, columns, advantage, min(1.0, (number + 1) / WARMUP_STEPS))
            for rows in order.tensor_split(MINIBATCHES)
        ]
        correct = sum(r.score.correct for r in rollouts) / len(rollouts)
        sampled = pad_columns([r.completion.logprobs for r in rollouts])
        mismatch = (columns["old"] - sampled)[tokens.mask].abs().max()
        return {
            "reward/mean": float(rewards.mean()),
            "reward/correct_frac": correct,
            "rollout/mismatch_max": float(mismatch),
            "actor/grad_norm_max": max(norms),
        }

    def logprobs(self, model: PreTrainedModel, tokens: Sequences, rows: Tensor) -> Tensor:
        """(B, T) of the generated tokens of these rows, zeros elsewhere."""
        found = torch.zeros(tokens.mask.shape)
        for part in micro_batches(tokens, rows, MICRO_BATCH_TOKENS):
            padded = tokens.pad(part)
            columns = padded.unflatten(token_logprobs(model, padded, SAMPLING.temperature)[0])
            found[part, : columns.shape[1]] = columns
        return found

    def update(
        self, tokens: Sequences, rows: Tensor, columns: dict[str, Tensor], advantage: Tensor, warm: float
    ) -> float:
        """One optimizer update on these rows; returns the gradient's norm.

        A completion's tokens share its weight, and completions weigh the same, however they are split for the memory.
        """
        for part in micro_batches(tokens, rows, MICRO_BATCH_TOKENS):
            padded = tokens.pad(part)
            width = int(padded.lengths.max())
            logprobs = padded.unflatten(token_logprobs(self.policy, padded, SAMPLING.temperature)[0])
            old, reference = (columns[name][part, :width] for name in ("old", "reference"))
            loss = grpo_loss(logprobs, old, reference, advantage[part, None])
            weight = padded.mask / padded.lengths[:, None] / len(rows)
            (weight * loss).sum().backward()
        norm = float(torch.nn.utils.clip_grad_norm_(self.policy.parameters(), GRAD_CLIP))
        for group in self.optimizer.param_groups:
            group["lr"] = LR * warm
        self.optimizer.step()
        self.optimizer.zero_grad()
        return norm


def main() -> None:
    """A few steps, a line each."""
    trainer = Trainer()
    for number in range(STEPS):
        row = trainer.step(number)
        print(f"step {number + 1}  " + "  ".join(f"{name} {value:.4g}" for name, value in row.items()))


if __name__ == "__main__":
    main()
