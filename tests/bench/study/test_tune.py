"""Tuning: equal points, several seeds, a rule that prefers the smaller rate, edges that are told."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.ground.errors import UserError
from bench.report.tables import Table
from bench.study.launch import Outcome
from bench.study.schedule import Planned, Tuning
from bench.study.sensitivity import basins, cost, curve, width
from bench.study.tune import (
    FIRST_SEED,
    Scored,
    choose,
    draw_points,
    on_edge,
    score,
    trials,
    tune,
    tuned_schedule,
    winners,
)
from tests.bench.study.studies import RATES, arm, study

RUNS = Path("runs")
PLACE = ("", "gsm8k", "embedded", "auto")


def scored(accuracies: dict[float, Sequence[float]], space: dict[str, list[float]] | None = None) -> list[Scored]:
    return [
        Scored(
            arm="a",
            place=PLACE,
            point={"optimizer.lr": rate},
            space=space or {"optimizer.lr": sorted(accuracies)},
            starts=(0.3,) * len(values),
            accuracies=tuple(values),
            lost=0,
        )
        for rate, values in accuracies.items()
    ]


def text_of(table: Table, column: str) -> list[str]:
    return [row[column].text for row in table.rows]


def recorded(folder: Path, run: Planned, accuracy: float, status: str = "finished") -> Outcome:
    path = folder / run.label
    path.mkdir(parents=True)
    rows = [{"split": "validation", "sampled_accuracy": value} for value in (0.3, accuracy)]
    (path / "evals.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (path / "steps.jsonl").write_text(json.dumps({"data/samples_generated": 64, "cost/device_s": 2.0}) + "\n")
    return Outcome(run=run, path=path, status=status)


@pytest.mark.parametrize("num_points", [4, 6])
def test_equal_spaces_get_equal_points_whatever_the_arm_is_called(num_points: int) -> None:
    space = {**RATES, "algo.num-minibatches": [1, 2]}
    arms = [arm(name, space) for name in ("grpo", "ppo", "other=rloo")]
    found = trials(study(*arms, tuning=Tuning(points=num_points, seeds=2)), RUNS)
    by_arm = [[t.point for t in found if t.arm.name == name] for name in ("grpo", "ppo", "other")]
    assert by_arm[0] == by_arm[1] == by_arm[2]
    assert len({json.dumps(point) for point in by_arm[0]}) == num_points
    assert len(by_arm[0]) == 2 * num_points


def test_trials_never_see_test_or_the_studys_seeds() -> None:
    for trial in trials(study(arm("grpo"), arm("ppo")), RUNS):
        config = trial.run.chosen.config
        assert (config.eval.limit, config.eval.checkpoint) == (0, "last")
        assert FIRST_SEED <= config.seed < FIRST_SEED + 3
        assert config.optimizer.lr == trial.point["optimizer.lr"]


def test_what_cannot_be_tuned_is_refused() -> None:
    with pytest.raises(UserError, match="states no space"):
        draw_points({}, 2, "grpo")
    with pytest.raises(UserError, match="only 2 settings"):
        draw_points({"optimizer.lr": [1, 2]}, 3, "grpo")
    blind = study(arm("grpo"))
    with pytest.raises(UserError, match=r"set eval\.every"):
        trials(replace(blind, settings={}), RUNS)
    with pytest.raises(UserError, match=r"set eval\.num-samples"):
        trials(replace(blind, settings={"eval": {"every": 4, "num_samples": 0}}), RUNS)


def test_the_smaller_rate_wins_within_one_standard_error() -> None:
    # pooled variance (0.02^2 + 0.02^2) / 2, so one error of a mean of three is 0.0115
    near = {1e-4: (0.58, 0.60, 0.62), 2e-4: (0.59, 0.61, 0.63)}
    assert choose(scored(near)).point == {"optimizer.lr": 1e-4}
    far = {1e-4: (0.56, 0.58, 0.60), 2e-4: (0.59, 0.61, 0.63)}
    assert choose(scored(far)).point == {"optimizer.lr": 2e-4}


def test_an_edge_that_wins_is_told_with_the_next_value() -> None:
    found = scored({1e-4: (0.5, 0.5), 2e-4: (0.6, 0.6), 4e-4: (0.7, 0.7)})
    assert on_edge(found[2]) == {"optimizer.lr": pytest.approx(8e-4)}
    assert on_edge(found[0]) == {"optimizer.lr": pytest.approx(5e-5)}
    assert on_edge(found[1]) == {}


def test_a_run_that_diverged_scores_nothing_and_a_failed_one_disqualifies(tmp_path: Path) -> None:
    tried = trials(study(arm("grpo")), RUNS)
    outcomes = [recorded(tmp_path, t.run, 0.6, "diverged" if i == 8 else "finished") for i, t in enumerate(tried)]
    outcomes[0] = replace(outcomes[0], path=None, status="failed")
    found = score(tried, outcomes)
    assert [(len(item.accuracies), item.lost) for item in found] == [(2, 1), (3, 0), (3, 0)]
    assert found[2].accuracies[-1] == 0.0
    (best,) = winners(found).values()
    assert best.point == {"optimizer.lr": 2e-4}
    with pytest.raises(UserError, match="no point of arm grpo"):
        winners([replace(item, lost=1) for item in found])


@pytest.mark.parametrize("extend", [False, True])
def test_the_grid_grows_once_where_its_edge_has_won(tmp_path: Path, extend: bool) -> None:
    calls: list[list[float]] = []

    def run(planned: Sequence[Planned]) -> list[Outcome]:
        rates = [float(p.chosen.config.optimizer.lr or 0) for p in planned]
        calls.append(rates)
        return [
            recorded(tmp_path / str(len(calls)), p, 0.5 + rate * 100) for p, rate in zip(planned, rates, strict=True)
        ]

    plan = study(arm("grpo"), tuning=Tuning(points=3, seeds=3, extend=extend))
    found = tune(plan, trials(plan, RUNS), RUNS, run)
    grown = [[pytest.approx(8e-4)] * 3] if extend else []
    assert calls[1:] == grown
    best = found.best["grpo", found.scored[0].place]
    assert best.point["optimizer.lr"] == pytest.approx(8e-4 if extend else 4e-4)
    assert {p.chosen.config.optimizer.lr for p in tuned_schedule(plan, found.best, RUNS)} == {
        best.point["optimizer.lr"]
    }
    assert text_of(curve(found), "chosen")[-1] == "chosen on the grid's edge"
    assert text_of(curve(found), "seeds")[0] == "51.0, 51.0, 51.0"
    assert text_of(cost(found.outcomes), "samples") == [str(64 * (12 if extend else 9))]
    assert text_of(basins(found), "runs below their start") == [f"0 of {12 if extend else 9}"]


def test_a_basin_by_hand() -> None:
    # 2 points below 0.62 is 0.60: reached half-way from x = 2 to x = 3 (0.62 -> 0.58), and never to the left
    assert width([1.0, 2.0, 3.0], [0.61, 0.62, 0.58]) == pytest.approx(1 + 0.5)
    assert width([1.0, 2.0], [0.1, 0.5]) == pytest.approx(0.02 / 0.4)


def test_the_rule_loses_less_than_one_seed_and_the_highest_value() -> None:
    """Five rates with true accuracies 40, 48, 52, 50, 42 and the spreads seen: what is given up by what is chosen."""
    draw, truth = np.random.default_rng(0), np.array([0.40, 0.48, 0.52, 0.50, 0.42])
    rates = [1e-4 * 2**i for i in range(5)]
    lost: dict[str, list[float]] = {"before": [], "after": []}
    for _ in range(400):
        greedy = truth + draw.normal(0, 0.05, 5)  # one seed, greedy, 200 problems
        lost["before"].append(truth.max() - truth[int(np.argmax(greedy))])
        sampled = truth[:, None] + draw.normal(0, 0.012, (5, 3))
        chosen = choose(scored({rate: tuple(values) for rate, values in zip(rates, sampled, strict=True)}))
        lost["after"].append(truth.max() - truth[rates.index(chosen.point["optimizer.lr"])])
    assert np.mean(lost["after"]) < 0.005 < 0.01 < np.mean(lost["before"])
