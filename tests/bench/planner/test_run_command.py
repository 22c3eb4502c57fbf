"""A plan's flags are a run's: either's are pasted into the other."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from bench.cli import main
from bench.ground.tree import plain
from bench.planner.config import PlanConfig
from bench.planner.plan import jobs_of_config
from bench.planner.run_command import run_command, to_run
from bench.planner.search import cheapest_plan
from bench.planner.setting import EngineSetting
from bench.settings.flags import flags, long_names, parse, switched
from bench.settings.resolve import resolve


def planned(*arguments: str) -> PlanConfig:
    """As the command reads its flags."""
    return flags(PlanConfig, switched(long_names(arguments)), prog="plan")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--gpus", "1xH200", "--model", "1.5b"],
        ["--gpus", "1xH200", "--lora.rank", "16", "--engine", "torch", "--model", "3b"],
        ["--gpus", "4xA100-80GB", "--algo.group-size", "4", "--algo.kl-coef", "0"],
        ["--gpus", "4xA100-80GB", "--offload", "optimizer,params", "--engine.gradient-checkpointing"],
        ["--gpus", "2x8xH100", "--model", "32b", "--sampling.max-new-tokens", "300", "--rollout", "vllm"],
    ],
)
def test_what_a_plan_prints_is_a_run_of_the_planned_setting(arguments: list[str]) -> None:
    """Also of the same lengths, samples and algorithm; the last line is the command."""
    config = planned("--algos", "ppo", "grpo", *arguments)
    for job in jobs_of_config(config):
        best = cheapest_plan(job, frozenset(config.pinned()))
        assert best is not None
        command = shlex.split(to_run(best, config, frozenset(config.pinned()))[-1])
        run = parse(command[command.index("run") + 1 :]).config
        expected = cheapest_plan(job, frozenset(config.pinned()), runnable=True)
        assert expected is not None
        assert EngineSetting.of_run(plain(run)) == expected.job.setting
        assert (run.samples_per_step, run.max_prompt_tokens) == (512, 512)
        assert run.sampling.max_new_tokens == config.sampling.max_new_tokens
        assert run.algo.group_size == job.method.group_size
        assert ("--nproc_per_node" in command) == (job.preset.num_devices > 1)


def test_what_no_run_does_is_said_and_the_cheapest_that_one_does_stands_below() -> None:
    config = planned("--algo", "grpo", "--gpus", "4xA100-80GB", "--engine.tensor-parallel", "4")
    best = cheapest_plan(next(jobs_of_config(config)), frozenset(config.pinned()))
    assert best is not None
    assert to_run(best, config, frozenset(config.pinned())) == [
        "no run does this yet: a sampler over several devices beside several processes"
    ]
    free = to_run(best, config, frozenset())
    assert free[0].startswith("no run does this yet: a sampler over several devices beside several processes. The che")
    assert free[1].startswith("torchrun --nproc_per_node 4 -m bench run --algo grpo")


def test_a_runs_flags_are_a_plans() -> None:
    given = ["--engine", "deepspeed", "--zero", "3", "--rollout", "vllm", "--offload", "optimizer,params"]
    given += ["--lora.rank", "0", "--engine.gradient-checkpointing", "--engine.micro-batch-tokens", "4096"]
    given += ["--engine.rollout-batch-size", "32", "--engine.tensor-parallel", "1", "--engine.dtype", "bfloat16"]
    given += ["--sampling.max-new-tokens", "200", "--samples-per-step", "64", "--max-prompt-tokens", "300"]
    job = next(jobs_of_config(planned(*given, "--gpus", "4xA100-80GB")))
    run = resolve(parse([*given, "--model", "smollm2-135m"])).config
    assert job.setting == EngineSetting.of_run(plain(run))
    assert (job.workload.prompt_tokens, job.workload.completion_tokens) == (300, 200)
    assert run_command(job, planned()).endswith("--engine.tensor-parallel 1 --engine.dtype bfloat16")


@pytest.mark.parametrize(
    ("flag", "value"),
    [("--engine.gradient-checkpointing", True), ("--engine.no-gradient-checkpointing", False)],
)
def test_a_switch_is_a_runs_and_absent_it_is_searched(flag: str, value: bool) -> None:
    assert planned("--quiet", flag, "--plots").pinned()["gradient_checkpointing"] is value
    assert planned("--engine.gradient-checkpointing", str(value)).pinned()["gradient_checkpointing"] is value
    assert "gradient_checkpointing" not in planned().pinned()


def test_a_plans_former_flags_are_still_read() -> None:
    former = ["--train-engine", "deepspeed", "--rollout-engine", "vllm", "--zero-stage=3", "--lora-rank", "8"]
    former += ["--offload", "params", "--completion-tokens", "64", "--prompt-tokens", "32"]
    present = ["--engine", "deepspeed", "--rollout", "vllm", "--zero", "3", "--lora.rank", "8"]
    present += ["--offload", "params", "--sampling.max-new-tokens", "64", "--max-prompt-tokens", "32"]
    assert planned(*former) == planned(*present)


def test_a_flag_that_is_none_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--engine.zer", "3", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "--engine.zer" in error
    assert error.count("\n") == 1


def test_a_recorded_run_of_an_older_version_has_a_setting() -> None:
    engine: dict[str, Any] = {"dtype": "float32", "gradient_checkpointing": False}
    engine |= {"micro_batch_tokens": 600, "rollout_batch_size": 32}
    assert EngineSetting.of_run({"engine": engine}) == EngineSetting(
        train_engine="torch", rollout_engine="hf", dtype="float32", micro_batch_tokens=600, rollout_batch_size=32
    )
