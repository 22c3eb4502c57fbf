"""The R1 pipeline on our base, as small as it goes: what stands is used, what is missing is named."""

import itertools
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.cli import main
from bench.ground.errors import UserError
from bench.pipeline.command import command, typed
from bench.pipeline.plans import R1, moved, numbers, plans
from bench.pipeline.rejection import Rejection
from bench.pipeline.reward_model import RewardTraining
from bench.pipeline.sizes import PRESETS, Sizes
from bench.pipeline.supervised import Fit
from bench.settings.flags import flags
from tasks.dataset import split_of
from tasks.helpful import pairs

FIT = Fit(num_updates=4, validate_every=2, batch_size=16)
SMALL = Sizes(
    max_new_tokens=48,
    cold_examples=48,
    cold=FIT,
    samples_per_step=16,
    first_steps=2,
    second_steps=1,
    general_steps=2,
    general_share=0.75,
    reference_updates=2,
    rejection=Rejection(num_problems=24, num_samples=2),
    general_examples=24,
    restart=FIT,
    judges=RewardTraining(batch_size=256),
    eval_problems=6,
    eval_samples=1,
    other_tasks=("countdown",),
    other_problems=4,
)


@pytest.fixture(scope="module")
def preferences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few of our own pairs, as files in the official format."""
    folder = tmp_path_factory.mktemp("pairs")
    made = pairs(random.Random(0))
    for split, count in (("train", 240), ("test", 24)):
        rows = itertools.islice(
            (row for row in made if (split_of(str(row["prompt"])) == "test") == (split == "test")), count
        )
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def config(preferences: Path) -> Callable[..., R1]:
    """The smallest pipeline, with changes."""

    def changed(out: Path, **changes: Any) -> R1:  # noqa: ANN401 - any field
        return replace(R1(out=out, quiet=True, sizes=SMALL, preferences=preferences), **changes)

    return changed


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, config: Callable[..., R1]) -> Path:
    out = tmp_path_factory.mktemp("r1") / "out"
    assert command(config(out)) == 0
    return out


def evals(out: Path) -> dict[str, Any]:
    """The figures of the arm `whole` by stage."""
    (arm,) = [row for row in json.loads((out / "arms.json").read_text())["arms"] if row["arm"] == "whole"]
    return {name: json.loads((out / name / "eval.json").read_text()) for name in arm["stages"]}


def test_every_stage_is_made_evaluated_and_reported(made: Path) -> None:
    names = [name.split("-s0-")[0] for name in evals(made)]
    assert names == ["0-base", "1-cold-start", "2-reason", "3-restart", "4-rules", "4-general-grpo"]
    page = (made / "report.md").read_text()
    for title in (
        "By stage",
        "Reasoning behaviours",
        "Learned rewards",
        "Rejection sampling",
        "Cost and memory by role",
    ):
        assert f"## {title}" in page
    assert "| base " in page
    assert (made / "figures" / "stages.png").stat().st_size > 0
    figures = evals(made)["4-general-grpo-s0-" + next(n for n in evals(made) if "general" in n).split("-")[-1]]
    assert {"accuracy", "language", "general/refused_harmful", "general/model_helpful", "outside/countdown"} <= set(
        figures
    )


def test_general_prompts_have_learned_rewards_and_problems_rules(made: Path) -> None:
    (run,) = made.glob("4-general-*/run/*")
    rows = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
    assert any("reward/by_kind/reasoning" in row for row in rows)
    assert not any("reward/model_by_kind/reasoning" in row for row in rows)
    assert any("reward/model_by_kind/helpful" in row and "reward/gold_by_kind/helpful" in row for row in rows)
    assert sum(row["actor/reference_renewed"] for row in rows) == 2  # two updates a step, renewed after each two


def test_what_stands_is_not_made_again(made: Path, config: Callable[..., R1]) -> None:
    before = {path: path.stat().st_mtime_ns for path in made.glob("*/stage.json")}
    assert command(config(made)) == 0
    assert {path: path.stat().st_mtime_ns for path in made.glob("*/stage.json")} == before


def test_stages_that_were_lost_are_made_again_to_the_same_figures(
    made: Path, tmp_path: Path, config: Callable[..., R1]
) -> None:
    """As a kill leaves them: stage 3's training in its middle, and nothing of stage 4's."""
    out = tmp_path / "out"
    shutil.copytree(made, out)
    before = evals(out)
    (restart,) = out.glob("3-restart-*")
    (restart / "stage.json").unlink()
    shutil.rmtree(restart / "model")
    for later in [*out.glob("4-rules-*"), *out.glob("4-general-*")]:
        shutil.rmtree(later)
    assert command(config(out)) == 0
    assert evals(out) == before


def test_an_arm_without_a_stage_shares_the_stages_before_it(
    made: Path, tmp_path: Path, config: Callable[..., R1]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(made, out)
    assert command(config(out, skip="4")) == 0
    arms = {row["arm"]: row["stages"] for row in json.loads((out / "arms.json").read_text())["arms"]}
    assert arms["without 4"][:2] == arms["whole"][:2]
    assert len(list(out.glob("1-cold-start-*"))) == 1
    assert len(list(out.glob("2-reason-*"))) == 2  # the second one has stage 4's steps as well
    page = (out / "report.md").read_text()
    assert "## Without a stage" in page
    assert "less whole" in page


def test_a_missing_stage_is_refused_with_the_command_that_makes_it(
    made: Path, tmp_path: Path, config: Callable[..., R1]
) -> None:
    with pytest.raises(UserError, match=r"stage 1 \(cold-start\) of seed 0 is not in .*pipeline r1 .*--stages 1"):
        command(config(tmp_path / "empty", stages="3-4"))
    other = replace(SMALL, cold=replace(FIT, lr=5e-4))
    with pytest.raises(UserError, match=r"stage 1 .*only one of other settings \(settings\); make it by"):
        command(config(made, stages="3-4", sizes=other))


def test_where_no_sample_survives_the_rates_are_told_and_nothing_is_written(
    made: Path, tmp_path: Path, config: Callable[..., R1], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(made, out)
    before = (out / "report.md").read_text()
    short = replace(SMALL, rejection=Rejection(num_problems=1, num_samples=1, keep_per_problem=0))
    assert command(config(out, sizes=short)) == 1
    assert "no sample survives. 1 samples of 1 problems: pass rate" in capsys.readouterr().err
    assert (out / "report.md").read_text() == before
    assert len(list(out.glob("3-rejection-*/stage.json"))) == 1


# plans


@pytest.mark.parametrize(
    ("text", "found"), [("1-4", {1, 2, 3, 4}), ("1,3", {1, 3}), ("0-2,4", {0, 1, 2, 4}), ("", set())]
)
def test_numbers_of_stages(text: str, found: set[int]) -> None:
    assert numbers(text) == found


@pytest.mark.parametrize("text", ["one", "1-", "1..4", "7", "3-9"])
def test_what_are_no_stages_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="stage"):
        numbers(text)


def test_an_arm_keeps_the_whole_budget() -> None:
    """Steps and updates of each arm add up to the whole's, whichever stage of two of a kind is left out."""
    sizes = Sizes()
    arms = {arm.name: arm for arm in plans(R1(ablation=True), sizes)}
    assert list(arms) == ["whole", "without 1", "without 2", "without 3", "without 4"]

    def steps(name: str) -> int:
        arm = arms[name]
        second = arm.sizes.second_steps + arm.sizes.general_steps
        return (2 in arm.numbers) * arm.sizes.first_steps + (4 in arm.numbers) * second

    def updates(name: str) -> int:
        arm = arms[name]
        return (1 in arm.numbers) * arm.sizes.cold.num_updates + (3 in arm.numbers) * arm.sizes.restart.num_updates

    assert len({steps(name) for name in arms}) == 1
    assert len({updates(name) for name in arms}) == 1
    assert moved(sizes, frozenset({1, 2})) == sizes  # asked for the first two only: nothing is made up for


def test_nothing_to_make_is_refused() -> None:
    with pytest.raises(UserError, match="leave nothing to make"):
        plans(R1(stages="1", skip="1"), Sizes())


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], R1]:
    """The settings that the door makes of flags."""
    seen: list[R1] = []
    monkeypatch.setattr("bench.pipeline.command.command", lambda config: seen.append(config) or 0)

    def parse(words: list[str]) -> R1:
        assert main(["pipeline", "r1", *words]) == 0
        return seen[-1]

    return parse


def test_the_command_that_is_named_is_the_one_that_was_typed(parsed: Callable[[list[str]], R1]) -> None:
    given = ["--skip", "1,3", "--seeds", "2", "--sizes.cold.num-updates", "7", "--sizes.other-tasks", "math", "logic"]
    config_ = parsed(given)
    assert parsed(typed(config_).split()[5:]) == config_


def test_a_flag_goes_over_the_preset_whatever_it_says(parsed: Callable[[list[str]], R1]) -> None:
    """16 steps are what another preset has by itself; here they were asked for."""
    ours, named = Sizes().first_steps, PRESETS["smollm2-135m"]
    asked = parsed(["--model", "smollm2-135m", "--sizes.first-steps", str(ours)])
    assert asked.sizes == replace(named, first_steps=ours)
    assert f"--sizes.first-steps {ours}" in typed(asked)
    assert parsed(["--preset", "qwen2.5-0.5b"]).sizes == PRESETS["qwen2.5-0.5b"]
    assert parsed([]).sizes == Sizes()


def test_each_preset_is_one_that_the_flags_name() -> None:
    for name in PRESETS:
        assert flags(R1, ["--preset", name], prog="r1").preset == name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--stages", "9"], "there are stages 0 to 4"),
        (["--skip", "1-4"], "leave nothing to make"),
        (["--model", "./nowhere"], "no such folder"),
        (["--preferences", "nowhere"], "nowhere/train.jsonl"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "r1", "--quiet", "--out", str(tmp_path / "out"), *words]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert len(told.splitlines()) == 1


def test_dpo_and_ppo_take_the_place_of_the_general_steps(made: Path, tmp_path: Path, config: Callable[..., R1]) -> None:
    """PPO holds four roles; DPO learns from pairs that the learned rewards ranked; what comes before is shared."""
    out = tmp_path / "out"
    shutil.copytree(made, out)
    for method in ("ppo", "dpo"):
        assert command(config(out, general_algo=method)) == 0
    facts = {
        p.parent.name.split("-s0-")[0]: json.loads(p.read_text())["facts"] for p in out.glob("4-general-*/stage.json")
    }
    roles = {f"memory/{role}_gib" for role in ("policy", "reference", "critic", "reward_model")}
    assert roles <= set(facts["4-general-ppo"]["memory_gib"])
    assert facts["4-general-dpo"]["num_pairs"] >= 2
    assert len(list(out.glob("4-rules-*"))) == 1
    arms = [row["arm"] for row in json.loads((out / "arms.json").read_text())["arms"]]
    assert arms == ["whole", "whole, ppo last", "whole, dpo last"]
