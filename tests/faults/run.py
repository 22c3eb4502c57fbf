"""Plants each listed fault in a copy of the tree and sees whether the tests turn red: `python -m tests.faults.run`.

Arguments, if any, are names of faults to plant; without any, all are. What was found is kept in results.json.
"""

import json
import sys
import tempfile
from pathlib import Path

import hypothesis  # noqa: F401 - imported before the forks, once for all
import pytest
import torch

from tests.faults.forks import copy_tree, forked
from tests.faults.listed import RESULTS, Fault, load, planted

TIMEOUT_S = 300  # a fault that makes the tests hang is caught


def caught(fault: Fault, tree: Path) -> bool:
    """Whether the tests turn red with the fault in the tree, which is left as it was."""
    path = tree / fault.file
    sound = path.read_text()
    path.write_text(planted(fault, sound))
    try:
        return not green(fault.tests, tree)
    finally:
        path.write_text(sound)


def green(tests: list[str], tree: Path) -> bool:
    """Whether these tests pass in the tree."""
    return forked(tree, lambda: int(pytest.main(["-x", "-q", "-m", "not slow", *tests])), TIMEOUT_S) == 0


def main(names: list[str]) -> int:
    """Plant the named faults, or all; 1 when one survives that is not known to."""
    torch.set_num_threads(1)
    faults = [f for f in load() if not names or f.name in names]
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch)
        copy_tree(tree)
        selections = sorted({" ".join(f.tests) for f in faults})
        for selection in selections:
            if not green(selection.split(), tree):
                raise SystemExit(f"without a fault these are red already: {selection}")
        results = {f.name: report(f, caught(f, tree)) for f in faults}
    print(f"{sum(results.values())} of {len(results)} caught")
    keep({f.name for f in load()}, results)
    return int(any(not f.survives and not results[f.name] for f in faults))


def keep(known: set[str], results: dict[str, bool]) -> None:
    """Add to what earlier runs found; faults that are no longer listed are forgotten."""
    merged = (json.loads(RESULTS.read_text()) if RESULTS.exists() else {}) | results
    RESULTS.write_text(json.dumps({name: merged[name] for name in sorted(merged) if name in known}, indent=1) + "\n")


def report(fault: Fault, was_caught: bool) -> bool:
    """Print a line; returns what it is given."""
    print(f"{'caught  ' if was_caught else 'SURVIVES'} {fault.kind:<11} {fault.name}", flush=True)
    return was_caught


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
