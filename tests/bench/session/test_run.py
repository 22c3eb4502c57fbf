"""Whole runs of the embedded model through the command."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from bench.cli import main
from bench.models.load import latest_checkpoint
from bench.rollout import ProblemStream
from tasks.core import Problem
from tests.bench.small_runs import SMALL, rows, run, weights, with_plugins

needs_peft = pytest.mark.skipif(find_spec("peft") is None, reason="peft is not installed")


@pytest.fixture(scope="module")
def grpo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("grpo"), "--algo", "grpo", "--budget", "steps=3", "--algo.group-size", "4")


def test_a_run_directory_holds_what_it_should(grpo: Path) -> None:
    names = {
        "config.json",
        "provenance.json",
        "steps.jsonl",
        "evals.jsonl",
        "eval_problems.jsonl",
        "completions.jsonl",
        "summary.json",
        "sha256.json",
        "lock",
    }
    assert names | {"checkpoint"} == {p.name for p in grpo.iterdir()}
    config = json.loads((grpo / "config.json").read_text())
    assert (config["algo_name"], config["task_name"], config["algo"]["group_size"]) == ("grpo", "gsm8k", 4)
    provenance = json.loads((grpo / "provenance.json").read_text())
    assert provenance["data"]["test"]["sha256"]
    assert provenance["data"]["train"]["template_sha256"]
    assert {"started_at", "versions", "device", "peak_flops_per_s"} <= set(provenance)
    assert json.loads((grpo / "summary.json").read_text())["status"] == "finished"
    assert [(r["step"], r["split"]) for r in rows(grpo, "evals")] == [(0, "test"), (3, "test")]
    assert len(rows(grpo, "eval_problems")) == 12
    assert [r["step"] for r in rows(grpo)] == [1, 2, 3]


def test_counters_add_up(grpo: Path) -> None:
    last = rows(grpo)[-1]
    assert last["data/samples_generated"] == last["data/samples_trained"] == 48
    assert last["data/prompts"] == 12
    assert last["data/updates"] == 6
    mean_length = sum(r["completion/length_mean"] * 16 for r in rows(grpo))
    assert last["data/tokens_generated"] == pytest.approx(mean_length)
    assert last["cost/flops"] > 0


def test_a_curve_begins_with_nothing_spent_and_reaches_the_end_of_its_run(tmp_path: Path) -> None:
    """Validation every second step of three: the start costs 0, not nothing known, and the end is looked at too."""
    flags = ["--budget", "steps=3", "--algo.group-size", "4", "--eval.every", "2", "--eval.validation-limit", "4"]
    seen = [r for r in rows(run(tmp_path, "--algo", "grpo", *flags), "evals") if r["split"] == "validation"]
    assert [(r["step"], r["data/samples_generated"]) for r in seen] == [(0, 0), (2, 32), (3, 48)]
    first = json.loads(next(tmp_path.glob("*/evals.jsonl")).read_text().splitlines()[0])
    assert first["cost/device_s"] == first["cost/flops"] == 0


def test_a_metric_is_absent_rather_than_zero(grpo: Path, tmp_path: Path) -> None:
    assert not any(name.startswith("critic/") for row in rows(grpo) for name in row)
    ppo = rows(run(tmp_path, "--algo", "ppo", "--budget", "steps=1"))[0]
    assert "reward/frac_zero_std_groups" not in ppo
    assert "actor/kl_ref" not in ppo
    assert "critic/explained_variance" in ppo


def test_the_first_step_is_on_policy(grpo: Path) -> None:
    first = rows(grpo)[0]
    assert first["rollout/mismatch_max"] < 1e-4
    assert abs(first["rollout/mismatch_kl"]) < 1e-6
    assert first["rollout/truncation_gap_mean"] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("algo", ["grpo", "ppo"])
def test_one_seed_one_result_another_seed_another(algo: str, tmp_path: Path) -> None:
    flags = ["--algo", algo, "--budget", "steps=2"]
    first, again, other = (
        run(tmp_path, *flags, "--seed", seed, "--name", name) for seed, name in (("0", "a"), ("0", "b"), ("1", "c"))
    )
    assert rows(first) == rows(again)
    assert rows(first, "evals") == rows(again, "evals")
    assert all(torch.equal(a, b) for a, b in zip(weights(first).values(), weights(again).values(), strict=True))
    assert rows(first) != rows(other)


@pytest.mark.parametrize(
    "setting", ["grpo", "ppo", pytest.param("ppo --lora.rank 4 --algo.kl-coef 0.01", marks=needs_peft)]
)
def test_a_killed_run_resumes_to_the_same_rows_and_weights(setting: str, tmp_path: Path) -> None:
    """Kill -9 after step 2 of 5; all but times equal the run left alone, bit for bit."""
    flags = ["--algo", *setting.split(), "--budget", "steps=5", "--optimizer.schedule", "linear"]
    whole = run(tmp_path / "whole", *flags)
    process = subprocess.Popen(
        [sys.executable, "-m", "bench", "run", *SMALL, *flags, "--out", str(tmp_path / "killed")]
    )
    deadline = time.monotonic() + 300
    while not list((tmp_path / "killed").glob("*/checkpoint/step-000002/state.pt")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (killed,) = (tmp_path / "killed").iterdir()
    with (killed / "steps.jsonl").open("a") as file:
        file.write('{"step": 9, "torn')  # what a loss of power leaves
    assert not (killed / "summary.json").exists()
    assert main(["run", "--resume", str(killed), "--quiet"]) == 0
    for stream in ("steps", "evals", "eval_problems", "completions"):
        assert rows(killed, stream) == rows(whole, stream)
    a, b = weights(killed), weights(whole)
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_resume_refuses_what_it_cannot_go_on_with(
    grpo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--resume", str(tmp_path)]) == 2
    assert "no run directory" in capsys.readouterr().err
    assert main(["run", "--resume", str(grpo)]) == 2
    assert "has ended (finished)" in capsys.readouterr().err


def test_resume_refuses_a_checkpoint_of_other_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run(tmp_path, "--budget", "steps=2")
    (path / "summary.json").unlink()
    config = json.loads((path / "config.json").read_text())
    config["seed"] = 7
    (path / "config.json").write_text(json.dumps(config))
    assert main(["run", "--resume", str(path), "--quiet"]) == 2
    assert "was changed after it was written" in capsys.readouterr().err
    (path / "sha256.json").unlink()  # as of a run that had not ended
    assert main(["run", "--resume", str(path), "--quiet"]) == 2
    assert "other settings" in capsys.readouterr().err


def test_resume_refuses_a_damaged_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run(tmp_path, "--budget", "steps=2")
    (path / "summary.json").unlink()
    for part in ("trainer/engine.pt", "state.pt"):
        state = latest_checkpoint(path) / part
        state.write_bytes(state.read_bytes()[:1000])
        assert main(["run", "--resume", str(path), "--quiet"]) == 2
        assert "cannot be read" in capsys.readouterr().err


def test_an_existing_run_directory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bench.session.run.run_path", lambda chosen: tmp_path / "same")  # pyright: ignore
    (tmp_path / "same").mkdir()
    assert main(["run", *SMALL, "--budget", "steps=1"]) == 2
    assert "never overwrites" in capsys.readouterr().err


def test_a_run_that_diverges_keeps_its_records_and_exits_1(tmp_path: Path) -> None:
    module = tmp_path / "poisoned_plugin.py"
    module.write_text(
        "from dataclasses import dataclass\n"
        "from algorithms.grpo import GRPO\n"
        "from algorithms.core import TokenLoss\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Poisoned(GRPO):\n"
        "    def policy_loss(self, policy, batch, targets):\n"
        "        return TokenLoss(loss=policy.logprobs * float('nan'), metrics={})\n"
    )
    command = [
        sys.executable,
        "-m",
        "bench",
        "run",
        *SMALL,
        "--algo",
        "poisoned_plugin:Poisoned",
        "--budget",
        "steps=2",
    ]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
        env=with_plugins(tmp_path),
    )
    assert done.returncode == 1, done.stderr
    (path,) = (tmp_path / "out").iterdir()
    summary = json.loads((path / "summary.json").read_text())
    assert summary["status"] == "diverged"
    assert "nan" in summary["message"]
    assert rows(path, "evals")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_and_a_scheduler_s_notice_save_and_the_run_can_go_on(
    number: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """While it goes nobody else can resume it."""
    command = [sys.executable, "-m", "bench", "run", *SMALL, "--budget", "steps=200", "--out", str(tmp_path)]
    process = subprocess.Popen(command)
    deadline = time.monotonic() + 300
    while not [f for f in tmp_path.glob("*/steps.jsonl") if f.read_text().count("\n") >= 3]:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (path,) = tmp_path.iterdir()
    process.send_signal(signal.SIGSTOP)
    before = {file: file.read_bytes() for file in path.glob("*.json*")}
    assert main(["run", "--resume", str(path)]) == 2
    assert f"{path} is in use: the run that writes it (process {process.pid} " in capsys.readouterr().err
    assert before == {file: file.read_bytes() for file in path.glob("*.json*")}
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    assert process.wait(timeout=120) == 130
    summary = json.loads((path / "summary.json").read_text())
    assert summary["status"] == "interrupted"
    assert latest_checkpoint(path).name == f"step-{summary['steps']:06d}"


def test_a_users_reward_replaces_the_reward_and_not_the_verdict(tmp_path: Path) -> None:
    (tmp_path / "reward_plugin.py").write_text("def short(problem, completion):\n    return -len(completion)\n")
    command = [sys.executable, "-m", "bench", "run", *SMALL, "--reward", "reward_plugin:short", "--budget", "steps=1"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
        env=with_plugins(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "out").iterdir()
    examples = rows(path, "completions")
    assert all(e["reward"] == -len(e["completion"]) for e in examples)
    assert rows(path)[0]["reward/correct_frac"] >= 0


def test_the_best_validation_checkpoint_is_what_test_reads(tmp_path: Path) -> None:
    flags = ["--budget", "steps=3", "--eval.every", "1", "--eval.checkpoint", "best", "--eval.validation-limit", "6"]
    path = run(tmp_path, *flags, "--optimizer.lr", "0.03", "--optimizer.warmup-steps", "0")
    validation = [r["accuracy"] for r in rows(path, "evals") if r["split"] == "validation"]
    first, last = (r for r in rows(path, "evals") if r["split"] == "test")
    assert validation[0] == max(validation)  # this learning rate ruins the model at once
    assert json.loads((path / "summary.json").read_text())["best_step"] == 0
    assert last["accuracy"] == first["accuracy"]


def test_the_prompt_stream_is_a_fresh_shuffle_each_pass_and_resumes() -> None:
    """At an exact boundary of a pass the next one begins."""
    problems = [Problem(id=str(i), prompt="", reference="") for i in range(5)]
    stream = ProblemStream(problems, seed=1)
    ids = [p.id for p in stream.take(15)]
    assert all(sorted(ids[i : i + 5]) == ["0", "1", "2", "3", "4"] for i in (0, 5, 10))
    assert ids[:5] != ids[5:10]
    assert [p.id for p in ProblemStream(problems, seed=1, position=5).take(10)] == ids[5:]
    assert [p.id for p in ProblemStream(problems, seed=2).take(15)] != ids


def test_every_method_sees_the_same_prompts(tmp_path: Path) -> None:
    flags = ["--budget", "steps=1", "--completions-per-step", "16"]
    grpo, ppo = (
        run(tmp_path, "--algo", algo, *flags, *extra)
        for algo, extra in (("grpo", ["--algo.group-size", "4"]), ("ppo", []))
    )
    of_grpo = list(dict.fromkeys(r["problem"] for r in rows(grpo, "completions")))
    assert of_grpo == [r["problem"] for r in rows(ppo, "completions")][:4]


def test_a_step_of_few_problems_repeats_none_of_its_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """PPO draws 16 prompts from 2 problems: the samples of each were copies of one. It is said."""
    data = tmp_path / "data"
    data.mkdir()
    for split, numbers in (("train", (2, 3)), ("test", (4,))):
        lines = [json.dumps({"question": f"Tom has {n} pens. How many?", "answer": f"#### {n}"}) for n in numbers]
        (data / f"{split}.jsonl").write_text("\n".join(lines))
    loud = [flag for flag in SMALL if flag != "--quiet"]
    flags = ["--algo", "ppo", "--data", str(data), "--budget", "steps=1", "--completions-per-step", "16"]
    assert main(["run", *loud, *flags, "--out", str(tmp_path / "out")]) == 0
    assert "a step draws 16 prompts from 2 problems" in capsys.readouterr().out
    (path,) = (tmp_path / "out").iterdir()
    sampled = rows(path, "completions")
    for problem in {r["problem"] for r in sampled}:
        assert len({r["completion"] for r in sampled if r["problem"] == problem}) > 4
    assert rows(path)[0]["prompt/repeated_frac"] == 14 / 16


def test_each_prompt_fills_its_group(tmp_path: Path) -> None:
    """With groups of eight, each prompt of a step occurs exactly eight times."""
    path = run(tmp_path, "--budget", "steps=2", "--completions-per-step", "16")
    for step in (1, 2):
        counts = Counter(r["problem"] for r in rows(path, "completions") if r["step"] == step)
        assert set(counts.values()) == {8}
