"""Flags, files and their errors."""

from pathlib import Path

import pytest

from algorithms.grpo import GRPO
from algorithms.ppo import PPO
from bench import config
from bench.cli import main
from bench.ground.defaults import default_of
from bench.ground.errors import UserError
from bench.ground.tree import LATER, fingerprint, plain, without
from bench.settings.flags import from_tree, parse, to_toml
from bench.settings.resolve import resolve


def test_flags_choose_the_classes_and_set_their_fields() -> None:
    chosen = parse(["--algo", "ppo", "--algo.gae-lambda", "0.9", "--seed=3", "--eval.every", "5"])
    assert isinstance(chosen.config.algo, PPO)
    assert (chosen.config.algo.gae_lambda, chosen.config.seed, chosen.config.eval.every) == (0.9, 3, 5)


def test_flags_win_over_the_file_and_the_file_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('algo_name = "grpo"\nseed = 5\nsamples_per_step = 64\n[algo]\nkl_coef = 0.5\ngroup_size = 4\n')
    config = parse(["--config", str(file), "--seed", "6", "--algo.group-size", "16"]).config
    assert isinstance(config.algo, GRPO)
    assert (config.seed, config.samples_per_step, config.algo.kl_coef, config.algo.group_size) == (6, 64, 0.5, 16)


def test_a_printed_configuration_reads_back_equal(tmp_path: Path) -> None:
    chosen = resolve(parse(["--algo", "ppo", "--optimizer.lr", "3e-4", "--task.weights.format", "0.3"]))
    file = tmp_path / "a.toml"
    file.write_text(to_toml(chosen))
    assert resolve(parse(["--config", str(file)])).tree() == chosen.tree()


def test_embedded_and_other_models_get_their_own_defaults() -> None:
    ours, other = resolve(parse([])).config, resolve(parse(["--model", "org/name", "--data", "x"])).config
    assert (ours.optimizer.lr, ours.sampling.max_new_tokens, ours.task.source) == (2e-4, 64, "procedural")  # type: ignore[attr-defined]
    assert (other.optimizer.lr, other.sampling.max_new_tokens, other.task.source) == (1e-6, 512, "path")  # type: ignore[attr-defined]
    assert other.task.template == "boxed"  # type: ignore[attr-defined]


def test_bench_data_is_used_before_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve(parse(["--model", "org/name"])).config.task.source == "hub"  # type: ignore[attr-defined]
    (tmp_path / "gsm8k").mkdir()
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    assert resolve(parse(["--model", "org/name"])).config.task.source == "path"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--algo", "grop"], "did you mean grpo"),
        (["--task", "gsm9k"], "did you mean gsm8k"),
        (["--sed", "1"], "did you mean --seed"),
        (["--seed", "one"], "invalid literal"),
        (["--algo.group-size", "1"], "at least 2"),
        (["--samples-per-step", "100", "--algo.group-size", "8"], "does not divide"),
        (["--budget", "5"], "steps=N"),
        (["--budget", "steps=-1"], "steps=N"),
        (["--algo", "nowhere.at:All"], "cannot import"),
        (["--algo", "bench.ground.errors:UserError"], "not a subclass"),
        (["--task"], "needs a value"),
        (["--config", "nowhere.toml"], "nowhere.toml"),
        (["--sampling.temperature", "0"], "above 0"),
        (["--eval.checkpoint", "best"], "--eval.every"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["run", *flags, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_unknown_key_of_a_file_names_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("[algo]\nkl_coeff = 0.5\n")
    with pytest.raises(UserError, match="unknown setting 'kl_coeff'; did you mean kl_coef"):
        parse(["--config", str(file)])


def test_a_value_of_the_wrong_type_in_a_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('seed = "three"\n')
    with pytest.raises(UserError, match="seed = 'three'"):
        parse(["--config", str(file)])


def test_what_does_not_change_a_run_does_not_change_its_fingerprint() -> None:
    base = resolve(parse([])).tree()
    assert fingerprint(resolve(parse(["--out", "elsewhere", "--quiet"])).tree()) == fingerprint(base)
    assert fingerprint(resolve(parse(["--seed", "1"])).tree()) != fingerprint(base)


def test_a_setting_that_came_later_leaves_old_fingerprints_as_they_were() -> None:
    """A record of before lacks it, and is the same run as one that has it at the value of before."""
    now = resolve(parse([])).tree()
    before = without(now, "safety_model", now["safety_model"])
    for name, value in LATER.items():
        before = without(before, name, plain(value))
    assert set(before) == set(now) - {"reference_updates", "safety_model"}
    assert "language" not in before["task"]["weights"]
    assert fingerprint(before) == fingerprint(now)
    changed = resolve(parse(["--reference-updates", "8"])).tree()
    assert fingerprint(changed) != fingerprint(now)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--reference-updates", "-1"], "must be 0 or more"),
        (["--reference-updates", "8", "--algo", "dr_grpo"], "reads no reference"),
        (["--reference-updates", "8", "--engine", "deepspeed"], "needs --engine torch"),
        (["--reference-updates", "8", "--lora.rank", "4"], "the reference is the base itself"),
    ],
)
def test_a_reference_that_cannot_be_renewed_is_refused(flags: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        resolve(parse(flags))


def test_list_shows_methods_tasks_and_what_recipes_change(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    for words in ("  grpo ", "  countdown ", "deepseekmath: DeepSeekMath", "algo.group_size 64"):
        assert words in out


def test_engines_by_short_flags_and_lists_with_commas() -> None:
    engine = parse(["--engine", "deepspeed", "--zero=3", "--offload", "optimizer,params", "--seed", "1"]).config.engine
    assert (engine.train, engine.zero, engine.offload) == ("deepspeed", 3, ("optimizer", "params"))
    assert parse(["--offload=optimizer"]).config.engine.offload == ("optimizer",)
    assert parse(["--offload", "optimizer", "params"]).config.engine.offload == ("optimizer", "params")


def test_engine_and_stage_follow_the_processes_and_what_is_off_loaded() -> None:
    alone, two = (resolve(parse([]), processes).config.engine for processes in (1, 2))
    assert (alone.train, alone.zero) == ("torch", 0)
    assert (two.train, two.zero) == ("deepspeed", 0)
    off = resolve(parse(["--engine", "deepspeed", "--offload", "params"])).config.engine
    assert (off.zero, off.offload) == (3, ("params",))


@pytest.mark.parametrize(
    ("flags", "processes", "words"),
    [
        (["--engine", "torch"], 2, "--engine torch is one process, and here are 2: use --engine deepspeed"),
        (["--zero", "1"], 1, "need --engine deepspeed"),
        (["--engine", "deepspeed", "--zero", "0", "--offload", "optimizer"], 1, "needs --zero 1, 2 or 3"),
        (["--engine", "deepspeed", "--zero", "2", "--offload", "params"], 1, "needs --zero 3"),
        (["--samples-per-step", "24"], 2, "makes 3 prompts, which 2 processes cannot share evenly; .* 32 can"),
    ],
)
def test_engines_refuse_what_they_cannot_do(flags: list[str], processes: int, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        resolve(parse(flags), processes)
    assert "\n" not in str(caught.value)


def test_a_setting_by_its_former_name_is_read_and_yields_to_its_present_one() -> None:
    """In a file as in flags; `zero_stage` was the planner's name of `engine.zero`."""
    assert from_tree({"zero_stage": 2, "lora_rank": 4}, "old.toml").config.engine.zero == 2
    assert from_tree({"zero_stage": 2, "engine": {"zero": 1}}, "old.toml").config.engine.zero == 1
    assert parse(["--zero-stage", "3"]).config.engine.zero == 3


@pytest.mark.parametrize("name", ["max_new_tokens", "lr", "critic_lr"])
def test_the_help_of_a_default_that_depends_on_the_model_is_its_table(name: str) -> None:
    """The texts stand in a file that nothing but the standard library reads, so they are held to the table here."""
    assert f'{default_of(name)}"""' in Path(config.__file__).read_text()
