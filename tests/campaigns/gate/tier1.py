"""Which planted faults tier 1 catches; refactors it must leave alone.

    python -m tests.campaigns.gate.tier1 [NAME ...]

Each edit is planted in a copy of the tree, whose own code is then checked against the goldens, until something is red.
What was found is kept in tier1.json.
"""

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import torch

from tests.campaigns.gate.planted import edited, faults, refactors
from tests.faults.forks import copy_tree, forked
from tests.faults.listed import Fault

RESULTS = Path(__file__).with_name("tier1.json")
FIRST = ("grpo", "ppo", "dapo", "gspo", "vapo")  # most faults show in the first; the rest have a file of their own
TIMEOUT_S = 300


def red(edit: Fault, tree: Path) -> bool:
    """Whether any method's results moved."""

    def check() -> int:
        from algorithms import ALGORITHMS
        from bench.gate.golden import is_same_result, results, version_of_formulas
        from bench.gate.moves import golden_path
        from bench.ground.files import read_json

        def moves(name: str) -> bool:
            old = read_json(golden_path(name, None))["entries"][version_of_formulas(ALGORITHMS[name])]
            missing = set(old)
            for key, value in results(ALGORITHMS[name]):
                if not is_same_result(old.get(key, value), value):
                    return True
                missing.discard(key)
            return bool(missing)

        own = [n for n, cls in ALGORITHMS.items() if cls.__module__ == edit.file[:-3].replace("/", ".")]
        for name in dict.fromkeys((*own, *FIRST, *(ALGORITHMS if edit.kind == "refactor" else ()))):
            if moves(name):
                return 1
        return 0

    with edited(edit, tree):
        return forked(tree, check, TIMEOUT_S) != 0


def main(names: list[str]) -> None:
    """Print a line an edit, and the shares."""
    torch.set_num_threads(1)
    found: dict[str, bool] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    edits = [*faults(), *refactors()]
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch)
        copy_tree(tree)
        for edit in edits:
            if edit.name in names or not (names or edit.name in found):
                found[edit.name] = red(edit, tree)
                RESULTS.write_text(
                    json.dumps({e.name: found[e.name] for e in edits if e.name in found}, indent=1) + "\n"
                )
                print(f"{'red  ' if found[edit.name] else 'green'} {edit.kind:<11} {edit.name}", flush=True)
    total, caught = Counter(e.kind for e in edits), Counter(e.kind for e in edits if found.get(e.name))
    print(", ".join(f"{kind} {caught[kind]} of {number}" for kind, number in total.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
