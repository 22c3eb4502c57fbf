"""Synthetic run directories for tests: the shape of real records, with figures from a formula and a seed."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

ROLES = {
    "ppo": {"policy": 0.0015, "critic": 0.0015, "gradients": 0.003, "optimizer": 0.006},
    "grpo": {"policy": 0.0015, "reference": 0.0015, "gradients": 0.0015, "optimizer": 0.003},
}


def make_run(
    root: Path,
    arm: str,
    seed: int,
    *,
    algo: str | None = None,
    task: str = "gsm8k",
    gain: float = 0.3,
    steps: int = 12,
    status: str | None = "finished",
    config: dict[str, Any] | None = None,
    problems: int = 40,
    completion: str = "<think>2 + 2 = 4</think> \\boxed{4}",
    columns: int = 0,
) -> Path:
    """One run that climbs from 30% by `gain`; `status` None leaves it unfinished, `columns` adds metrics."""
    algo = algo or arm
    rng = np.random.default_rng([seed, len(arm), *arm.encode()])
    path = root / f"20261130T0600{seed:02d}-{arm}-{task}-embedded-s{seed}"
    path.mkdir(parents=True)
    _json(path / "config.json", _config(arm, algo, task, seed, steps) | (config or {}))
    _json(path / "provenance.json", _provenance(seed))
    end = 0.3 + gain + rng.normal(0, 0.02)
    rows = [_step(algo, step, steps, rng, columns) for step in range(1, steps + 1)]
    _jsonl(path / "steps.jsonl", rows)
    done = steps if status == "finished" else steps // 2
    evals = [_eval(task, "test", 0, 0.3, algo)]
    curve = lambda step: 0.3 + (end - 0.3) * (1 - math.exp(-4 * step / steps)) / (1 - math.exp(-4))
    evals += [_eval(task, "validation", s, curve(s), algo) for s in range(0, done + 1, max(1, steps // 6))]
    if status == "finished":
        evals.append(_eval(task, "test", steps, end, algo))
    _jsonl(path / "evals.jsonl", evals)
    right = rng.random(problems) < end
    verdicts = [
        {
            "step": steps,
            "split": "test",
            "task": task,
            "problem": f"{task}/test/{i}",
            "correct": bool(r),
            "num_correct": 4 * int(r),
            "num_samples": 4,
        }
        for i, r in enumerate(right)
    ]
    _jsonl(path / "eval_problems.jsonl", verdicts)
    _jsonl(path / "completions.jsonl", [_completion(step, completion) for step in range(1, steps + 1)])
    if status is not None:
        summary = {
            "status": status,
            "steps": done,
            "seconds": 1.0,
            "message": None if status == "finished" else "loss is nan",
        }
        _json(path / "summary.json", summary)
    return path


def _config(arm: str, algo: str, task: str, seed: int, steps: int) -> dict[str, Any]:
    return {
        "arm": arm,
        "algo_name": algo,
        "task_name": task,
        "model": "embedded",
        "seed": seed,
        "budget": f"steps={steps}",
        "samples_per_step": 256,
        "algo": {"group_size": 1 if algo == "ppo" else 8, "kl_coef": 0.0 if algo == "ppo" else 0.04},
        "task": {"weights": {"format": 0.1}},
        "eval": {"limit": 500, "checkpoint": "last"},
    }


def _provenance(seed: int) -> dict[str, Any]:
    part = {"source": "procedural", "origin": "procedural", "num_rows": 500, "template_sha256": "fe" * 32}
    return {
        "started_at": f"2026-11-30T06:00:{seed % 60:02d}+00:00",
        "commit": "c" * 40,
        "dirty": False,
        "versions": {"torch": "2.13.0"},
        "device": "a test",
        "data": {split: part | {"sha256": split[0] * 64} for split in ("train", "test")},
    }


def _counters(step: int, algo: str) -> dict[str, float]:
    rate = {"ppo": 2.6}.get(algo, 1.1)
    return {
        "data/samples_generated": 256 * step,
        "data/samples_trained": 256 * step,
        "data/tokens_generated": 8704 * step,
        "data/tokens_trained": 8704 * step,
        "data/updates": 2 * step,
        "cost/flops": 4e10 * rate * step,
        "cost/device_s": rate * step,
    }


def _step(algo: str, step: int, steps: int, rng: np.random.Generator, columns: int) -> dict[str, Any]:
    noise = iter(rng.normal(0, 1, 20 + columns).tolist())
    rate = {"ppo": 2.6}.get(algo, 1.1)
    times = {"rollout": 0.35, "score": 0.01, "logprobs": 0.1, "update": 0.5, "sync": 0.01}
    row: dict[str, Any] = {"step": step, "reward/mean": 0.3 + 0.4 * step / steps + 0.01 * next(noise)}
    row |= {
        "actor/kl": 1e-3 * abs(next(noise)),
        "actor/entropy": 0.6 - 0.3 * step / steps,
        "actor/grad_norm": 0.3 + 0.05 * abs(next(noise)),
    }
    row |= {"actor/clip_frac": 0.05 + 0.01 * next(noise), "completion/length_mean": 34 + next(noise)}
    row |= {"completion/truncated_frac": 0.01, "completion/format_frac": 0.95, "reward/correct_frac": 0.4}
    row |= {"verifier/parse_fail_frac": 0.02, "verifier/timeout_frac": 0.0}
    row |= {f"time/{name}_s": rate * share for name, share in times.items()} | {"time/step_s": rate}
    row |= {"perf/generated_tokens_per_s": 12000 + 100 * next(noise), "perf/mfu": 0.2}
    row |= {f"memory/{role}_gib": size for role, size in ROLES.get(algo, ROLES["grpo"]).items()}
    row |= {"memory/roles_gib": sum(ROLES.get(algo, ROLES["grpo"]).values()), "memory/peak_gib/update": 0.6}
    if algo == "ppo":
        row |= {"critic/explained_variance": 0.5 * step / steps + 0.02 * next(noise)}
        row |= {f"critic/error_at/{d}": 0.4 - 0.2 * d + 0.01 * next(noise) for d in (0.1, 0.5, 0.9)}
    else:
        row |= {"reward/frac_zero_std_groups": 0.2 + 0.3 * step / steps}
    row |= {f"extra/metric_{i}": next(noise) for i in range(columns)}
    return row | _counters(step, algo)


def _eval(task: str, split: str, step: int, accuracy: float, algo: str) -> dict[str, Any]:
    return {
        "step": step,
        "split": split,
        "task": task,
        "num_problems": 500,
        "accuracy": round(accuracy, 3),
        "accuracy_ci95": [accuracy - 0.04, accuracy + 0.04],
        "sampled_accuracy": round(accuracy - 0.05, 3),
        "num_samples": 4,
        "pass_at_k": {"1": accuracy - 0.05, "4": min(accuracy + 0.1, 1.0)},
        "format_frac": 0.96,
        "truncated_frac": 0.01,
        "length_mean": 33.0,
    } | _counters(step, algo)


def _completion(step: int, text: str) -> dict[str, Any]:
    return {
        "step": step,
        "problem": "gsm8k/train/1",
        "prompt": "2 + 2?",
        "completion": text,
        "reward": 1.1,
        "correct": True,
        "answer": "4",
        "error": None,
    }


def _json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))


def _jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
