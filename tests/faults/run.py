"""Plants each listed fault in a copy of the tree and sees whether the tests turn red: `python -m tests.faults.run`.

Arguments, if any, are names of faults to plant; without any, all are. What was found is kept in results.json.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import hypothesis  # noqa: F401 - imported before the forks, once for all
import pytest
import torch
import transformers  # noqa: F401 - likewise
from transformers import LlamaForCausalLM  # noqa: F401 - likewise

from tests.faults.listed import RESULTS, Fault, load, planted

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 300  # a fault that makes the tests hang is caught
OURS = {"algorithms", "bench", "tasks", "tests", "docs"}


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
    """Whether these tests pass, run in a fork that has the heavy imports behind it and none of our own modules."""
    child = os.fork()
    if not child:
        signal.alarm(TIMEOUT_S)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        os.chdir(tree)
        sys.path[:] = [str(tree), *(p for p in sys.path if Path(p or ".").resolve() != ROOT)]
        for name in [n for n in sys.modules if n.partition(".")[0] in OURS]:
            del sys.modules[name]
        sys.dont_write_bytecode = True
        os._exit(pytest.main(["-x", "-q", "-m", "not slow", *tests]))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def copy_tree(target: Path) -> None:
    """The tracked files as they are now."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


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
