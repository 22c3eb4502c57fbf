"""Tier 3 on unchanged code: `python -m tests.campaigns.gate.false_alarms RUNS [CHECKS]`, kept in false_alarms.json.

From 40 or more real runs of one arm, each under its own seed, every check draws a head and a base without common runs,
and goes through the looks of `bench check` until it is decided. At most 16 of 200 may be red.
"""

import json
import random
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bench.gate.accuracy import Results, read_runs
from bench.gate.tolerances import DEFAULTS
from bench.gate.training import check_accuracy
from bench.gate.verdict import look_sizes

RESULTS = Path(__file__).with_name("false_alarms.json")
SIZES = look_sizes(4, 12)


@dataclass(kw_only=True)
class Drawn:
    """Recorded runs in a drawn order."""

    subject: str
    whole: Results
    seeds: list[int]

    def results(self, count: int) -> Results:
        """The first so many."""
        return replace(self.whole, accuracy={seed: self.whole.accuracy[seed] for seed in self.seeds[:count]})


def verdicts(subject: str, whole: Results, checks: int, worse_by: float = 0.0) -> Counter[str]:
    """Of so many checks, the head's accuracies lowered by `worse_by`."""
    draw, most = random.Random(0), SIZES[-1]
    lower = replace(whole, accuracy={seed: value - worse_by for seed, value in whole.accuracy.items()})
    found: Counter[str] = Counter()
    for _ in range(checks):
        seeds = draw.sample(sorted(whole.accuracy), 2 * most)
        head = Drawn(subject=subject, whole=lower, seeds=seeds[:most])
        base = Drawn(subject=subject, whole=whole, seeds=seeds[most:])
        found[check_accuracy(head, base, DEFAULTS["accuracy"], SIZES, lambda line: None).status] += 1
    return found


def main(folder: Path, checks: int) -> None:
    """Print and keep the counts; as a control, those of a head that is ten points worse."""
    ((subject, whole),) = read_runs(folder).items()
    values = list(whole.accuracy.values())
    kept = {
        "runs": len(values),
        "accuracy": {"mean": round(float(np.mean(values)), 4), "sd": round(float(np.std(values, ddof=1)), 4)},
        "checks": checks,
        "unchanged": dict(verdicts(subject, whole, checks)),
        "ten points worse": dict(verdicts(subject, whole, checks, 0.1)),
    }
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    print(json.dumps(kept))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 200)
