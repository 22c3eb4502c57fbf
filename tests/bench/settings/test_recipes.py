"""Recipes are settings: each parses, says where it is from, and yields to flags."""

import pytest

from algorithms import ALGORITHMS
from bench.ground.errors import UserError
from bench.settings.flags import from_tree, parse
from bench.settings.recipes import RECIPES, differences, recipe_settings, recipe_tree

EVERY = [(name, algo) for name, recipe in RECIPES.items() for algo in recipe.settings]


def reach(config: object, path: str) -> object:
    for part in path.split("."):
        config = getattr(config, part)
    return config


@pytest.mark.parametrize(("name", "algo"), EVERY)
def test_every_setting_arrives(name: str, algo: str) -> None:
    config = from_tree(recipe_tree(name, algo), name).config
    assert type(config.algo) is ALGORITHMS[algo]
    for path, value in recipe_settings(name, algo)[1].items():
        assert reach(config, path) == value, path
    assert config.samples_per_step % config.algo.group_size == 0


@pytest.mark.parametrize("name", list(RECIPES))
def test_sources_and_differences_are_stated(name: str) -> None:
    assert RECIPES[name].source
    rows = differences(name)
    assert rows
    assert all(value != default for _, value, default in rows)


def test_the_blog_post_for_both_methods() -> None:
    grpo, ppo = (from_tree(recipe_tree("blog-post", name), "blog-post").config for name in ("grpo", "ppo"))
    assert (grpo.algo.group_size, grpo.algo.num_epochs * grpo.algo.num_minibatches) == (16, 1)
    for config in (grpo, ppo):
        algo = config.algo
        assert (algo.kl_coef, algo.kl_estimator, algo.kl_place, algo.clip_ratio) == (0.04, "k3", "loss", 0.2)  # type: ignore[attr-defined]
        sampling = config.sampling
        assert (sampling.temperature, sampling.top_p, sampling.max_new_tokens) == (0.7, 0.9, 512)
        weights = config.task.weights  # type: ignore[attr-defined]
        assert weights.reward(correct=True, think_ok=True, box_ok=True) == 2.0
        assert weights.reward(correct=False, think_ok=True, box_ok=False) == -0.5


def test_a_recipe_brings_its_algorithm_and_flags_win() -> None:
    chosen = parse(["--recipe", "dapo", "--sampling.max-new-tokens", "99", "--algo.group-size", "4"])
    assert chosen.algo_name == "dapo"
    assert chosen.config.sampling.max_new_tokens == 99
    assert chosen.config.algo.group_size == 4
    assert chosen.config.optimizer.lr == 1e-6
    assert parse(["--recipe", "verl-default", "--algo", "grpo"]).config.algo.dual_clip == 3.0  # type: ignore[attr-defined]


def test_what_a_recipe_does_not_cover_is_refused() -> None:
    with pytest.raises(UserError, match="did you mean dapo"):
        recipe_tree("dapp", None)
    with pytest.raises(UserError, match="it is for dapo"):
        recipe_tree("dapo", "ppo")
