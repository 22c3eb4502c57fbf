"""A registered study keeps its promise: what was written before the first run holds, and looks are counted."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.ground.errors import UserError
from bench.ground.registration import Registration, registration_of
from bench.study.file import contrast_of, read_study
from bench.study.register import register
from bench.study.schedule import schedule
from tests.bench.study.studies import arm, study

PROMISED = replace(study(arm("grpo"), arm("ppo")), primary=[("ppo", "grpo")], margin=0.02)


def test_a_study_changed_after_it_began_is_refused(tmp_path: Path) -> None:
    first = register(PROMISED, tmp_path)
    assert register(PROMISED, tmp_path) == first
    assert registration_of([tmp_path / "runs" / "a", tmp_path / "runs" / "b"]) == first
    assert register(replace(PROMISED, question="in other words"), tmp_path) == first
    for changed in (
        replace(PROMISED, margin=0.01),
        replace(PROMISED, settings={"eval": {"every": 2}}),
        replace(PROMISED, primary=[("grpo", "ppo")]),
    ):
        with pytest.raises(UserError, match="registered with another"):
            register(changed, tmp_path)


def test_added_seeds_are_another_look(tmp_path: Path) -> None:
    assert register(PROMISED, tmp_path).looks == [2]
    assert register(replace(PROMISED, seeds=5), tmp_path).looks == [2, 5]
    assert register(replace(PROMISED, seeds=5), tmp_path).looks == [2, 5]
    assert register(replace(PROMISED, seeds=3), tmp_path).looks == [2, 5]  # what was seen stays seen


def test_a_study_without_contrasts_promises_nothing(tmp_path: Path) -> None:
    register(replace(PROMISED, primary=()), tmp_path)
    assert registration_of([tmp_path / "runs" / "a"]) == Registration()
    assert not Registration().registered


def test_contrasts_that_cannot_be_judged_are_one_line(tmp_path: Path) -> None:
    for changed, words in (
        (replace(PROMISED, primary=[("ppo", "vapo")]), "vapo: no such arm; there are grpo, ppo"),
        (replace(PROMISED, margin=-0.01), "must not be negative"),
        (replace(PROMISED, primary=[("ppo", "grpo")] * 4), "at most 3"),
    ):
        with pytest.raises(UserError, match=words):
            schedule(changed, tmp_path)
    with pytest.raises(UserError, match="write 'ARM - ARM'"):
        contrast_of("ppo against grpo", "x.toml")


def test_a_file_names_contrasts_margin_and_tuning(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    text = 'primary = ["ppo - grpo"]\nmargin = 1.5\n[tuning]\npoints = 5\nextend = true\n[arms.ppo]\n[arms.grpo]\n'
    file.write_text(text)
    found = read_study(str(file))
    assert found.primary == [("ppo", "grpo")]
    assert found.margin == pytest.approx(0.015)
    assert (found.tuning.points, found.tuning.seeds, found.tuning.extend) == (5, 3, True)
    file.write_text(text.replace("points", "trials"))
    with pytest.raises(UserError, match="unknown setting 'trials'"):
        read_study(str(file))
