"""What must be equal for two runs to be compared: one definition for a study's plan, a report and the gate.

A plan knows its settings only; a record also knows what the data were, and then content counts and not its path.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bench.ground.tree import flatten

Terms = dict[str, str]  # dotted name -> value as JSON, text as it is
EQUAL = (
    *("task_name", "model", "preset", "budget", "data", "source"),
    *("long_prompts", "max_prompt_tokens", "sampling.max_new_tokens"),  # the generation budget is evaluation's, too
)
FAMILIES = ("eval.", "task.")
FREE = ("task.weights.",)  # of the reward, which arms may vary: verdicts do not hang on it
CHECKSUMS = ("sha256", "template_sha256")
PATHS = ("data", "task.data")


def terms(tree: Mapping[str, Any], provenance: Mapping[str, Any] | None = None) -> Terms:
    """All that must be equal, from a run's settings and, once it has run, what it recorded of its origin.

    Under a budget in steps the samples of a step are part of it, and a method that samples again is comparable with
    itself alone. What the settings do not say is absent: runs of which only one says it are not comparable.
    """
    flat = flatten(tree)
    found = {name: value for name, value in flat.items() if name in EQUAL or name.startswith(FAMILIES)}
    found = {name: value for name, value in found.items() if not name.startswith(FREE)}
    if flat.get("budget", "").startswith("steps="):
        found |= {name: flat[name] for name in ("samples_per_step",) if name in flat}
        if samples_again(flat):
            found["arm"] = flat.get("arm") or flat.get("algo_name", "")
    if not provenance:
        return found
    if provenance.get("preset"):
        found["preset"] = str(provenance["preset"])
    data: Mapping[str, Any] = provenance.get("data") or {}
    if data and all(part.get("sha256") for part in data.values()):
        found = {name: value for name, value in found.items() if name not in PATHS}
    sums = {f"data.{split}.{name}": part.get(name) for split, part in data.items() for name in CHECKSUMS}
    return found | {name: str(value) for name, value in sums.items() if value}


def samples_again(flat: Mapping[str, str]) -> bool:
    """Whether a step may generate more samples than its size, so that equal steps are no equal budget."""
    return flat.get("algo.dynamic_sampling") == "true" and flat.get("algo.max_sampling_rounds") != "1"


def key_of(found: Terms) -> str:
    """Text that is equal for comparable runs, and for no others."""
    return json.dumps(found, sort_keys=True)


def unequal_terms(one: Terms, other: Terms) -> Iterator[str]:
    """The names of what differs, or of what only one says, in order."""
    return (name for name in sorted(one.keys() | other.keys()) if one.get(name) != other.get(name))
