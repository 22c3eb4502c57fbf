"""Tier 2 on real steps, many times: `python -m tests.campaigns.gate.tier2 SCENARIO [COUNT]`, adding to tier2.json.

unchanged   base and head are one tree: at most 1 red of 20, idle (as the machine is) or `loaded` (as many busy
            processes as cores beside it)
slow        rollout takes a quarter longer: by work in one half of the checks, by waiting in the other
refactors   each harmless edit once
memory      a tenth more: of the key-value cache in one half, of the policy in the other (roles repeat: 8 pairs will do)
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import tomli_w
import torch

from bench.gate.costs import Side, in_turns
from bench.gate.ratios import Pair
from bench.gate.tolerances import parse_tolerances
from bench.gate.verdict import EXIT_CODES, look_sizes, overall
from tests.campaigns.gate.forked import ForkedWorker, small_data
from tests.campaigns.gate.planted import edited, refactors
from tests.faults.forks import copy_tree
from tests.faults.listed import Fault

RESULTS = Path(__file__).with_name("tier2.json")
SETTINGS = {"algo_name": "grpo", "samples_per_step": 32, "eval": {"limit": 1}, "task": {"template": "plain"}}
TIMED = "started = __import__('time').thread_time()\n    groups = engine.generate(prompts, seeds, sampling)\n    "
LONGER = "0.25 * (__import__('time').thread_time() - started)"
PER_PROCESS = 5  # checks by one pair of processes: loading takes as long as a check
EDITS = {
    "slow": (
        Fault(
            name="work",
            kind="cost",
            tests=[],
            file="bench/rollout.py",
            old="groups = engine.generate(prompts, seeds, sampling)\n",
            new=f"{TIMED}until = __import__('time').thread_time() + {LONGER}\n"
            "    while __import__('time').thread_time() < until:\n        pass\n",
        ),
        Fault(
            name="waiting",
            kind="cost",
            tests=[],
            file="bench/rollout.py",
            old="groups = engine.generate(prompts, seeds, sampling)\n",
            new=f"{TIMED}__import__('time').sleep({LONGER})\n",
        ),
    ),
    "memory": (
        Fault(
            name="cache",
            kind="cost",
            tests=[],
            file="bench/engines/caches.py",
            old="x.new_empty(*x.shape[:2], room, x.shape[3])",
            new="x.new_empty(*x.shape[:2], room + (x.shape[2] + room) // 10 + 1, x.shape[3])",
        ),
        Fault(
            name="policy",
            kind="cost",
            tests=[],
            file="bench/engines/networks.py",
            old="        self.policy = policy\n",
            new="        size = sum(p.numel() for p in policy.parameters())\n"
            "        policy.register_buffer('more', torch.zeros(size // 10))\n"
            "        self.policy = policy\n",
        ),
    ),
}


@contextmanager
def load(count: int) -> Generator[None]:
    """So many processes that do nothing but work."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def checks(trees: dict[Side, Path], scratch: Path, count: int, most: int) -> Iterator[dict[str, object]]:
    """What tier 2 says after at most so many pairs, by two processes that live for all checks."""
    settings = scratch / "settings.toml"
    settings.write_text(tomli_w.dumps(SETTINGS | {"data": str(small_data(scratch / "data"))}))
    with ExitStack() as stack:
        workers = {s: stack.enter_context(ForkedWorker(s, t, settings, scratch / f"{s}.log")) for s, t in trees.items()}
        for _ in range(count):
            before, start = os.getloadavg()[0], time.monotonic()
            found, pairs = in_turns(workers, "grpo", parse_tolerances(()), look_sizes(8, most), lambda line: None)
            yield {
                "code": EXIT_CODES[overall(found)],
                "not_passed": {f.quantity: f"{f.status}: {f.measured}" for f in found if f.status != "pass"},
                "pairs": len(pairs),
                "seconds": round(time.monotonic() - start, 1),
                "waited": round(1 - own(pairs) / sum(c["wall_s"]["step"] for p in pairs for c in (p.base, p.head)), 2),
                "load": [round(before, 1), round(os.getloadavg()[0], 1)],
            }


def own(pairs: Sequence[Pair]) -> float:
    """Seconds of all steps, those in which they waited for a core apart."""
    return sum(cost["own_s"]["step"] for pair in pairs for cost in (pair.base, pair.head))


def main(scenario: str, count: int) -> None:
    """Print and keep each check's outcome."""
    torch.set_num_threads(1)
    kept: dict[str, list[dict[str, object]]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    edits = tuple(refactors()) if scenario == "refactors" else EDITS.get(scenario, (None,))
    size = 1 if scenario == "refactors" else PER_PROCESS
    for batch in range(count // size):
        edit = edits[batch % len(edits)]
        with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
            trees: dict[Side, Path] = {"base": Path(scratch) / "base", "head": Path(scratch) / "head"}
            for tree in trees.values():
                copy_tree(tree)
            if edit is not None:
                stack.enter_context(edited(edit, trees["head"]))
            stack.enter_context(load((os.cpu_count() or 1) if scenario == "loaded" else 0))
            for found in checks(trees, Path(scratch), size, 8 if scenario == "memory" else 40):
                kept.setdefault(scenario, []).append({"planted": edit.name if edit else "nothing"} | found)
                RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
                print(scenario, json.dumps(kept[scenario][-1]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20)
