"""`bench plan`: time, the search, the tables, bad input, and prediction beside measurement."""

import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.ground.errors import UserError
from bench.machine.presets import Efficiency, load_preset
from bench.planner import tables
from bench.planner.config import PlanConfig, PlannedAlgorithm, PlannedEngine, PlannedLora, PlannedReward
from bench.planner.job import Job
from bench.planner.memory import fits_memory, memory_of_job
from bench.planner.plan import jobs_of_config, plan
from bench.planner.search import (
    candidate_settings,
    cheapest_plan,
    feasibility,
    largest_micro_batch,
    plan_of_job,
    remedies,
)
from bench.planner.setting import EngineSetting
from bench.planner.sizes import resolve_shape
from bench.planner.step_time import step_seconds
from bench.planner.validate import Checked, compare_with_run
from tests.bench.planner.plan_jobs import GRPO, PLAIN, PPO, deepspeed, job, preset, with_samples
from tests.bench.planner.records import write_run

FREE: frozenset[str] = frozenset()
PERFECT = Efficiency(
    prefill=1, decode_compute=1, decode_bandwidth=1, forward=1, update=1, link=1, hf_layer_s=0, vllm_layer_s=0
)


def perfect(base: Job) -> Job:
    """The same on devices that reach their data sheet."""
    return replace(base, preset=replace(base.preset, efficiency=PERFECT))


def seconds(base: Job) -> dict[str, float]:
    found = step_seconds(base)
    assert found is not None
    return found


# -- models


def test_published_sizes() -> None:
    """Qwen2.5's report (table 1), DeepSeek LLM and DeepSeek-V3; SmolLM2-135M."""
    billions = {"0.5b": 0.49, "1.5b": 1.54, "3b": 3.09, "14b": 14.7, "32b": 32.5, "67b": 67, "671b": 671}
    for name, published in billions.items():
        assert resolve_shape(name).params / 1e9 == pytest.approx(published, rel=0.015)
    assert resolve_shape("Qwen/Qwen2.5-7B-Instruct").params == 7_615_616_512
    assert resolve_shape("smollm2-135m").params == 134_515_008


def test_a_folder_with_a_config_is_a_model(tmp_path: Path) -> None:
    config = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config |= {"intermediate_size": 128, "vocab_size": 100, "tie_word_embeddings": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    shape = resolve_shape(str(tmp_path))
    assert shape == resolve_shape(str(tmp_path / "config.json"))
    assert shape.params == 100 * 64 + 2 * (4 * 64 * 64 + 3 * 64 * 128 + 2 * 64) + 64


def test_a_hub_model_that_cannot_be_had_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(UserError, match="'nobody/nothing' is not in the table"):
        resolve_shape("nobody/nothing")


# -- time


def test_an_update_on_one_device_is_its_operations_over_the_peak() -> None:
    """No communication, one epoch: three forward passes' operations, and 28 bytes a parameter for each update."""
    base = perfect(job("0.5b", PLAIN))
    w, shape = base.workload, base.shape
    matrices = 2 * shape.active_weights * 500 + 4 * shape.layers * shape.heads * shape.head_dim * 500**2
    operations = 3 * (matrices + 2 * shape.hidden * shape.vocab * 300) * w.samples_per_step
    states = 2 * 28 * shape.params / 2039e9
    assert seconds(base)["update"] == pytest.approx(operations / 19.5e12 + states)


def test_decoding_one_row_reads_the_weights_for_every_token() -> None:
    """Memory-bound: (weights + cache at half the completion) / bandwidth, 299 passes after the prefill."""
    base = perfect(with_samples(job("7b", PLAIN, dtype="bfloat16", train_engine="deepspeed"), 1))
    shape = base.shape
    weights = 2 * (shape.params - shape.vocab * shape.hidden)
    cache = 2 * (200 + 150) * shape.kv_width * shape.layers
    prefill = (2 * shape.active_weights * 200 + 4 * shape.layers * 4096 * 200**2 + 2 * 4096 * 102400) / 312e12
    assert seconds(base)["rollout"] == pytest.approx(prefill + 299 * (weights + cache) / 2039e9, rel=1e-6)


def test_a_mixture_reads_the_experts_that_its_rows_touch() -> None:
    one, many = (with_samples(deepspeed(3, 8, rollout_batch_size=b), b * 8) for b in (1, 4096))
    one, many = (replace(base, shape=resolve_shape("671b")) for base in (one, many))
    from bench.planner.step_time import decode_bytes

    assert decode_bytes(one) / 2 == pytest.approx(one.shape.active_params - 129280 * 7168, rel=1e-6)
    assert decode_bytes(many) / 2 == pytest.approx(one.shape.params - 129280 * 7168, rel=1e-6)


def test_ppo_pays_for_its_critic_and_grpo_for_its_reference() -> None:
    plain, ppo, grpo = (seconds(perfect(job("0.5b", method))) for method in (PLAIN, PPO, GRPO))
    assert grpo["logprobs"] == pytest.approx(2 * plain["logprobs"])
    assert grpo["update"] == plain["update"] < ppo["update"] < 2 * plain["update"]


def test_the_prompt_is_read_once_a_group() -> None:
    alone, group = (perfect(job("0.5b", replace(PLAIN, group_size=g), preset())) for g in (1, 256))
    difference = seconds(alone)["rollout"] - seconds(group)["rollout"]
    shape = alone.shape
    prefill = 2 * shape.active_weights * 200 + 4 * shape.layers * shape.heads * shape.head_dim * 200**2
    assert difference == pytest.approx(255 * (prefill + 2 * shape.hidden * shape.vocab) / 19.5e12)


def test_zero_3_gathers_the_weights_for_every_micro_batch() -> None:
    """Two nodes: 2 gathers and 1 reduction of 2 P bytes a micro-batch at 50 GB/s hide the computation."""
    base = perfect(deepspeed(3, 8, 2, micro_batch_tokens=500))
    shape = base.shape
    moved = 16 * 3 * 2 * shape.params * 15 / 16 / 50e9  # 256 samples over 16 devices, one row at a time
    states = 2 * 28 * shape.params / 16 / 2039e9
    assert seconds(base)["update"] == pytest.approx(moved + states, rel=1e-6)


def test_weights_are_synced_over_the_link_or_within_the_device() -> None:
    p = resolve_shape("7b").params
    assert seconds(job("0.5b"))["sync"] == 0  # the same tensors
    assert seconds(perfect(deepspeed(3, 8)))["sync"] == pytest.approx(2 * p / 300e9)
    assert seconds(perfect(deepspeed(2, 8)))["sync"] == pytest.approx(2 * 2 * p / 2039e9)
    assert seconds(perfect(deepspeed(2, 8, rollout_devices=4)))["sync"] == pytest.approx(2 * p / 300e9)


def test_unknown_rates_predict_no_time() -> None:
    base = next(jobs_of_config(PlanConfig(gpus=("8xMI300X",), memory_gb=192, algos=("grpo",))))
    assert step_seconds(base) is None
    best = cheapest_plan(base, FREE)
    assert best is not None
    assert (best.step_s, best.gpu_hours(1)) == (None, None)


# -- search


@settings(deadline=None, max_examples=25)
@given(
    model=st.sampled_from(["0.5b", "7b", "32b", "671b"]),
    name=st.sampled_from(["cpu", "1xA100-80GB", "4xA100-80GB", "2x8xH100", "16x8xH100"]),
    method=st.sampled_from([PPO, GRPO, PLAIN]),
    pick=st.integers(0, 10_000),
)
def test_nothing_that_fits_is_cheaper_than_the_cheapest(model: str, name: str, method: Any, pick: int) -> None:  # noqa: ANN401
    base = job(model, method, load_preset(name), dtype=load_preset(name).dtype)
    best = cheapest_plan(base, FREE)
    options = list(candidate_settings(base, FREE))
    other = replace(
        options[pick % len(options)], micro_batch_tokens=500 * (1 + pick % 8), rollout_batch_size=1 + pick % 64
    )
    trial = plan_of_job(replace(base, setting=other))
    if best is None:
        assert not trial.fits
    else:
        assert best.fits
        assert fits_memory(best.job, memory_of_job(best.job))
        assert not trial.fits or (best.step_s or 0) <= (trial.step_s or 0) * (1 + 1e-9)


def test_what_is_pinned_stays() -> None:
    base = deepspeed(3, 8, offload="optimizer", micro_batch_tokens=1000)
    best = cheapest_plan(base, frozenset({"offload", "micro_batch_tokens", "zero_stage"}))
    assert best is not None
    setting = best.job.setting
    assert (setting.offload, setting.micro_batch_tokens, setting.zero_stage) == ("optimizer", 1000, 3)


def test_the_reference_on_the_host_is_planned_and_told_to_the_run() -> None:
    setting = job("7b", offload_reference=True).setting
    assert "--offload reference" in setting.run_flags()
    assert "--offload optimizer,params,reference" in replace(setting, offload="params").run_flags()
    assert replace(setting, offload_reference=False).run_flags(but=setting) == ["--offload"]
    run: dict[str, Any] = {"engine": {"dtype": "float32", "gradient_checkpointing": False, "micro_batch_tokens": 1}}
    run["engine"] |= {"rollout_batch_size": 1, "offload": ["reference", "optimizer"]}
    assert EngineSetting.of_run(run).offloaded == ("optimizer", "reference")


def test_what_would_fit_is_tried_and_does() -> None:
    base = job("7b", PPO, replace(preset(), host_memory_gib=64), dtype="bfloat16")
    assert cheapest_plan(base, FREE) is None
    options = remedies(base, FREE)
    assert [option.change for option in options] == ["LoRA of rank 16", "4xA100-80GB"]
    assert all(option.plan.fits for option in options)
    assert feasibility(base) == "LoRA"
    pinned = deepspeed(0, 4)
    assert cheapest_plan(pinned, frozenset({"zero_stage"})) is None
    assert str(remedies(pinned, frozenset({"zero_stage"}))[0]).startswith("other settings: deepspeed ZeRO")


def test_the_largest_micro_batch_fits_and_twice_as_much_does_not() -> None:
    base = deepspeed(3, 8, rollout_batch_size=16)
    rows = largest_micro_batch(base)

    def fitting(n: int) -> bool:
        trial = with_samples(replace(base, setting=replace(base.setting, micro_batch_tokens=n * 500)), 100_000)
        return fits_memory(trial, memory_of_job(trial))

    assert fitting(rows)
    assert not fitting(2 * rows)


# -- the command

FOUR = ("4xA100-80GB",)


def run(tmp_path: Path, **changes: Any) -> int:  # noqa: ANN401 - any setting
    return plan(PlanConfig(out=tmp_path, quiet=True, **changes))


def test_a_plan_is_written_as_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, gpus=("4xA100-80GB", "8xH100"), price=2.0) == 0
    folder = tmp_path / "plan-7b-ppo-grpo"
    assert capsys.readouterr().out == f"wrote {folder}\n"
    table = pd.read_csv(folder / "comparison.csv")
    assert list(zip(table["algorithm"], table["configuration"], strict=True)) == [
        ("ppo", "4xA100-80GB"),
        ("grpo", "4xA100-80GB"),
        ("ppo", "8xH100"),
        ("grpo", "8xH100"),
    ]
    assert (table["GiB a device"] <= table["limit GiB"]).all()
    assert table["cost"].to_list() == pytest.approx((2 * table["GPU-hours"]).to_list())
    assert "<table" in (folder / "comparison.html").read_text()
    text = (folder / "plan.md").read_text()
    assert "cheapest that fits: deepspeed" in text
    assert "12 A / N" in text or "on the host" in text


def test_without_a_price_there_is_no_cost(tmp_path: Path) -> None:
    assert run(tmp_path, gpus=("8xH100",)) == 0
    assert "cost" not in pd.read_csv(tmp_path / "plan-7b-ppo-grpo" / "comparison.csv").columns


def test_what_fits_nowhere_says_what_would(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = PlanConfig(model="67b", algos=("ppo",), gpus=("1xA100-80GB",), out=tmp_path)
    assert plan(config) == 1
    printed = capsys.readouterr().out
    assert "nothing fits. What would:" in printed
    assert re.search(r"- \d+x8xA100-80GB: deepspeed ZeRO-3", printed)


def test_the_algorithms_own_settings_say_which_models_are_held() -> None:
    def held(**changes: Any) -> dict[str, int]:  # noqa: ANN401
        planned = jobs_of_config(PlanConfig(gpus=("1xH200",), **changes))
        return {job.method.name: job.method.models(reward_model=job.reward_shape is not None) for job in planned}

    assert held() == {"ppo": 2, "grpo": 2}
    assert held(algo=PlannedAlgorithm(kl_coef=0.0)) == {"ppo": 2, "grpo": 1}
    assert held(algo=PlannedAlgorithm(kl_coef=0.1)) == {"ppo": 3, "grpo": 2}
    assert held(algo=PlannedAlgorithm(kl_coef=0.1), reward="model") == {"ppo": 4, "grpo": 3}


def test_weights_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine, algo = PlannedEngine(dtype="float16"), PlannedAlgorithm(kl_coef=0.1)
    assert plan(PlanConfig(out=tmp_path, weights_only=True, engine=engine, algo=algo, reward="model")) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "ppo, 7b in float16, weights only: 4 x 14 GB = 56 GB by the name" in printed
    assert "grpo, 7b in float16, weights only: 3 x 14 GB = 42 GB by the name" in printed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "7bb"}, "unknown model '7bb', and no folder with a config.json; did you mean 7b?"),
        ({"gpus": ("0xA100",)}, "at least one device"),
        ({"gpus": ("4xA100-81GB",)}, "did you mean A100-80GB?"),
        ({"presets": ("4xA100",)}, "unknown preset '4xA100': did you mean 4xA100-80GB?"),
        ({"algos": ("pppo",)}, "unknown algorithm 'pppo'"),
        ({"gpus": FOUR, "engine": PlannedEngine(zero=2, offload=("params",))}, "--offload params needs --zero 3"),
        ({"gpus": FOUR, "engine": PlannedEngine(train="torch")}, "--engine torch is one process, and here are 4"),
        ({"gpus": FOUR, "engine": PlannedEngine(offload=("none", "params"))}, "--offload none goes with nothing else"),
        ({"presets": ("cpu",), "engine": PlannedEngine(offload=("reference",))}, "--offload reference needs a GPU"),
        (
            {"gpus": FOUR, "engine": PlannedEngine(offload=("reference",)), "lora": PlannedLora(rank=8)},
            "--offload reference: with adapters the reference is the policy's own base",
        ),
        ({"gpus": FOUR, "rollout_devices": 4}, "leaves none of 4 devices"),
        ({"gpus": FOUR, "engine": PlannedEngine(tensor_parallel=3)}, "must divide the devices that generate"),
        ({"gpus": FOUR, "budget": "samples"}, "expected steps=N"),
        ({"samples_per_step": 0}, "--samples-per-step must be positive"),
        ({"lora": PlannedLora(rank=-1)}, "--lora.rank must not be negative"),
        ({"reward_model": PlannedReward(path="7b")}, "held only with --reward model"),
        ({"validate": (Path("nowhere"),)}, "nowhere: not a run directory"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        run(tmp_path, **changes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_engine_and_no_torch_is_imported() -> None:
    code = "import bench.planner.plan, bench.planner.search, bench.planner.show, sys; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "transformers", "bench.engines", "matplotlib", "algorithms"} & set(loaded)


def test_a_whole_table_is_searched_quickly() -> None:
    """Processor seconds, so that a busy machine decides nothing; the whole command has five seconds to answer."""
    planned = list(
        jobs_of_config(PlanConfig(presets=("cpu", "1xH200", "4xA100-80GB", "8xH100-80GB", "2x8xH100", "16x8xH100")))
    )
    start = time.process_time()
    assert [cheapest_plan(job, FREE) is not None for job in planned].count(True) >= 8
    assert time.process_time() - start < 5


def test_pictures_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.planner import plots

    monkeypatch.setattr(plots, "COUNTS", (1, 8))
    monkeypatch.setattr(plots, "SIZES", ["0.5b", "671b"])
    monkeypatch.setattr(plots, "GROUPS", (8, 16))
    assert run(tmp_path, gpus=("4xA100-80GB",), plots=True) == 0
    for name in ("memory", "feasible", "group_size"):
        picture = (tmp_path / "plan-7b-ppo-grpo" / f"{name}.png").read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert len(picture) > 5000


def test_missing_figures_are_dashes() -> None:
    assert [tables.number_text(value) for value in (None, float("nan"), 0, 1234.5, 0.01234, "x")] == [
        "-", "-", "0", "1,234", "0.0123", "x",
    ]  # fmt: skip


# -- prediction beside measurement


def test_a_run_is_set_beside_its_prediction(tmp_path: Path) -> None:
    rows = {row.what: row for row in compare_with_run(write_run(tmp_path))}
    assert rows["policy"].error == pytest.approx(0, abs=0.01)
    assert rows["critic"].measured is None
    assert rows["critic"].error is None
    # 32 rows of 20 + 40 tokens, 2 x 64 elements in each of 2 layers, 4 bytes
    assert rows["kv_cache"].predicted == pytest.approx(32 * 60 * 128 * 2 * 4 / 2**30)
    assert rows["peak of update"].measured == 0.5
    assert rows["update time"].measured == 2.0


def test_the_error_is_a_share_of_the_measurement() -> None:
    assert Checked(run="r", what="w", unit="s", predicted=3.0, measured=2.0).error == 0.5
    assert Checked(run="r", what="w", unit="s", predicted=3.0, measured=None).error is None


def test_the_comparison_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "out", validate=(write_run(tmp_path / "run"),)) == 0
    assert "| ppo, ours" in (tmp_path / "out" / "validation.md").read_text()
    assert capsys.readouterr().out.endswith("validation.md\n")


def test_an_older_run_is_told_apart(tmp_path: Path) -> None:
    folder = write_run(tmp_path)
    (folder / "steps.jsonl").write_text('{"step": 1}\n')
    with pytest.raises(UserError, match="lack prompt/length_max: it was recorded by an older version"):
        compare_with_run(folder)


def test_candidates_have_no_contradictions() -> None:
    base = job("7b", hardware=preset(2, 8), dtype="bfloat16")
    for setting in islice(candidate_settings(base, FREE), 500):
        assert not setting.contradictions(base.preset)


@pytest.mark.slow
def test_the_page_on_scale_is_what_the_planner_says() -> None:
    """After a change of formulas or defaults: python -m docs.generate_scale."""
    from docs.generate_scale import page

    assert (Path(__file__).parents[3] / "docs" / "scale.md").read_text() == page()
