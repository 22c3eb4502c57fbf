"""Our step against TRL's, side by side: `python -m tests.campaigns.peers [--rounds N] [--steps N] [--peer PYTHON]`.

The same work: GRPO on the embedded model's word problems, 32 prompts x 8 completions, every completion of exactly 32
tokens (neither side may end one), two updates a step, KL in the loss, AdamW, float32, our verifier for both. TRL 1.16
runs its fastest settings that we know: whole minibatches in one pass, no checkpointing, no logging, no bfloat16.

Each round is one process of either side, in turn, so that a busy machine weighs on both. A process makes a step to
warm up and counts the others: median seconds by the clock and by the processor (user and system, all threads). The
ratio is TRL's over ours, its interval a t interval over the rounds' logarithms.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy import stats

PROMPTS, GROUP, TOKENS, KL, RATE = 32, 8, 32, 0.04, 2e-4
Marks = list[tuple[float, float]]  # the clock and the processor's seconds, at the start and after each step


def mark() -> tuple[float, float]:
    """Now, by the clock and by the processor."""
    return time.perf_counter(), time.process_time()


def ours(steps: int) -> Marks:
    """Steps of this harness."""
    import torch

    from bench.loop import at_start, one_step
    from bench.session.loaded import Loaded
    from bench.settings.flags import parse
    from bench.settings.resolve import resolve

    length = ["--sampling.max-new-tokens", str(TOKENS)]
    loaded = Loaded(resolve(parse(["--algo", "grpo", "--task", "gsm8k", "--algo.kl-coef", str(KL), *length])))
    loaded.sampler.eos = torch.empty(0, dtype=torch.long)  # type: ignore[attr-defined] # nothing ends a completion
    parts, state = loaded.parts(), at_start(loaded.config.algo, loaded.work)
    marks = [mark()]
    for _ in range(steps):
        step = one_step(parts, state, 0.5)
        assert {len(r.completion.token_ids) for r in step.rollouts} == {TOKENS}
        marks.append(mark())
    return marks


def trl(steps: int) -> Marks:
    """Steps of TRL's trainer, which makes one rollout for two optimizer steps."""
    from datasets import Dataset  # type: ignore[import-untyped]
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer  # pyright: ignore[reportMissingImports]

    from bench.config import ASSETS
    from tasks import TASKS

    task, folder = TASKS["gsm8k"](), str(ASSETS / "gsm8k")
    problems = task.problems("train")[: PROMPTS * (steps + 1)]
    known = {problem.id: problem for problem in problems}
    rows = [{"prompt": [{"role": "user", "content": p.prompt}], "name": p.id} for p in problems]
    marks: Marks = []

    def reward(completions: Any, name: list[str], **_: object) -> list[float]:  # noqa: ANN401 - TRL's
        texts = [completion[0]["content"] for completion in completions]
        return [task.score(known[n], text).reward for n, text in zip(name, texts, strict=True)]

    class Marking(TrainerCallback):
        def on_train_begin(self, *_: object, **__: object) -> None:
            marks.append(mark())

        def on_step_end(self, args: object, state: Any, control: object, **_: object) -> None:  # noqa: ANN401 - TRL's
            if state.global_step % 2 == 0:
                marks.append(mark())

    settings = GRPOConfig(
        output_dir=tempfile.gettempdir(), use_cpu=True, bf16=False, gradient_checkpointing=False, report_to="none",
        per_device_train_batch_size=PROMPTS * GROUP // 2, steps_per_generation=2, num_generations=GROUP,
        max_completion_length=TOKENS, generation_kwargs={"min_new_tokens": TOKENS}, temperature=1.0, top_k=0,
        beta=KL, loss_type="grpo", learning_rate=RATE, lr_scheduler_type="constant", max_steps=2 * steps,
        logging_strategy="no", save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(folder), reward_funcs=reward, args=settings,
        train_dataset=Dataset.from_list(rows), processing_class=AutoTokenizer.from_pretrained(folder),
        callbacks=[Marking()],
    )  # fmt: skip
    trainer.train()
    return marks


SIDES: dict[str, Callable[[int], Marks]] = {"ours": ours, "trl": trl}


def child(side: str, steps: int) -> None:
    """One process of one side: a JSON line of its steps' medians and its peak memory."""
    marks = SIDES[side](steps + 1)
    taken = np.diff(np.array(marks), axis=0)[1:]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"wall": median(taken[:, 0]), "cpu": median(taken[:, 1]), "gib": peak}))


def measured(side: str, steps: int, threads: int, python: str) -> dict[str, float]:
    """What a process of one side says."""
    command = [python, "-m", "tests.campaigns.peers", "--child", side, "--steps", str(steps)]
    said = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=os.environ | said, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{side} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def ratio(theirs: list[float], mine: list[float]) -> str:
    """Geometric mean of the rounds' ratios, with a 95% interval from three rounds on."""
    logs = np.log(theirs) - np.log(mine)
    if len(logs) < 3:
        return f"{math.exp(logs.mean()):.2f}"
    half = stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / math.sqrt(len(logs))
    return f"{math.exp(logs.mean()):.2f} [{math.exp(logs.mean() - half):.2f}, {math.exp(logs.mean() + half):.2f}]"


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="Processes of each side.")
    parser.add_argument("--steps", type=int, default=5, help="Counted steps of a process.")
    parser.add_argument("--threads", type=int, default=1, help="Threads of a process.")
    parser.add_argument("--peer", default=".venv-peers/bin/python", help="Python that has TRL.")
    parser.add_argument("--child", choices=SIDES, help="Be one process of one side.")
    given = parser.parse_args()
    if given.child:
        return child(given.child, given.steps)
    if not Path(given.peer).exists():
        sys.exit(f"{given.peer}: not there; make peers sets it up")
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for _ in range(given.rounds):
        for side, python in (("ours", sys.executable), ("trl", given.peer)):
            found[side].append(measured(side, given.steps, given.threads, python))
    print("| a step, seconds | ours | TRL | TRL over ours |\n| --- | --- | --- | --- |")
    for name, label in (("cpu", "processor"), ("wall", "clock"), ("gib", "peak memory, GiB")):
        mine, theirs = ([row[name] for row in found[side]] for side in ("ours", "trl"))
        print(f"| {label} | {median(mine):.2f} | {median(theirs):.2f} | {ratio(theirs, mine)} |")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {given.threads} threads, {given.rounds} rounds")
    return None


if __name__ == "__main__":
    main()
