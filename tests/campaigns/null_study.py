"""False findings on real runs: `python -m tests.campaigns.null_study RUNS [N] [PAIRS]`.

Takes the finished runs of one arm below RUNS (40 or more, each under its own seed), draws PAIRS times two disjoint sets
of N of them, compares the two as `bench report` compares arms on different seeds, and counts how many are called
different. At a level of 5% and 200 pairs, 10 are expected and more than 16 are unlikely (2%).
"""

import random
import sys
import tempfile
from pathlib import Path

from bench.ground.runs import find_runs
from bench.report.comparison import comparisons_in
from bench.report.records import load
from bench.report.results import ALPHA, verdict
from bench.stats import unpaired


def main(folder: str, n: int = 5, num_pairs: int = 200) -> None:
    """Print the count and an example of the words."""
    with tempfile.TemporaryDirectory() as cache:
        records = load(find_runs([Path(folder)]), Path(cache))
    (setting,) = comparisons_in(records)
    (arm,) = setting.arms
    values = list(arm.values("final_accuracy").values())
    draw = random.Random(0)
    found = 0
    for _ in range(num_pairs):
        drawn = draw.sample(values, 2 * n)
        difference = unpaired(drawn[:n], drawn[n:])
        found += (difference.p or 0) < ALPHA
    print(
        f"{setting.label}, {arm.name}: {len(values)} runs, {num_pairs} pairs of {n} and {n}: {found} called different"
    )
    print("the last:", verdict("a", "b", difference, difference.p))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
