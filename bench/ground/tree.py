"""Settings as nested mappings: read from TOML and JSON, laid over one another, compared."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

Tree = dict[str, Any]
LATER: Mapping[str, Any] = {  # settings that came later, with what every run before them had
    "task.weights.language": 0.0,
    "reference_updates": 0,
    "reward_model.kinds": [],
    "reward_model.reads": "completion",
    "safety_model": {
        **{"path": None, "weight": 1.0, "rules_weight": 0.0, "mean": 0.0, "std": 1.0},
        **{"kinds": [], "reads": "completion"},
    },
}
WITHOUT_EFFECT = ("out", "quiet", "track", "profile", "arm")  # where a run is written and how it is shown


def plain(value: Any) -> Any:  # noqa: ANN401 - any setting
    """A setting as JSON holds it: dataclasses as objects, paths as text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in cast("list[Any]", value)]
    if isinstance(value, Path):
        return str(value)
    return value


def without_none(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """A tree without its missing values, which TOML cannot hold."""
    if isinstance(value, dict):
        return {k: without_none(v) for k, v in cast("Tree", value).items() if v is not None}
    return value


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Tree:
    """Nested `base` with `over`'s values on top."""
    result = dict(base)
    for key, value in over.items():
        mapping = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = merge(result[key], cast("Tree", value)) if mapping else value
    return result


def nested(key: str, value: Any) -> Tree:  # noqa: ANN401 - any TOML value
    """`{"a": {"b": value}}` of `a.b`."""
    for part in reversed(key.split(".")):
        value = {part: value}
    return cast("Tree", value)


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """`{"algo": {"kl_coef": 0}}` -> `{"algo.kl_coef": "0"}`."""
    flat: dict[str, str] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat |= flatten(cast("Tree", value), f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value if isinstance(value, str) else json.dumps(value)
    return flat


def without(tree: Mapping[str, Any], name: str, value: Any) -> Tree:  # noqa: ANN401 - any setting
    """The tree without a setting, where it has this value."""
    head, _, rest = name.partition(".")
    if head not in tree or (rest and not isinstance(tree[head], Mapping)):
        return dict(tree)
    if rest:
        return {**tree, head: without(cast("Tree", tree[head]), rest, value)}
    return {k: v for k, v in tree.items() if k != head or v != value}


def fingerprint(tree: Mapping[str, Any]) -> str:
    """Equal for settings that give equal runs; one that came later and has the value of before does not count."""
    matters = {k: v for k, v in tree.items() if k not in WITHOUT_EFFECT}
    for name, value in LATER.items():
        matters = without(matters, name, value)
    return hashlib.sha256(json.dumps(matters, sort_keys=True).encode()).hexdigest()
