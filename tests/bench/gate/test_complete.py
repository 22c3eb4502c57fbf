"""What the gate compares is complete or it is red: no loss, copy or damage of a record turns red to green."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.cli import main
from tests.bench.factory import make_run

FLAGS = ["check", "--tiers", "3", "--quiet", "--runs"]
BROKEN = (None, "0.9", True, float("nan"), float("inf"), 5.0, -0.1)


@pytest.fixture
def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.chdir(tmp_path)
    return make_sides(tmp_path)


def make_sides(folder: Path) -> tuple[Path, Path]:
    """A head that is 20 points worse than its base, two arms over four seeds each."""
    for side, gain in (("head", 0.1), ("base", 0.3)):
        for arm in ("grpo", "ppo"):
            for seed in range(4):
                make_run(folder / side, arm, seed, gain=gain + 0.01 * (side == "head") * seed)
    return folder / "head", folder / "base"


def verdict(head: Path, base: Path) -> int:
    return main([*FLAGS, str(head), "--against", str(base)])


def set_last(run: Path, value: object) -> None:
    rows = [json.loads(line) for line in (run / "evals.jsonl").read_text().splitlines()]
    rows[-1]["accuracy"] = value
    (run / "evals.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("value", BROKEN)
def test_an_accuracy_that_is_none_is_red_and_on_the_base_judges_nothing(
    sides: tuple[Path, Path], value: object
) -> None:
    _, base = sides
    good = base.parent / "good"
    shutil.copytree(base, good)
    assert verdict(good, base) == 0
    set_last(sorted(good.iterdir())[0], value)
    assert verdict(good, base) == 1
    assert verdict(base, good) in (1, 3)


def test_an_arm_and_seeds_that_are_gone_from_the_head_are_red(sides: tuple[Path, Path]) -> None:
    _, base = sides
    for pattern in ("*-ppo-*", "*-s1", "*"):
        good = base.parent / "good"
        shutil.copytree(base, good)
        for run in good.glob(pattern):
            shutil.rmtree(run)
        assert verdict(good, base) in (1, 2), pattern
        shutil.rmtree(good)


def remove_file(run: Path, draw: random.Random) -> None:
    draw.choice([path for path in sorted(run.iterdir()) if path.is_file()]).unlink()


def remove_run(run: Path, _: random.Random) -> None:
    shutil.rmtree(run)


def copy_run(run: Path, _: random.Random) -> None:
    shutil.copytree(run, run.with_name(run.name + "-again"))


def remove_row(run: Path, draw: random.Random) -> None:
    lines = (run / "evals.jsonl").read_bytes().splitlines(keepends=True)
    lines.pop(draw.randrange(len(lines)))
    (run / "evals.jsonl").write_bytes(b"".join(lines))


def copy_row(run: Path, draw: random.Random) -> None:
    lines = (run / "evals.jsonl").read_bytes().splitlines(keepends=True)
    (run / "evals.jsonl").write_bytes(b"".join([*lines, draw.choice(lines)]))


def break_value(run: Path, draw: random.Random) -> None:
    set_last(run, draw.choice(BROKEN))


def cut(run: Path, draw: random.Random) -> None:
    file = run / draw.choice(("config.json", "evals.jsonl", "summary.json", "provenance.json"))
    file.write_bytes(file.read_bytes()[: draw.randrange(file.stat().st_size)])


def renumber(run: Path, draw: random.Random) -> None:
    config = json.loads((run / "config.json").read_text())
    config[draw.choice(("seed", "arm"))] = draw.randrange(9)
    (run / "config.json").write_text(json.dumps(config))


EDITS: tuple[Callable[[Path, random.Random], None], ...] = (
    remove_file, remove_run, copy_run, remove_row, copy_row, break_value, cut, renumber,
)  # fmt: skip


def greens(head: Path, base: Path, count: int) -> list[str]:
    """Of `count` draws of one to three edits on either side of a red check, those that made it green."""
    found = list[str]()
    for number in range(count):
        draw, place = random.Random(number), head.parent / "edited"
        for side in (head, base):
            shutil.copytree(side, place / side.name)
        edits = [draw.choice(EDITS) for _ in range(draw.randint(1, 3))]
        for edit in edits:
            run = draw.choice(sorted((place / draw.choice((head, base)).name).iterdir()))
            if all((run / name).exists() for name in ("config.json", "evals.jsonl", "summary.json", "provenance.json")):
                edit(run, draw)
        if verdict(place / head.name, place / base.name) == 0:
            found.append(f"{number}: {[edit.__name__ for edit in edits]}")
        shutil.rmtree(place)
    return found


def test_no_edit_of_the_records_turns_red_to_green(sides: tuple[Path, Path]) -> None:
    assert verdict(*sides) == 1
    assert greens(*sides, count=25) == []
