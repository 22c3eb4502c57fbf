"""Accuracies to hold later changes against: `<baselines>/<hardware>/<task>-<model>-<method>-<budget>.json`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from bench.gate.accuracy import Results, number_of
from bench.gate.verdict import signature
from bench.ground.comparable import CHECKSUMS, Terms, terms
from bench.ground.errors import UserError
from bench.ground.files import read_json, write_json
from bench.ground.tree import Tree
from bench.machine.provenance import commit
from bench.stats import Estimate, estimate


def baseline_path(folder: Path, subject: str, setting: Mapping[str, Any], preset: str) -> Path:
    """Where a method's baseline lies. `setting` has task_name, model and budget."""
    parts = (setting["task_name"], Path(str(setting["model"])).name, subject, str(setting["budget"]).replace("=", ""))
    return folder / (preset or "unknown") / ("-".join(parts).replace(":", ".") + ".json")


def baseline_of_results(results: Results, subject: str, folder: Path) -> Path:
    """The same, from runs."""
    return baseline_path(folder, subject, results.terms, results.preset)


def read_baseline(path: Path) -> Results:
    """A stored baseline.

    Raises:
        UserError: it is not there, or is no baseline.
    """
    content = read_json(path)
    try:
        accuracy = {int(seed): number_of(content["accuracy"], seed) for seed in content["accuracy"]}
        if not all(0 <= value <= 1 for value in accuracy.values()):
            raise ValueError("an accuracy is not in [0, 1]")
        return Results(terms=stored_terms(content["setting"]), accuracy=accuracy, start=content["start"])
    except (KeyError, AttributeError, TypeError, ValueError, UserError) as error:
        raise UserError(f"{path}: not a baseline of accuracies: {error}") from error


def stored_terms(setting: Any) -> Terms:  # noqa: ANN401 - any JSON value
    """The terms of a stored baseline. Before they had names it held four parts, of which they are made as of a run."""
    if isinstance(setting, dict):
        return {str(name): str(value) for name, value in cast("Tree", setting).items()}
    equal, data, length, preset = setting
    splits = {split: dict(zip(CHECKSUMS, sums, strict=True)) for split, sums in data.items()}
    tree = {name: value for name, value in equal.items() if value is not None}
    tree |= {} if length is None else {"sampling": {"max_new_tokens": length}}
    return terms(tree, {"data": splits, "preset": preset})


def move_baseline(path: Path, subject: str, results: Results, reason: str) -> str:
    """Store the runs as what later ones are held against; returns a line that says what changed.

    Raises:
        UserError: a run has no result.
    """
    if results.lost:
        seed, why = next(iter(results.lost.items()))
        raise UserError(f"{subject}, seed {seed}: {why}; a baseline must not hide that")
    old: dict[str, Any] = read_json(path) if path.exists() else {"accuracy": {}, "history": []}
    before = estimate(list(old["accuracy"].values())) if old["accuracy"] else None
    changed = f"{accuracy_in_words(before)} -> {accuracy_in_words(estimate(list(results.accuracy.values())))}"
    content = {
        "method": subject,
        "setting": results.terms,
        "start": results.start,
        "accuracy": {str(seed): value for seed, value in sorted(results.accuracy.items())},
        "history": [*old["history"], signature(reason) | commit() | {"changed": changed}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, content)
    return f"{subject}: {changed}; {path}"


def accuracy_in_words(value: Estimate | None) -> str:
    """`80.3% (8 runs)`."""
    return "none" if value is None else f"{value.mean:.1%} ({value.n} runs)"
