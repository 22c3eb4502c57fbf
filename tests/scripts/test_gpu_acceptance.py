"""The GPU script at toy sizes on a CPU: every part gives its row, and none keeps the rest from theirs."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from scripts.gpu_acceptance.__main__ import PARTS, main
from scripts.gpu_acceptance.parts import Figures, Part, run
from scripts.gpu_acceptance.random_models import Bench, Parity

pytest.importorskip("peft")
ROOT = Path(__file__).parents[2]
ABSENT = (
    "datasets deepspeed hypothesis math_verify matplotlib pandas pyarrow pydantic pytest reasoning_gym rich scipy "
    "seaborn tabulate tomli_w tyro"
)


def rows(path: Path) -> dict[str, Any]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return {row["part"]: row for row in found}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run as on the GPU's machine, where nothing is installed but torch, transformers and peft."""
    out = tmp_path_factory.mktemp("gpu") / "rows.jsonl"
    hide = f"import sys; sys.modules.update(dict.fromkeys({ABSENT!r}.split()))"
    command = f"{hide}; from scripts.gpu_acceptance.__main__ import main; sys.exit(main())"
    flags = ["--tiny", "--device", "cpu", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-c", command, *flags], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return rows(out)


def test_every_part_gives_a_row_with_provenance(tiny: dict[str, Any]) -> None:
    assert list(tiny) == [part.name for part in PARTS]
    for row in tiny.values():
        assert row["status"] == "ok", row
        assert {"versions", "device", "started_at"} <= set(row["provenance"])


def test_roles_are_those_of_each_method(tiny: dict[str, Any]) -> None:
    def held(part: str) -> set[str]:
        models = ("policy", "critic", "reference", "reference_host", "reward_model")
        return {role for role in models if f"memory/{role}_gib" in tiny[part]}

    assert held("grpo 3b") == {"policy", "reference"}
    assert held("ppo 3b") == {"policy", "critic"}
    assert held("ppo with four roles 0.5b") == {"policy", "critic", "reference", "reward_model"}
    assert held("lora grpo 7b") == {"policy"}
    assert held("lora ppo 7b") == {"policy", "critic"}
    assert held("grpo 3b, reference off-loaded") == {"policy", "reference_host"}
    for part in ("grpo 3b", "lora ppo 7b"):
        assert tiny[part]["perf/trained_tokens_per_s"] > 0
        assert tiny[part]["predicted/peak_gib"] > 0


def test_log_probs_agree_and_equal_runs_are_equal(tiny: dict[str, Any]) -> None:
    found = tiny["agreement 0.5b"]
    assert found["agreement/sampler_float32_max"] < 1e-4
    assert 0 < found["agreement/bfloat16_float32_mean"] < 0.1
    assert tiny["determinism 0.5b"]["determinism/deterministic_equal"] is True


def test_a_part_that_fails_is_a_row_and_the_others_follow(tmp_path: Path) -> None:
    def oom(bench: Bench, found: Figures) -> None:
        found["predicted/peak_gib"] = 200.0
        raise torch.OutOfMemoryError("CUDA out of memory.\nmore")

    def slow(bench: Bench, found: Figures) -> None:
        while True:
            time.sleep(0.01)

    def broken(bench: Bench, found: Figures) -> None:
        raise ValueError("no")

    def good(bench: Bench, found: Figures) -> None:
        found["x"] = 1

    parts = [
        Part(name="oom", limit_s=9, find=oom, expected=("oom",)),
        Part(name="slow", limit_s=0.1, find=slow),
        Part(name="broken", limit_s=9, find=broken),
        Part(name="good", limit_s=9, find=good),
    ]
    bench = Bench(device=torch.device("cpu"), tiny=True)
    assert run(bench, parts, tmp_path / "rows.jsonl", 60) == 1
    found = rows(tmp_path / "rows.jsonl")
    assert {name: row["status"] for name, row in found.items()} == {
        "oom": "oom",
        "slow": "timeout",
        "broken": "error",
        "good": "ok",
    }
    assert (found["oom"]["reason"], found["oom"]["predicted/peak_gib"]) == ("CUDA out of memory.", 200.0)
    assert found["broken"]["reason"] == "ValueError: no"
    assert run(bench, [parts[0], parts[3]], tmp_path / "again.jsonl", 60) == 0


def test_nothing_begins_when_no_time_is_left(tmp_path: Path) -> None:
    def never(bench: Bench, found: Figures) -> None:
        raise AssertionError

    bench = Bench(device=torch.device("cpu"), tiny=True)
    assert run(bench, [Part(name="late", limit_s=9, find=never)], tmp_path / "rows.jsonl", 0) == 1
    assert rows(tmp_path / "rows.jsonl")["late"]["status"] == "skipped"


def test_the_parts_keep_within_eight_minutes() -> None:
    """Even if each takes all the time it may; the last one is what the limit of all parts would cut."""
    assert sum(part.limit_s for part in PARTS[:-1]) <= 460


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(tmp_path / "rows.jsonl")]) == 2
    assert capsys.readouterr().err == "error: --engine.device cuda: no GPU is visible; use --engine.device cpu\n"


def test_models_are_equal_at_every_call_and_rewards_vary() -> None:
    bench = Bench(device=torch.device("cpu"), tiny=True)
    first, again = (bench.language_model("3b") for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    task = Parity(6, 97)
    problem = task.problems("train")[0]
    assert len(bench.tokenizer("3b")(problem.prompt)["input_ids"]) == 6  # type: ignore[arg-type]
    assert {task.score(problem, text).reward for text in ("w1", "w12")} == {0.0, 1.0}
