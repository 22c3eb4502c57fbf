"""Which planted faults tier 1 catches; refactors it must leave alone: `python -m tests.gate.tier1 [NAME ...]`.

Each edit is planted in a copy of the tree, whose own code is then checked against the goldens, until something is red.
What was found is kept in tier1.json.
"""

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import torch

from tests.faults.forks import copy_tree, forked
from tests.faults.listed import Fault, load
from tests.gate.planted import edited, refactors

RESULTS = Path(__file__).with_name("tier1.json")
FIRST = ("ppo", "grpo", "dapo", "gspo", "vapo")  # most faults show in the first
TIMEOUT_S = 300


def red(edit: Fault, tree: Path) -> bool:
    """Whether any method's results moved."""

    def check() -> int:
        from algorithms import ALGORITHMS
        from bench.gate.moves import check_golden, golden_path

        for name in dict.fromkeys((*FIRST, *ALGORITHMS)):
            if any(f.status != "pass" for f in check_golden(name, ALGORITHMS[name], golden_path(name, None))):
                return 1
        return 0

    with edited(edit, tree):
        return forked(tree, check, TIMEOUT_S) != 0


def main(names: list[str]) -> None:
    """Print a line an edit, and the shares."""
    torch.set_num_threads(1)
    found: dict[str, bool] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    edits = [*load(), *refactors()]
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch)
        copy_tree(tree)
        for edit in edits:
            if not names or edit.name in names:
                found[edit.name] = red(edit, tree)
                print(f"{'red  ' if found[edit.name] else 'green'} {edit.kind:<11} {edit.name}", flush=True)
    RESULTS.write_text(json.dumps({e.name: found[e.name] for e in edits if e.name in found}, indent=1) + "\n")
    total, caught = Counter(e.kind for e in edits), Counter(e.kind for e in edits if found.get(e.name))
    print(", ".join(f"{kind} {caught[kind]} of {number}" for kind, number in total.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
