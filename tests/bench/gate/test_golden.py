"""Tier 1: whatever moves a result is red until version and golden are moved with a reason."""

import json
import math
from pathlib import Path

import pytest
import torch

from algorithms import ALGORITHMS, ops
from algorithms.core import Algorithm
from algorithms.grpo import GRPO
from bench.cli import main
from bench.gate.golden import is_same_result, stored_config, training, version_of_formulas
from bench.gate.moves import SHIPPED, check_golden, golden_path, move_golden, moved_numbers
from bench.gate.stored import NUM_PROBLEMS, REWARDS, SIBLINGS, StoredRollouts, StoredTask
from bench.ground.errors import UserError
from bench.ground.files import read_json
from bench.settings.plugins import find_algorithm

MINE = """
from dataclasses import dataclass
from typing import ClassVar

from algorithms.grpo import GRPO


@dataclass(frozen=True, kw_only=True)
class Mine(GRPO):
    formula_version: ClassVar[int] = 1

    def assign(self, batch, advantages, returns=None):
        return super().assign(batch, 0.5 * advantages, returns)
"""


def verdicts(algorithm: type[Algorithm], path: Path) -> dict[str, str]:
    return {finding.quantity: finding.status for finding in check_golden("grpo", algorithm, path)}


def test_an_unchanged_method_passes() -> None:
    assert verdicts(GRPO, SHIPPED / "grpo.json") == dict.fromkeys(("definition", "formulas", "training"), "pass")


def test_a_wrong_formula_is_red_and_says_what_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ops.kl
    monkeypatch.setattr(ops, "kl", lambda a, b, kind: right(b, a, kind))
    findings = {f.quantity: f for f in check_golden("grpo", GRPO, SHIPPED / "grpo.json")}
    assert findings["formulas"].status == findings["training"].status == "worse"
    assert findings["definition"].status == "pass"
    assert "formula/defaults/loss: -0.0417" in findings["formulas"].detail


def test_a_change_below_the_tolerance_is_none() -> None:
    assert is_same_result(0.5, 0.5 + 4e-7)
    assert not is_same_result(0.5, 0.5 + 6e-7)
    assert is_same_result(0.0, 5e-10)
    assert not is_same_result(1.0, math.nan)
    assert not is_same_result(math.nan, math.nan)
    assert not is_same_result(1.0, None)


def test_a_metric_that_is_gone_is_red_and_a_new_one_is_not() -> None:
    old: dict[str, float | str] = {"training/a": 1.0, "training/b": 2.0}
    assert [move.name for move in moved_numbers(old, {"training/a": 1.0})] == ["training/b"]
    assert not moved_numbers(old, old | {"training/c": 3.0})
    assert [move.name for move in moved_numbers(old, old | {"training/c": math.nan})] == ["training/c"]


def test_a_golden_moves_with_its_version_and_a_reason_only(tmp_path: Path) -> None:
    path = tmp_path / "grpo.json"
    assert verdicts(GRPO, path) == {"golden": "cannot judge"}
    assert "added" in move_golden("grpo", GRPO, path, "a new method")
    assert "nothing moved" in move_golden("grpo", GRPO, path, "again")

    class Other(GRPO):
        def kl_cost(self, batch):  # noqa: ANN001, ANN202
            return super().kl_cost(batch) + 0.1 * batch.mask * batch.old_logprobs

    assert verdicts(Other, path)["training"] == "worse"
    with pytest.raises(UserError, match=r"first raise Other\.formula_version"):
        move_golden("grpo", Other, path, "a better KL")
    Other.formula_version = 2
    assert verdicts(Other, path) == {"golden": "worse"}
    move_golden("grpo", Other, path, "a better KL")
    assert set(verdicts(Other, path).values()) == {"pass"}
    assert set(verdicts(GRPO, path).values()) == {"pass"}, "the old entry stays"
    last = read_json(path)["history"][-1]
    assert last["why"] == "a better KL"
    assert last["who"]
    assert last["when"]
    assert last["num_moved"] > 10
    assert " -> " in last["changed"][0]


def test_ones_own_method_from_another_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine_gated.py").write_text(MINE)
    flags = ["check", "--algo", "mine_gated:Mine", "--quiet"]
    assert main(flags) == 3
    assert main([*flags, "--update-baseline"]) == 2
    assert "--reason" in capsys.readouterr().err
    assert main([*flags, "--update-baseline", "--reason", "first"]) == 0
    assert (tmp_path / "results/baselines/goldens/mine_gated.Mine.json").exists()
    assert main(flags) == 0
    monkeypatch.setattr(find_algorithm("mine_gated:Mine"), "assign", GRPO.assign)
    assert main(flags) == 1
    assert "formula/defaults/loss" in (tmp_path / "results/check/check.md").read_text()


def test_what_is_not_finite_or_raises_never_passes(tmp_path: Path) -> None:
    class Broken(GRPO):
        def policy_loss(self, policy, batch, targets):  # noqa: ANN001, ANN202
            out = super().policy_loss(policy, batch, targets)
            return type(out)(loss=out.loss * math.nan, metrics=out.metrics)

    class Raises(GRPO):
        def targets(self, batch):  # noqa: ANN001, ANN202
            raise RuntimeError("no credit")

    for broken in (Broken, Raises):
        found = verdicts(broken, SHIPPED / "grpo.json")
        assert found["formulas"] == found["training"] == "worse"
        with pytest.raises(UserError, match="nothing to hold a later change against"):
            move_golden("x", broken, tmp_path / "x.json", "hide it")


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_the_stored_steps_are_lively(name: str) -> None:
    """Else a wrong formula could hide: ratios clip, rows are cut off, some groups have no spread, the KL is not 0."""
    numbers = read_json(SHIPPED / f"{name}.json")["entries"][version_of_formulas(ALGORITHMS[name])]
    of = lambda metric: [v for k, v in numbers.items() if k.startswith("training/") and k.endswith(metric)]
    method = ALGORITHMS[name]()
    updates = (5 - method.value_pretraining) * method.num_epochs * method.num_minibatches  # of five steps
    assert sum(k.endswith("policy loss") and "/defaults/" in k for k in numbers) >= updates > 0
    assert any(0 < value < 1 for value in of("completion/truncated_frac"))
    assert max(of("actor/kl")) > 0.1
    assert max(of("actor/kl_ref")) > 0.1
    assert max(of("rollout/mismatch_max")) > math.log(2), "the correction's cap binds"
    if name not in ("rloo", "sao", "raft"):  # which clip nothing
        assert any(0 < value < 1 for value in of("actor/clip_frac"))
    if ALGORITHMS[name]().group_size > 1:
        assert any(0 < value < 1 for value in of("reward/frac_zero_std_groups"))


def test_the_rollouts_are_stored_and_nothing_is_drawn() -> None:
    engine, task = StoredRollouts(), StoredTask()
    prompts = [engine.encode(problem.prompt) for problem in task.problems("train")]
    assert len(prompts) == NUM_PROBLEMS == len(REWARDS)
    sampling = stored_config(GRPO()).sampling
    found = engine.generate(prompts, [range(SIBLINGS)] * NUM_PROBLEMS, sampling)
    again = StoredRollouts().generate(prompts, [range(100, 100 + SIBLINGS)] * NUM_PROBLEMS, sampling)
    assert found == again
    scores = [task.score(p, c.text) for p, group in zip(task.problems("train"), found, strict=True) for c in group]
    assert {s.correct for s in scores} == {True, False}
    assert {c.finish_reason for group in found for c in group} == {"stop", "length"}


def test_training_is_in_float64() -> None:
    """In float32 the order of a sum would decide whether the golden holds."""
    single = torch.float32
    losses = [v for k, v in training(GRPO()) if k.startswith("update")]
    rounded = [torch.tensor(v, dtype=torch.float64).to(single).item() for v in losses]
    assert sum(a != b for a, b in zip(losses, rounded, strict=True)) > 0.9 * len(losses)


def test_goldens_of_own_methods_lie_with_their_owner() -> None:
    assert golden_path("grpo", None) == SHIPPED / "grpo.json"
    assert golden_path("pkg.mod:Class", None) == Path("results/baselines/goldens/pkg.mod.Class.json")
    assert golden_path("grpo", Path("b")) == Path("b/goldens/grpo.json")


def test_goldens_ship_with_the_package() -> None:
    assert {path.stem for path in SHIPPED.glob("*.json")} == set(ALGORITHMS)
    for path in SHIPPED.glob("*.json"):
        history = json.loads(path.read_text())["history"]
        assert all(move["why"] and move["who"] and move["when"] for move in history)
