"""Every engine option by its effect at the end of a real step: an option without one would cost what it claims to save.

Where an option needs a device or a library that is not here, its effect is the one line that says so.
"""

import dataclasses
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.cli import main
from bench.config import EngineConfig

STEP = ["run", "--algo", "grpo", "--samples-per-step", "16", "--budget", "steps=1", "--eval.limit", "0", "--quiet"]
STEP += ["--engine.dtype", "float32", "--engine.micro-batch-tokens", "512"]
GPU, VLLM = torch.cuda.is_available(), importlib.util.find_spec("vllm") is not None
DEEPSPEED = importlib.util.find_spec("deepspeed") is not None
FORMULAS = ("reward/mean", "completion/length_mean", "actor/loss", "actor/kl_ref", "actor/grad_norm")
Row = dict[str, Any]
Step = Callable[..., Row]


def only_row(out: Path) -> Row:
    (file,) = out.glob("*/steps.jsonl")
    (line,) = file.read_text().splitlines()
    return json.loads(line)


def step(out: Path, *flags: str) -> Row:
    """The step's row, of a run in this process."""
    assert main([*STEP, *flags, "--out", str(out)]) == 0
    return only_row(out)


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Row:
    return step(tmp_path_factory.mktemp("usual"))


@pytest.fixture
def refusal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The one line that the flags are refused with."""

    def refused(*flags: str) -> str:
        assert main([*STEP, *flags, "--out", str(tmp_path / "refused")]) == 2
        assert not (tmp_path / "refused").exists()
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    return refused


def same_formulas(row: Row, usual: Row, tolerance: float = 1e-4) -> bool:
    return all(row[name] == pytest.approx(usual[name], rel=tolerance, abs=1e-6) for name in FORMULAS)


def test_device(usual: Row, tmp_path: Path, refusal: Callable[..., str]) -> None:
    if not GPU:
        assert "--engine.device cuda: no GPU is visible" in refusal("--engine.device", "cuda")
        assert step(tmp_path, "--engine.device", "cpu")["actor/loss"] == usual["actor/loss"]
        return
    on_gpu, on_cpu = (step(tmp_path / name, "--engine.device", name) for name in ("cuda", "cpu"))
    assert "memory/torch_peak_gib/update" in on_gpu
    assert "memory/torch_peak_gib/update" not in on_cpu


def test_dtype(usual: Row, tmp_path: Path) -> None:
    """Half precision shows in what is computed, and keeps smaller activations; master weights stay float32."""
    half = step(tmp_path, "--engine.dtype", "bfloat16")
    assert abs(half["actor/loss"] - usual["actor/loss"]) > 1e-6
    assert half["rollout/mismatch_max"] > 100 * usual["rollout/mismatch_max"]
    assert half["memory/activations_gib"] < 0.8 * usual["memory/activations_gib"]
    assert half["memory/policy_gib"] == usual["memory/policy_gib"]


def test_micro_batch_tokens(usual: Row, tmp_path: Path) -> None:
    small = step(tmp_path, "--engine.micro-batch-tokens", "128")
    assert small["memory/activations_gib"] < 0.5 * usual["memory/activations_gib"]
    assert same_formulas(small, usual)


def test_rollout_batch_size(usual: Row, tmp_path: Path) -> None:
    few = step(tmp_path, "--engine.rollout-batch-size", "4")
    assert few["memory/kv_cache_gib"] < 0.3 * usual["memory/kv_cache_gib"]
    assert same_formulas(few, usual)


@pytest.mark.parametrize("algo", ["grpo", "ppo"])
def test_gradient_checkpointing(algo: str, tmp_path: Path) -> None:
    """Less is kept and more is computed, by the critic as by the policy."""
    kept = step(tmp_path / "kept", "--algo", algo)
    again = step(tmp_path / "again", "--algo", algo, "--engine.gradient-checkpointing")
    assert again["memory/activations_gib"] < 0.8 * kept["memory/activations_gib"]
    assert again["cost/flops"] > 1.1 * kept["cost/flops"]
    assert again["actor/loss"] == pytest.approx(kept["actor/loss"], rel=1e-4, abs=1e-6)


def test_rollout(usual: Row, tmp_path: Path, refusal: Callable[..., str]) -> None:
    """Weights of its own are what vLLM holds; the transformers sampler has the policy's."""
    assert "memory/rollout_weights_gib" not in usual
    if not VLLM:
        assert "--rollout vllm needs vllm" in refusal("--engine.rollout", "vllm")
        return
    row = step(tmp_path, "--engine.rollout", "vllm", "--engine.rollout-memory", "0.05")
    assert row["memory/rollout_weights_gib"] == pytest.approx(usual["memory/policy_gib"], rel=0.1)


def test_rollout_memory(tmp_path: Path, refusal: Callable[..., str]) -> None:
    assert "--engine.rollout-memory 1.5: a share" in refusal("--engine.rollout-memory", "1.5")
    if not VLLM:
        return
    sizes = ("0.001", "0.002") if not GPU else ("0.1", "0.2")
    rows = [
        step(tmp_path / size, "--engine.rollout", "vllm", "--engine.rollout-memory", size, "--max-prompt-tokens", "100")
        for size in sizes
    ]
    assert rows[0]["memory/kv_cache_gib"] < 0.9 * rows[1]["memory/kv_cache_gib"]


def test_tensor_parallel(refusal: Callable[..., str]) -> None:
    """Two GPUs are not at hand anywhere that these tests run; that the option is read shows in what it asks for."""
    assert "needs --rollout vllm" in refusal("--engine.tensor-parallel", "2")
    if VLLM and not GPU:
        assert "no GPUs to split over" in refusal("--engine.rollout", "vllm", "--engine.tensor-parallel", "2")


def test_rollout_tolerance(tmp_path: Path, refusal: Callable[..., str]) -> None:
    assert "where 1e-12 is allowed" in refusal("--engine.rollout-tolerance", "1e-12")
    half = ["--engine.dtype", "bfloat16", "--engine.rollout-tolerance"]
    assert "where 1e-05 is allowed" in refusal(*half, "1e-5")
    assert step(tmp_path, *half, "1")["rollout/mismatch_max"] > 1e-5


@pytest.fixture(scope="module")
def shared_out(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """Steps by deepspeed, in one process of their own, whose state it changes."""
    if not DEEPSPEED:
        pytest.skip("make deepspeed installs the extra")
    folder = tmp_path_factory.mktemp("deepspeed")
    cases = {
        "0": ["--engine.zero", "0"],
        "1": ["--engine.zero", "1"],
        "off": ["--engine.zero", "1", "--engine.offload", "optimizer"],
    }
    commands = [[*STEP, "--engine.train", "deepspeed", *f, "--out", str(folder / case)] for case, f in cases.items()]
    program = f"from bench.cli import main\nfor command in {commands!r}:\n    assert main(command) == 0"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {case: only_row(folder / case) for case in cases}


def test_train(usual: Row, shared_out: dict[str, Row]) -> None:
    """Another engine, the same step; it counts no activations of a graph that it runs itself."""
    assert same_formulas(shared_out["0"], usual)


def test_zero(usual: Row, shared_out: dict[str, Row], refusal: Callable[..., str]) -> None:
    """From stage 1 the optimizer holds a third state, weights of its own."""
    whole, shared = (shared_out[stage]["memory/optimizer_gib"] for stage in "01")
    assert whole == pytest.approx(usual["memory/optimizer_gib"], rel=0.05)
    assert shared == pytest.approx(1.5 * whole, rel=0.05)
    assert same_formulas(shared_out["1"], usual, 1e-3)
    assert "need --engine deepspeed" in refusal("--engine.train", "torch", "--engine.zero", "1")


def test_offload(usual: Row, shared_out: dict[str, Row], tmp_path: Path, refusal: Callable[..., str]) -> None:
    assert same_formulas(shared_out["off"], usual, 1e-3)
    if GPU:
        parked = step(tmp_path, "--engine.offload", "reference")
        assert parked["memory/reference_host_gib"] == usual["memory/reference_gib"]
        assert "memory/reference_gib" not in parked
        return
    assert "--offload reference needs a GPU" in refusal("--engine.offload", "reference")
    few = ["--engine.train", "deepspeed", "--engine.zero", "1", "--engine.offload", "params"]
    assert "--offload params needs --zero 3" in refusal(*few)


def test_share_prompts(usual: Row, tmp_path: Path) -> None:
    """The same step by fewer passes over prompts, which its FLOPs count."""
    alone = step(tmp_path, "--engine.share-prompts", "never")
    assert same_formulas(alone, usual, 1e-4)
    assert usual["cost/flops"] < 0.9 * alone["cost/flops"]


def test_no_option_is_left_out() -> None:
    options = {field.name for field in dataclasses.fields(EngineConfig)}
    assert options == {name.removeprefix("test_") for name in globals()} & options
