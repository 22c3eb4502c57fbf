"""One definition of what must be equal, however a run is known: planned, recorded, or stored in a baseline."""

from dataclasses import replace
from typing import Any

import pytest

from algorithms import ALGORITHMS
from bench.gate.baselines import stored_terms
from bench.ground.comparable import key_of, samples_again, terms, unequal_terms
from bench.ground.tree import flatten, plain
from bench.settings.flags import from_tree

SETTINGS: dict[str, Any] = {
    "task_name": "countdown",
    "model": "embedded",
    "budget": "steps=4",
    "samples_per_step": 64,
    "data": None,
    "source": "auto",
    "long_prompts": "refuse",
    "max_prompt_tokens": 1024,
    "sampling": {"max_new_tokens": 64, "temperature": 1.0},
    "task": {"use_all": True, "weights": {"format": 0.1}},
    "eval": {"limit": 16},
}


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"task": {"use_all": False, "weights": {"format": 0.1}}}, ["task.use_all"]),
        ({"task": {"use_all": True, "weights": {"format": 0.0}}}, []),
        ({"source": "path"}, ["source"]),
        ({"long_prompts": "drop"}, ["long_prompts"]),
        ({"max_prompt_tokens": 99}, ["max_prompt_tokens"]),
        ({"samples_per_step": 32}, ["samples_per_step"]),
        ({"sampling": {"max_new_tokens": 32, "temperature": 1.0}}, ["sampling.max_new_tokens"]),
        ({"sampling": {"max_new_tokens": 64, "temperature": 0.5}}, []),
        ({"optimizer": {"lr": 1.0}, "seed": 3, "out": "x"}, []),
    ],
)
def test_what_must_be_equal(change: dict[str, Any], names: list[str]) -> None:
    one, other = terms(SETTINGS), terms(SETTINGS | change)
    assert list(unequal_terms(one, other)) == names
    assert (key_of(one) == key_of(other)) == (not names)


def test_samples_of_a_step_are_free_under_a_budget_in_samples() -> None:
    one = SETTINGS | {"budget": "samples=256"}
    assert terms(one) == terms(one | {"samples_per_step": 32})


def test_of_data_that_were_read_the_content_counts_and_not_the_path() -> None:
    data = {"test": {"sha256": "aa", "template_sha256": "bb"}}
    here, there = (terms(SETTINGS | {"data": path}, {"data": data}) for path in ("here", "there"))
    assert here == there
    other = terms(SETTINGS | {"data": "here"}, {"data": {"test": {"sha256": "cc", "template_sha256": "bb"}}})
    assert list(unequal_terms(here, other)) == ["data.test.sha256"]
    assert list(unequal_terms(terms(SETTINGS | {"data": "here"}), terms(SETTINGS | {"data": "there"}))) == ["data"]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_method_that_samples_again_is_alone_under_a_budget_in_steps(name: str) -> None:
    algorithm = from_tree({"algo_name": name}, "test").config.algo
    again = samples_again(flatten({"algo": plain(algorithm)}))
    assert again == (algorithm.max_rounds > 1)
    tree = SETTINGS | {"algo_name": name, "algo": plain(algorithm)}
    assert (terms(tree) == terms(SETTINGS)) == (not again)
    if again:
        once = replace(algorithm, max_sampling_rounds=1)  # type: ignore[call-arg]
        assert not samples_again(flatten({"algo": plain(once)}))


def test_a_baseline_of_before_the_terms_had_names_is_read_as_a_run_is() -> None:
    equal = {key: SETTINGS[key] for key in ("task_name", "model", "eval")} | {"budget": "samples=8"}
    found = stored_terms([equal, {"test": ["aa", "bb"]}, 64, "cpu"])
    recorded = {"preset": "cpu", "data": {"test": {"sha256": "aa", "template_sha256": "bb"}}}
    run = terms(SETTINGS | {"budget": "samples=8"}, recorded)
    assert found == {name: run[name] for name in found}
    assert run.keys() - found.keys() == {"source", "long_prompts", "max_prompt_tokens", "task.use_all"}
    assert stored_terms(run) == run
