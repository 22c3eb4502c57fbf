"""DeepSpeed against plain torch, and several processes against one: real processes, small models."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bench.ranks import ALONE
from tests.engines.updates import CASES, HALF, METHODS, STEPS, torch_engine, updated, weights

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


@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two processes"])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """By DeepSpeed: the same of every engine, and the folder with their files."""
    folder = tmp_path_factory.mktemp("updates")
    launch(request.param, "tests.engines.updates", str(folder))
    return torch.load(folder / "found.pt", weights_only=True), folder


@pytest.mark.parametrize("case", CASES)
def test_the_first_step_is_plain_torchs(case: str, found: tuple[dict[str, Any], Path], plain: dict[str, Any]) -> None:
    """Every metric, critic's and policy's, to 1e-5; uneven rows, idle micro-batches, decay and clipping take part."""
    theirs, ours = found[0][case]["metrics"][0], plain[CASES[case][0]][0][0]
    assert ours["actor/grad_norm"] > 1
    assert theirs == pytest.approx(ours, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_weights_after_five_steps_are_plain_torchs(
    case: str, found: tuple[dict[str, Any], Path], plain: dict[str, Any]
) -> None:
    theirs, ours = found[0][case]["weights"], plain[CASES[case][0]][1]
    assert theirs.keys() == ours.keys()
    for name in ours:
        assert torch.allclose(theirs[name], ours[name], rtol=0, atol=1e-5), name


def test_bfloat16_is_near(found: tuple[dict[str, Any], Path], plain: dict[str, Any]) -> None:
    for case, (method, _) in HALF.items():
        theirs, ours = found[0][case]["metrics"][0], plain[method][0][0]
        assert theirs["actor/grad_norm"] == pytest.approx(ours["actor/grad_norm"], rel=0.1), case
        assert theirs["actor/grad_norm"] != pytest.approx(ours["actor/grad_norm"], rel=1e-4), case


def test_a_saved_state_goes_on_exactly(found: tuple[dict[str, Any], Path]) -> None:
    assert {case: result["resume"] for case, result in found[0].items()} == dict.fromkeys(found[0], 0.0)


def test_a_gradient_that_is_not_finite_is_not_applied_and_one_that_is_cleared_is_gone(
    found: tuple[dict[str, Any], Path],
) -> None:
    for case, result in found[0].items():
        guard = result["guard"]
        assert not guard["norm"] < float("inf"), case
        assert guard["moved"] == 0, case
        assert guard["after clearing"] == pytest.approx(guard["once"]), case


def test_a_saved_model_holds_whole_weights(found: tuple[dict[str, Any], Path]) -> None:
    for case, result in found[0].items():
        saved = load_file(found[1] / case.replace(" ", "-") / "model" / "model.safetensors")
        assert saved.keys() == result["weights"].keys()
        assert all(torch.equal(saved[name].float(), weight) for name, weight in result["weights"].items()), case
