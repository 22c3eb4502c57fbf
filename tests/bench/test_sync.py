"""Which weights are sampled from: now, or some steps old; and whether a sampler that falls out of step is noticed."""

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bench.cli import main
from bench.config import EngineConfig, RunConfig, Sampling
from bench.engines.hf import HFRollout
from bench.proof import TOLERANCE
from bench.rollout import Completion, EngineError
from bench.sync import Snapshot, agree, hand_over
from tasks.core import Problem
from tests.bench.small_runs import SMALL, rows, run, weights
from tests.bench.support import engine, tiny_llama


class Listening:
    """Notes one number of each set of weights that it is handed."""

    cache_bytes = 0
    weights_bytes = resting_bytes = 1

    def __init__(self) -> None:
        self.heard: list[float] = []

    def encode(self, prompt: str) -> list[int]:
        return [3, 4]

    def generate(
        self, prompts: Sequence[list[int]], seeds: Sequence[Sequence[int]], sampling: Sampling
    ) -> list[list[Completion]]:
        one = Completion(token_ids=[5], logprobs=[-1.0], sampling_logprobs=[-1.0], text="", finish_reason="stop")
        return [[one for _ in part] for part in seeds]

    def load_weights(self, weights: Iterator[tuple[str, Tensor]]) -> None:
        self.heard.append(float(next(weights)[1].flatten()[0]))

    def sleep(self) -> None:
        """It holds nothing."""


def config(lag: int, tolerance: float | None = float("inf")) -> RunConfig:
    from algorithms.grpo import GRPO
    from bench.settings.plugins import find_task

    engine = EngineConfig(device="cpu", dtype="float32", micro_batch_tokens=1000, rollout_tolerance=tolerance)
    return RunConfig(
        algo=GRPO(), task=find_task("gsm8k")(), rollout_lag=lag, engine=engine, sampling=Sampling(max_new_tokens=4)
    )


@pytest.mark.parametrize("lag", [0, 1, 3])
def test_the_sampler_is_handed_the_weights_of_so_many_steps_ago(lag: int) -> None:
    trainer = engine(tiny_llama())
    first = next(trainer.policy.parameters())
    past: list[Snapshot] = []
    wanted: list[int] = []
    for step in range(6):
        with torch.no_grad():
            first.fill_(step)
        sampler = Listening()
        problems = [Problem(id="p", prompt="q", reference="r")]
        hand_over(sampler, trainer, past, problems, config(lag), step)
        wanted.append(int(sampler.heard[-1]))
    assert wanted == [max(0, step - lag) for step in range(6)]
    assert len(past) == (lag + 1 if lag else 0)


def test_agreement_is_judged_over_real_tokens_and_by_the_arithmetic() -> None:
    mask = torch.tensor([[True, True], [True, False]])
    ours = torch.tensor([[-1.0, -2.0], [-3.0, 0.0]])
    padded = torch.tensor([[0.0, 0.0], [0.0, 99.0]])
    within, beyond = 0.9 * TOLERANCE["float32"], 1.1 * TOLERANCE["float32"]
    agree(ours, ours + within * mask + padded, mask, config(0, None))
    with pytest.raises(EngineError, match=r"off by 0\.0011 nats a token"):
        agree(ours, ours + beyond * mask, mask, config(0, None))
    with pytest.raises(EngineError, match="nan"):
        agree(ours, ours * float("nan"), mask, config(0))
    agree(ours, ours + beyond * mask, mask, config(0, 0.01))


def stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a sampler whose weights are never updated."""

    class Stuck(HFRollout):
        def load_weights(self, weights: Iterator[tuple[str, Tensor]]) -> None:
            """It keeps those it has."""

    def build(settings: EngineConfig, model: Any, tokenizer: Any, location: str, **rest: object) -> HFRollout:  # noqa: ANN401
        return Stuck(model, tokenizer, settings, own_weights=True)

    monkeypatch.setattr("bench.session.loaded.rollout_engine", build)


@pytest.mark.parametrize("lag", ["0", "2"])
def test_a_sampler_that_is_never_updated_stops_the_run_which_then_resumes(
    lag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [*SMALL, "--budget", "steps=3", "--rollout-lag", lag, "--checkpoint-every", "1"]
    with monkeypatch.context() as patched:
        stuck(patched)
        assert main(["run", *flags, "--out", str(tmp_path)]) == 1
    (path,) = tmp_path.iterdir()
    printed = capsys.readouterr().out.replace("\n", " ")
    assert "step 2: the sampler does not generate from the policy's weights" in printed
    assert f"--resume {path}" in printed
    assert not (path / "summary.json").exists()
    assert [row["step"] for row in rows(path)] == [1]
    assert main(["run", "--resume", str(path), "--quiet"]) == 0
    assert json.loads((path / "summary.json").read_text())["status"] == "finished"


def test_lagging_rollouts_differ_and_a_resumed_run_is_the_run_left_alone(tmp_path: Path) -> None:
    flags = ["--rollout-lag", "2", "--budget", "steps=5", "--optimizer.lr", "1e-3"]
    whole, prompt = run(tmp_path, *flags), run(tmp_path, "--budget", "steps=5", "--optimizer.lr", "1e-3")
    assert [abs(row["rollout/mismatch_kl"]) > 1e-5 for row in rows(whole)] == [False, True, True, True, True]
    assert all(abs(row["rollout/mismatch_kl"]) < 1e-5 for row in rows(prompt))
    assert rows(whole)[0]["reward/mean"] == rows(prompt)[0]["reward/mean"]
    held = json.loads((whole / "steps.jsonl").read_text().splitlines()[0])["memory/rollout_weights_gib"]
    assert held > 0

    command = [sys.executable, "-m", "bench", "run", *SMALL, *flags, "--out", str(tmp_path / "killed")]
    process = subprocess.Popen(command)
    while not list((tmp_path / "killed").glob("*/checkpoint/step-000002/state.pt")):
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    (path,) = (tmp_path / "killed").iterdir()
    assert main(["run", "--resume", str(path), "--quiet"]) == 0
    assert rows(path) == rows(whole)
    assert all(torch.equal(weights(path)[name], tensor) for name, tensor in weights(whole).items())


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--rollout-lag", "-1"], "--rollout-lag -1: must be 0 or more"),
        (["--engine.tensor-parallel", "2"], "--engine.tensor-parallel 2 needs --rollout vllm"),
        (["--engine.rollout-memory", "1.5"], "--engine.rollout-memory 1.5: a share"),
    ],
)
def test_settings_that_mean_nothing_are_refused(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["run", *SMALL, *flags, "--out", str(tmp_path / "out")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed here")
@pytest.mark.parametrize("command", ["run", "eval"])
def test_a_missing_vllm_is_told_with_the_command_that_installs_it(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([command, "--rollout", "vllm", "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error == 'error: --rollout vllm needs vllm: pip install "ppo-vs-grpo-bench[vllm]"\n'
    assert not (tmp_path / "out").exists()
