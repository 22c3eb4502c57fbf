"""The harness as a library: python -m examples.library [FOLDER]

One run and one small comparison, their records as frames.
"""

import sys
from pathlib import Path

from bench.library import compare, run

SMALL = {"samples_per_step": 16, "eval": {"limit": 8, "num_samples": 2}, "quiet": True}


def main(out: Path) -> None:
    """Print what a notebook would show."""
    result = run(SMALL, algo_name="grpo", task_name="gsm8k", budget="steps=2", out=str(out / "runs"))
    print(result.status, result.path.name)
    print(result.steps[["step", "reward/mean", "actor/grad_norm"]].to_string(index=False))

    settings = ("samples-per-step=16", "eval.limit=8", "eval.num-samples=2")
    study = compare(("ppo", "grpo"), seeds=1, budget="samples=32", set=settings, out=out / "studies")
    print(study.results[["arm", "before", "after"]].to_string(index=False))
    print(study.differences[["arms", "verdict"]].to_string(index=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("results"))
