"""DeepSpeed against plain torch, and several processes against one: real processes, small models."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from safetensors.torch import load_file

from bench.models.load import latest_checkpoint
from bench.ranks import ALONE
from tests.bench.engines.updates import CASES, HALF, METHODS, STEPS, torch_engine, updated, weights
from tests.bench.small_runs import rows
from tests.bench.support import tiny_llama

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("deepspeed") is None, reason="make deepspeed installs the extra and runs these"
)
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node")


def launch(processes: int, module: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """A module under torchrun, or as it is for one process."""
    command = [*TORCHRUN, str(processes), "-m", module] if processes > 1 else [sys.executable, "-m", module]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, env=environment)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def plain() -> dict[str, tuple[list[dict[str, float]], dict[str, torch.Tensor]]]:
    """By plain torch: each method's metrics and last weights."""
    found: dict[str, Any] = {}
    for method, algorithm in METHODS.items():
        engine = torch_engine(algorithm)
        found[method] = updated(engine, algorithm, ALONE, range(STEPS)), weights(engine)
    return found


@dataclass(frozen=True)
class Found:
    """What came of every case, by its name, and the folder with their files."""

    cases: dict[str, dict[str, Any]]
    processes: int
    folder: Path


@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two processes"])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """By DeepSpeed: the same of every engine."""
    folder = tmp_path_factory.mktemp("updates")
    launch(request.param, "tests.bench.engines.updates", str(folder))
    cases = torch.load(folder / "found.pt", weights_only=True)
    return Found(cases, cases.pop("processes"), folder)


@pytest.mark.parametrize("case", CASES)
def test_the_first_step_is_plain_torchs(case: str, found: Found, plain: dict[str, Any]) -> None:
    """Every metric, critic's and policy's, to 1e-5; uneven rows, idle micro-batches, decay and clipping take part."""
    theirs, ours = found.cases[case]["metrics"][0], plain[CASES[case][0]][0][0]
    assert ours["actor/grad_norm"] > 1
    assert theirs == pytest.approx(ours, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_weights_after_five_steps_are_plain_torchs(case: str, found: Found, plain: dict[str, Any]) -> None:
    theirs, ours = found.cases[case]["weights"], plain[CASES[case][0]][1]
    assert theirs.keys() == ours.keys()
    for name in ours:
        assert torch.allclose(theirs[name], ours[name], rtol=0, atol=1e-5), name


def test_bfloat16_is_near(found: Found, plain: dict[str, Any]) -> None:
    for case, (method, _) in HALF.items():
        theirs, ours = found.cases[case]["metrics"][0], plain[method][0][0]
        assert theirs["actor/grad_norm"] == pytest.approx(ours["actor/grad_norm"], rel=0.1), case
        assert theirs["actor/grad_norm"] != pytest.approx(ours["actor/grad_norm"], rel=1e-4), case


@pytest.mark.parametrize("case", [case for case in CASES if "off-loaded" not in case])
def test_each_rank_holds_what_the_stage_leaves_it(case: str, found: Found) -> None:
    """arXiv:1910.02054, section 3, in float32; ZeRO's optimizer has weights of its own; shards are padded."""
    stage, held = int(case[4]), found.cases[case]["memory"]
    policy = 4 * sum(p.numel() for p in tiny_llama().parameters())
    critic = policy + 4 * 17 if "ppo" in case else 0
    states, shard = (3 if stage else 2), found.processes
    expected = {
        "policy": policy / (shard if stage == 3 else 1),
        "optimizer": states * (policy + critic) / (shard if stage else 1),
        "gradients": max(policy, critic) / (shard if stage >= 2 else 1),
    }
    expected |= {"critic": critic / (shard if stage == 3 else 1)} if critic else {"reference": expected["policy"]}
    assert {role: held[role] for role in expected} == pytest.approx(expected, rel=0.15)


def test_a_saved_state_goes_on_exactly(found: Found) -> None:
    assert {case: result["resume"] for case, result in found.cases.items()} == dict.fromkeys(found.cases, 0.0)


def test_a_gradient_that_is_not_finite_is_not_applied_and_one_that_is_cleared_is_gone(
    found: Found,
) -> None:
    for case, result in found.cases.items():
        guard = result["guard"]
        assert not guard["norm"] < float("inf"), case
        assert guard["moved"] == 0, case
        assert guard["after clearing"] == pytest.approx(guard["once"]), case


def test_a_saved_model_holds_whole_weights(found: Found) -> None:
    for case, result in found.cases.items():
        saved = load_file(found.folder / case.replace(" ", "-") / "model" / "model.safetensors")
        assert saved.keys() == result["weights"].keys()
        assert all(torch.equal(saved[name].float(), weight) for name, weight in result["weights"].items()), case


RUN = ("run", "--engine", "deepspeed", "--zero", "3", "--algo", "ppo", "--samples-per-step", "16")
SHORT = ("--budget", "steps=5", "--eval.limit", "5", "--eval.num-samples", "1", "--checkpoint-every", "2", "--quiet")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two processes, left alone."""
    out = tmp_path_factory.mktemp("whole")
    launch(2, "bench", *RUN, *SHORT, "--out", str(out))
    return next(out.iterdir())


def test_two_processes_record_what_one_records(whole: Path, tmp_path: Path) -> None:
    """Rollouts, verdicts, counters and evaluations alike; figures of updates up to rounding."""
    launch(1, "bench", "run", "--engine", "torch", *RUN[5:], *SHORT, "--out", str(tmp_path))
    alone = next(tmp_path.iterdir())
    for stream in ("evals", "eval_problems", "completions"):
        assert rows(whole, stream) == rows(alone, stream), stream
    ours, theirs = rows(alone), rows(whole)
    assert [row.keys() for row in ours] == [row.keys() for row in theirs]
    for a, b in zip(ours, theirs, strict=True):
        assert b == pytest.approx(a, rel=1e-3, abs=1e-5)
    assert json.loads((whole / "provenance.json").read_text())["processes"] == 2


def test_a_killed_rank_ends_the_run_and_the_same_launch_goes_on_exactly(whole: Path, tmp_path: Path) -> None:
    """The first rank, which writes the records and would have spoken."""
    command = [*TORCHRUN, "2", "-m", "bench", *RUN, *SHORT, "--out", str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    while not list(tmp_path.glob("*/checkpoint/step-000002")):
        assert process.poll() is None
        time.sleep(0.01)
    next(child for child in psutil.Process(process.pid).children() if child.environ().get("RANK") == "0").kill()
    output, _ = process.communicate()
    assert process.returncode != 0
    assert output.count("another process has ended; go on from the last checkpoint, by the same launch") == 1
    run = next(tmp_path.iterdir())
    assert not (run / "summary.json").exists()
    refused = launch(1, "bench", "run", "--resume", str(run), check=False)
    assert refused.returncode == 2
    assert "was written by 2 processes, and here are 1" in refused.stderr
    launch(2, "bench", "run", "--resume", str(run), "--quiet")
    for stream in ("steps", "evals", "eval_problems", "completions"):
        assert rows(run, stream) == rows(whole, stream), stream
    assert same_weights(run, whole)


def same_weights(a: Path, b: Path) -> bool:
    """Bit for bit, in the last checkpoints."""
    mine, theirs = (load_file(latest_checkpoint(run) / "model" / "model.safetensors") for run in (a, b))
    return all(torch.equal(mine[name], theirs[name]) for name in theirs)


def test_a_batch_that_processes_cannot_share_is_refused_once(tmp_path: Path) -> None:
    flags = ("run", "--samples-per-step", "24", "--out", str(tmp_path / "out"))
    done = launch(2, "bench", *flags, check=False)
    assert done.returncode != 0
    assert (done.stdout + done.stderr).count("error: --samples-per-step 24 makes 3 prompts, which 2 processes") == 1
    assert not (tmp_path / "out").exists()
