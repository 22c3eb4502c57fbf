"""What one GPU holds, how fast it is, and whether its numbers agree: `python -m scripts.gpu_acceptance --out FILE`.

Made for one H200 (139 GiB) and at most 8 minutes. Needs torch, transformers and peft, no network and no weights: models
of the Qwen2.5 shapes (arXiv:2412.15115) are random. Each part runs the harness's own loop for a few steps, and its row
is appended, with provenance, as soon as it is there. A part that runs out of memory or of its time is recorded as such,
and the rest goes on.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS needs to be deterministic when asked to be

import torch
from torch import Tensor

from algorithms import ops
from algorithms.core import Algorithm
from algorithms.grpo import GRPO
from algorithms.ppo import PPO
from bench.batch import micro_batches, pad_columns, sequences
from bench.config import LoraConfig, RewardModelConfig
from bench.engines.reward import ClassifierReward
from bench.ground.errors import UserError
from bench.ground.words import GIB
from bench.loop import Parts
from bench.machine.presets import load_preset
from bench.models.load import lora, pick_device
from bench.models.shape import ModelShape
from bench.planner.job import Job, Workload
from bench.planner.memory import memory_of_job
from bench.planner.methods import of_algorithm
from bench.planner.setting import EngineSetting
from bench.reward import Route
from bench.rollout import Rollout, generate, score
from scripts.gpu_acceptance.loop import parts_of, settings, steps
from scripts.gpu_acceptance.parts import Figures, Part, run
from scripts.gpu_acceptance.random_models import Bench

KEPT = ("memory/", "time/", "perf/", "rollout/", "actor/", "critic/loss", "critic/grad_norm", "reward/")
DTYPES = ("bfloat16", "float32")
RANK = 16
GROUPS = GRPO(kl_coef=0.04)
CRITIC = PPO()
TEXTBOOK = PPO(kl_coef=0.05)


def training(bench: Bench, found: Figures, size: str, algo: Algorithm, *, rank: int = 0, **engine: Any) -> None:  # noqa: ANN401
    """Memory by role, times and rates of the second of two steps: the first one warms up and makes optimizer states."""
    if "offload" not in engine:  # the planner off-loads no reference
        found |= predicted(bench, size, algo, rank)
    model = bench.language_model(size, torch.bfloat16 if rank and bench.dtype == "bfloat16" else torch.float32)
    if rank:
        lora.prepare_adapters(model, LoraConfig(rank=rank), bench.dtype, seed=0)
    found |= kept(steps(parts_of(bench, settings(bench, algo, size, **engine), size, model), 2)[-1])


def four_roles(bench: Bench, found: Figures, size: str) -> None:
    """PPO as in the textbook: policy, reference, critic and a learned reward, here a random one."""
    found |= predicted(bench, size, TEXTBOOK, 0, reward=True)
    config = replace(settings(bench, TEXTBOOK, size), reward_model=RewardModelConfig(path="random"))
    with tempfile.TemporaryDirectory() as folder:
        bench.classifier(size).save_pretrained(folder)
        bench.tokenizer(size).save_pretrained(folder)
        reward = ClassifierReward(folder, bench.device, config.engine.dtype, config.engine.tokens_at_once)
    reward.tokenizer = bench.tokenizer(size)  # transformers reads a Qwen model's folder as Qwen's own tokenizer
    route = Route(reward, config.reward_model)
    found |= kept(steps(parts_of(bench, config, size, bench.language_model(size), rewards=(route,)), 2)[-1])


def kept(row: Figures) -> Figures:
    """What of a step's row says something of the machine."""
    return {name: value for name, value in row.items() if name.startswith(KEPT)}


def predicted(bench: Bench, size: str, algo: Algorithm, rank: int, *, reward: bool = False) -> Figures:
    """The planner's peak for the same step, on the preset of one H200."""
    shape, preset = ModelShape.from_config(bench.sizes(size)), load_preset("1xH200")
    job = Job(
        model=size,
        shape=shape,
        method=of_algorithm(type(algo).__name__.lower(), algo),
        workload=Workload(
            prompt_tokens=bench.prompt_tokens,
            completion_tokens=bench.completion_tokens,
            samples_per_step=bench.samples,
        ),
        preset=preset,
        setting=replace(EngineSetting.of_preset(preset), lora_rank=rank, micro_batch_tokens=bench.micro_batch_tokens),
        reward_shape=shape if reward else None,
    )
    return {"predicted/peak_gib": memory_of_job(job).peak_bytes / GIB}


def agreement(bench: Bench, found: Figures, size: str) -> None:
    """Log-probs of the same tokens: sampler against trainer, in each arithmetic, and bfloat16 against float32."""
    model, algo = bench.language_model(size), replace(GROUPS, kl_coef=0.0)
    runs = {dtype: parts_of(bench, settings(bench, algo, size, dtype=dtype), size, model) for dtype in DTYPES}
    rows: list[Rollout] = []
    for dtype, parts in runs.items():
        problems = parts.problems[: bench.samples // algo.group_size]
        sampled = generate(parts.sampler, problems, algo.group_size, parts.config.sampling, ("agreement",))
        rows = score(parts.config.task, sampled)
        drawn = pad_columns([r.completion.logprobs for r in rows])
        found |= differences(f"sampler_{dtype}", logprobs(parts, rows), drawn, sequences(rows).mask)
    half, whole = (logprobs(runs[dtype], rows) for dtype in DTYPES)
    found |= differences("bfloat16_float32", half, whole, sequences(rows).mask)


def logprobs(parts: Parts, rollouts: Sequence[Rollout]) -> Tensor:
    """(B, T) by the trainer."""
    tokens = sequences(rollouts)
    columns = torch.zeros(tokens.mask.shape)
    for rows in micro_batches(tokens, torch.arange(len(tokens)), parts.config.engine.tokens_at_once):
        part = parts.trainer.logprobs(tokens.pad(rows)).float().cpu()
        columns[rows, : part.shape[1]] = part
    return columns


def differences(name: str, ours: Tensor, theirs: Tensor, mask: Tensor) -> Figures:
    """How far two (B, T) log-probs of the same tokens are apart, in nats."""
    apart = (ours - theirs)[mask].abs()
    return {
        f"agreement/{name}_mean": float(apart.mean()),
        f"agreement/{name}_max": float(apart.max()),
        f"agreement/{name}_kl": float(ops.kl(theirs, ours, "k3")[mask].mean()),
    }


def determinism(bench: Bench, found: Figures, size: str) -> None:
    """Whether two equal runs of two steps end at equal weights: as torch is, and with deterministic algorithms."""
    for name, asked in (("default", False), ("deterministic", True)):
        torch.use_deterministic_algorithms(asked, warn_only=True)
        try:
            first, again = (last_weights(bench, size) for _ in range(2))
        finally:
            torch.use_deterministic_algorithms(False)
        apart = max(float((a - b).abs().max()) for a, b in zip(first, again, strict=True))
        found |= {f"determinism/{name}_equal": apart == 0, f"determinism/{name}_max_difference": apart}


def last_weights(bench: Bench, size: str) -> list[Tensor]:
    """The policy's after two steps of GRPO."""
    model = bench.language_model(size)
    steps(parts_of(bench, settings(bench, GROUPS, size), size, model), 2)
    return [parameter.detach() for parameter in model.parameters()]


PARTS = (
    Part(name="agreement 0.5b", limit_s=40, find=partial(agreement, size="0.5b")),
    Part(name="determinism 0.5b", limit_s=50, find=partial(determinism, size="0.5b")),
    *(
        Part(name=f"{name} {size}", limit_s=limit_s, find=partial(training, size=size, algo=algo))
        for size, limit_s in (("0.5b", 25), ("1.5b", 30), ("3b", 40))
        for name, algo in (("grpo", GROUPS), ("ppo", CRITIC))
    ),
    Part(name="ppo with four roles 0.5b", limit_s=40, find=partial(four_roles, size="0.5b")),
    Part(name="lora grpo 7b", limit_s=50, find=partial(training, size="7b", algo=GROUPS, rank=RANK)),
    Part(name="lora ppo 7b", limit_s=50, find=partial(training, size="7b", algo=CRITIC, rank=RANK)),
    Part(name="grpo 7b", limit_s=40, find=partial(training, size="7b", algo=GROUPS), expected=("ok", "oom")),
    Part(
        name="grpo 3b, reference off-loaded",
        limit_s=40,
        find=partial(training, size="3b", algo=GROUPS, offload=("reference",)),
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the flags; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.gpu_acceptance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, help="JSONL file that rows are appended to")
    parser.add_argument("--limit-s", type=float, default=460, help="seconds for all parts together")
    parser.add_argument("--only", nargs="*", default=[], help="names of parts; none given: all")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--tiny", action="store_true", help="toy shapes: whether the script itself works")
    flags = parser.parse_args(arguments)
    try:
        device = pick_device(flags.device)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    bench = Bench(device=device)
    if flags.tiny:
        bench = Bench(device=device, tiny=True, prompt_tokens=6, completion_tokens=5, samples=16, micro_batch_tokens=64)
    chosen = [part for part in PARTS if not flags.only or part.name in flags.only]
    return run(bench, chosen, flags.out, flags.limit_s)


if __name__ == "__main__":
    raise SystemExit(main())
