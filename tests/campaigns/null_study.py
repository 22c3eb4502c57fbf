"""False findings on real runs: `python -m tests.campaigns.null_study RUNS [PAIRS] [MARGIN_POINTS]`.

Takes the finished runs of one arm below RUNS (40 or more, each of its own seed), draws PAIRS times (200) two disjoint
sets of them, judges the two sets as `bench report` judges arms on different seeds (sampled accuracy, seeds and problems
as sources of error, margin 1.5 points), and counts the verdicts. There is no difference to be found: at a level of 5%
and 200 pairs 10 are expected to be called better or worse, and more than 16 are unlikely (2%). The runs are made by

    python -m bench compare --arms grpo --seeds 40 --budget samples=896 --name null40 \
      --set samples-per-step=64 optimizer.lr=6e-4 eval.limit=200
"""

import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from bench.contrast import independent
from bench.ground.runs import find_runs
from bench.report.comparison import comparisons_in
from bench.report.outcomes import SAMPLED, cells_of
from bench.report.records import load
from bench.verdicts import verdicts

SIZES = (5, 10, 20)


def main(folder: str, num_pairs: int = 200, margin: float = 1.5) -> int:
    """A row for each size of the sets; 1 when more are called different than chance explains."""
    with tempfile.TemporaryDirectory() as cache:
        records = load(find_runs([Path(folder)]), Path(cache))
    (setting,) = comparisons_in(records)
    (arm,) = setting.arms
    seeds = sorted(arm.values(f"final_{SAMPLED}"))
    cells = cells_of(setting, records, arm, SAMPLED, seeds)
    assert cells is not None, "verdicts by problem were not kept"
    outcomes, draw, most = cells.to_numpy(float), random.Random(0), 0
    print(f"{setting.label}, {arm.name}: {len(seeds)} runs, {outcomes.shape[1]} problems, {num_pairs} pairs each")
    for size in SIZES:
        words = Counter[str]()
        for _ in range(num_pairs):
            drawn = draw.sample(range(len(seeds)), 2 * size)
            (verdict,) = verdicts([independent(outcomes[drawn[:size]], outcomes[drawn[size:]])], margin / 100)
            words[verdict.word] += 1
        different = words["better"] + words["worse"]
        most = max(most, different)
        print(f"{size} and {size}: {different} called different, {words['equivalent']} equivalent, of {num_pairs}")
    return int(most > 16 / 200 * num_pairs)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], *map(int, sys.argv[2:])))
