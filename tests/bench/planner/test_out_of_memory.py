"""Memory that runs out: what is told, what is kept, and what is proposed."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bench.config import EngineConfig, RunConfig
from bench.ground.words import GIB
from bench.machine.presets import Preset, load_preset
from bench.meter import Meter, blamed_on, is_out_of_memory
from bench.models.shape import ModelShape
from bench.planner.remedy import advice, bytes_of, job_of_run
from bench.settings.flags import parse
from bench.settings.resolve import resolve
from tests.bench.small_runs import SMALL, rows, with_plugins
from tests.bench.support import tiny_llama

SHAPE = ModelShape.from_config(tiny_llama().config)
CONTEXT = load_preset("cpu").device.context_gib


def config(*flags: str, processes: int = 1, **engine: object) -> RunConfig:
    chosen = resolve(parse(["--algo", "ppo", *flags]), processes).config
    return replace(chosen, engine=replace(chosen.engine, **engine))


def with_room_for(gib: float) -> Preset:
    cpu = load_preset("cpu")
    return replace(cpu, device=replace(cpu.device, memory_gib=gib))


def test_the_error_notes_model_and_phase() -> None:
    meter = Meter(torch.device("cpu"))
    with pytest.raises(torch.OutOfMemoryError) as caught, meter.phase("update"), blamed_on("critic"):
        raise torch.OutOfMemoryError("CUDA out of memory")
    assert caught.value.__notes__ == ["critic", "update"]
    with pytest.raises(RuntimeError) as other, meter.phase("update"):
        raise RuntimeError("another mistake")
    assert not hasattr(other.value, "__notes__")
    assert is_out_of_memory(RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"))


def test_the_smallest_change_that_fits_is_proposed() -> None:
    """By numbers: each proposal is predicted to fit, and what is half as much change is predicted not to."""
    wide = config("--max-prompt-tokens", "64", micro_batch_tokens=16384)
    plenty = bytes_of(job_of_run(wide, SHAPE, with_room_for(1)), "update_policy") / GIB
    words = advice(wide, SHAPE, with_room_for(CONTEXT + 0.6 * plenty), ["policy", "update"])
    assert words == "start again with --engine.micro-batch-tokens 8192"
    less = advice(wide, SHAPE, with_room_for(CONTEXT + 0.3 * plenty), ["policy", "update"])
    assert less == "start again with --engine.micro-batch-tokens 4096"


def test_a_rollout_is_helped_by_fewer_completions_at_once() -> None:
    wide = config(rollout_batch_size=256)
    plenty = bytes_of(job_of_run(wide, SHAPE, with_room_for(1)), "rollout") / GIB
    words = advice(wide, SHAPE, with_room_for(CONTEXT + 0.6 * plenty), ["rollout"])
    assert words == "start again with --engine.rollout-batch-size 128"


def test_where_no_smaller_batch_fits_states_are_shared_or_wait_on_the_host() -> None:
    from bench.planner.sizes import resolve_shape as shape_of

    four = replace(load_preset("4xA100-80GB"), device=replace(load_preset("4xA100-80GB").device, memory_gib=50))
    engine = EngineConfig(train="deepspeed", zero=1, dtype="bfloat16", micro_batch_tokens=2048)
    words = advice(replace(config(), engine=engine), shape_of("7b"), four, ["policy", "update"])
    assert "--engine.gradient-checkpointing" in words
    assert "--zero 3" in words or "--offload" in words


def test_nothing_that_fits_points_to_the_planner() -> None:
    assert "bench plan" in advice(config(), SHAPE, with_room_for(0.01), ["policy", "update"])
    assert "halve" in advice(config(), None, with_room_for(1), ["policy", "update"])


def test_a_run_keeps_its_records_and_exits_1(tmp_path: Path) -> None:
    (tmp_path / "hungry_plugin.py").write_text(
        "from dataclasses import dataclass, field\n"
        "import torch\n"
        "from algorithms.grpo import GRPO\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Hungry(GRPO):\n"
        "    def policy_loss(self, policy, batch, targets):\n"
        "        CALLS.append(1)\n"
        "        if len(CALLS) == 4:\n"
        "            raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB')\n"
        "        return super().policy_loss(policy, batch, targets)\n"
        "CALLS = []\n"
    )
    command = [sys.executable, "-m", "bench", "run", *SMALL, "--algo", "hungry_plugin:Hungry", "--budget", "steps=3"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
        env=with_plugins(tmp_path),
    )
    assert done.returncode == 1, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("step 2: out of memory in update of policy; start again with --engine.micro-batch-tokens ")
    assert "Traceback" not in done.stderr
    (path,) = (tmp_path / "out").iterdir()
    assert [row["step"] for row in rows(path)] == [1]
    assert not (path / "summary.json").exists()
    assert json.loads((path / "config.json").read_text())["engine"]["train"] == "torch"
