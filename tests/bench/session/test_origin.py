"""A run that goes on finds what it began with: data, models, and the time that its prompts show."""

import json
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from bench.cli import main
from bench.config import ASSETS
from bench.ground.errors import UserError
from bench.ground.moment import VARIABLE, of_study, read_time
from bench.models import checksum, templates
from bench.models.checksum import of_model
from bench.models.load import load_tokenizer
from bench.models.text import encode_prompt
from bench.session import drive
from tasks import dataset, sources
from tests.bench.pipeline.classifiers import classifier
from tests.bench.small_runs import SMALL, rows, run

FLAGS = ["--algo.group-size", "4", "--eval.num-samples", "0", "--budget", "steps=2"]
FLAGS += ["--sampling.max-new-tokens", "12", "--optimizer.lr", "1e-3"]
TASK = """
from dataclasses import dataclass
from pathlib import Path
from tasks.core import Problem, Score
@dataclass(frozen=True)
class Mine:
    def problems(self, split):
        text = (Path(__file__).parent / "words.txt").read_text()
        return [Problem(id=f"mine/{split}/{i}", prompt=w, reference=w) for i, w in enumerate(text.split())]
    def score(self, problem, completion):
        return Score(reward=float(len(completion) % 3), correct=False)
"""


class StoppedAtOnce(drive.Interrupt):
    """As if somebody had asked for an end during the first step."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = True


def stopped(monkeypatch: pytest.MonkeyPatch, out: Path, *flags: str) -> Path:
    """A run that was stopped after its first step."""
    with monkeypatch.context() as patch:
        patch.setattr(drive, "Interrupt", StoppedAtOnce)
        assert main(["run", *SMALL, *FLAGS, *flags, "--out", str(out)]) == 130
    (path,) = out.iterdir()
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for split, start in (("train", 0), ("test", 40)):
        lines = [
            json.dumps({"question": f"Tom has {n} pens?", "answer": f"#### {n}"}) for n in range(start, start + 40)
        ]
        (folder / f"{split}.jsonl").write_text("\n".join(lines))
    return folder


def replaced(file: Path, old: str, new: str) -> Callable[[], None]:
    text = file.read_text()
    assert old in text
    write_anew(file, text.replace(old, new, 1))
    return lambda: write_anew(file, text)


def write_anew(file: Path, text: str) -> None:
    """For the next process, which has read nothing yet."""
    file.write_text(text)
    for cached in (dataset._load, sources._read):  # pyright: ignore[reportPrivateUsage]
        cached.cache_clear()


@pytest.mark.parametrize("split", ["train", "test"])
def test_changed_data_are_refused_and_the_former_go_on(
    split: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = stopped(monkeypatch, tmp_path / "out", "--data", str(data))
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    restore = replaced(data / f"{split}.jsonl", "pens", "pencils")
    assert main(["run", "--resume", str(path), "--quiet"]) == 2
    said = capsys.readouterr().err
    assert f"the {split} data changed since {path.name} began" in said
    assert said.count("\n") == 1
    assert before == {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    restore()
    assert main(["run", "--resume", str(path), "--quiet"]) == 0


def test_so_are_the_problems_of_a_task_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "mine_of_origin.py").write_text(TASK)
    (tmp_path / "words.txt").write_text(" ".join(f"word{i}" for i in range(20)))
    path = stopped(monkeypatch, tmp_path / "out", "--task", "mine_of_origin:Mine", "--model", str(ASSETS / "gsm8k"))
    replaced(tmp_path / "words.txt", "word3", "word33")
    assert main(["run", "--resume", str(path), "--quiet"]) == 2
    assert "the train data changed" in capsys.readouterr().err


def other_weights(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    name = sorted(weights)[0]
    save_file(weights | {name: weights[name] * 1.01}, folder / "model.safetensors", metadata={"format": "pt"})


def other_template(folder: Path) -> None:
    file = next(f for f in folder.glob("*") if f.suffix in (".json", ".jinja") and "<|user|>" in f.read_text())
    file.write_text(file.read_text().replace("<|user|>", "<|user|> ", 1))


@pytest.mark.parametrize("change", [other_weights, other_template])
def test_a_model_folder_that_was_replaced_is_refused(
    change: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = shutil.copytree(ASSETS / "gsm8k", tmp_path / "model")
    path = stopped(monkeypatch, tmp_path / "out", "--model", str(model), "--source", "procedural")
    change(model)
    assert main(["run", "--resume", str(path), "--quiet"]) == 2
    assert f"the model changed since {path.name} began ({model}: checksum " in capsys.readouterr().err


@pytest.mark.parametrize("role", ["reward", "safety"])
def test_so_is_either_learned_reward(
    role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags: list[str] = []
    for name, kind in (("reward", "helpful"), ("safety", "harmful")):
        flags += [f"--{name}-model.path", classifier(tmp_path / name), f"--{name}-model.kinds", kind]
    path = stopped(monkeypatch, tmp_path / "out", *flags)
    other_weights(tmp_path / role)
    assert main(["run", "--resume", str(path), "--quiet"]) == 2
    assert f"the {role} model changed since {path.name} began" in capsys.readouterr().err


def test_a_large_file_is_told_by_its_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksum, "WHOLE", 10)
    monkeypatch.setattr(checksum, "BLOCK", 4)
    monkeypatch.setattr(checksum, "BLOCKS", 3)
    file = tmp_path / "model.safetensors"
    sums: set[str | None] = set()
    for content in (b"0123456789abcdefg", b"x123456789abcdefg", b"0123456789abcdefx", b"0123456x89abcdefg", b"0"):
        file.write_bytes(content)
        sums.add(of_model(str(tmp_path)))
    assert len(sums) == 5
    assert of_model("someone/some-model") is None


def test_an_older_run_without_checksums_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = stopped(monkeypatch, tmp_path / "out")
    origin = json.loads((path / "provenance.json").read_text())
    del origin["template_time"], origin["model"]["checksum"], origin["reward_model"]
    for part in origin["data"].values():
        del part["problems_sha256"]
    (path / "provenance.json").write_text(json.dumps(origin))
    (path / "sha256.json").unlink()
    assert main(["run", "--resume", str(path), "--quiet"]) == 0


TIMED = "{{ strftime_now('%H:%M:%S of %d %b %Y') }}"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (TIMED, "01:02:03 of 06 Jul 2024"),
        ('\n{%- if strftime_now is defined %}{% set d = strftime_now("%-d/%B") %}{{ d }}{% endif %}', "6/July"),
        ("{% macro now() %}{{ strftime_now('%A %%') }}{% endmacro %}\n{{ now() }}", "Saturday %"),
        ("\nno time", "\nno time"),
    ],
)
def test_a_template_shows_the_time_that_was_fixed(template: str, expected: str) -> None:
    tokenizer = load_tokenizer(str(ASSETS / "gsm8k"))
    tokenizer.chat_template = template + "{{ messages[0].content }}"
    templates.fix_time(datetime.fromisoformat("2024-07-06T01:02:03+00:00"))
    assert encode_prompt(tokenizer, "hi") == tokenizer(f"{expected}hi", add_special_tokens=False)["input_ids"]
    assert tokenizer.chat_template == template + "{{ messages[0].content }}"  # what is saved shows the time again


def test_the_time_in_prompts_is_the_runs_throughout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is resumed a year later equals one that was left alone, though its prompts show seconds."""
    model = shutil.copytree(ASSETS / "gsm8k", tmp_path / "model")
    tokenizer = load_tokenizer(str(model))
    tokenizer.chat_template = TIMED + str(tokenizer.chat_template)
    tokenizer.save_pretrained(model)
    flags = ["--model", str(model), "--source", "procedural"]
    monkeypatch.setenv(VARIABLE, "2024-07-06T01:02:03+00:00")
    whole, part = run(tmp_path / "whole", *FLAGS, *flags), stopped(monkeypatch, tmp_path / "part", *flags)
    monkeypatch.setenv(VARIABLE, "2025-11-16T11:12:13+00:00")
    assert main(["run", "--resume", str(part), "--quiet"]) == 0
    assert rows(whole) == rows(part)
    assert rows(whole) != rows(run(tmp_path / "later", *FLAGS, *flags))
    assert json.loads((part / "provenance.json").read_text())["template_time"] == "2024-07-06T01:02:03+00:00"


def test_a_study_has_one_time_however_long_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = of_study(tmp_path / "study")
    monkeypatch.setenv(VARIABLE, "2025-11-16T11:12:13")
    assert of_study(tmp_path / "study") == first
    assert of_study(tmp_path / "other") == {VARIABLE: "2025-11-16T11:12:13+00:00"}
    with pytest.raises(UserError, match="BENCH_TIME: yesterday is no time"):
        read_time("yesterday", VARIABLE)
