"""How often each verdict comes out, where the truth is known: python -m tests.campaigns.verdict_rates [STUDIES]

Three primary contrasts a study (one real effect, two null ones), the spreads of the committed study: 1.4 points over
seeds, 500 problems of 8 samples that differ by 8 points in how much the methods differ on them. Margin: 1 point.
"""

import sys
from collections import Counter

import numpy as np

from bench.contrast import crossed, independent
from bench.verdicts import verdicts

SEEDS, PROBLEMS, CELL = 0.014, 0.08, 0.16
NUM_PROBLEMS, MARGIN = 500, 0.01


def outcomes(draw: np.random.Generator, num_seeds: int, effect: float, shared: float) -> tuple[np.ndarray, np.ndarray]:
    """(S, P) of two arms; `shared` is the part of the variance over seeds that both have in common."""
    common = draw.normal(0, SEEDS * shared**0.5, (num_seeds, 1))
    own = draw.normal(0, SEEDS * (1 - shared) ** 0.5, (2, num_seeds, 1))
    problems = draw.normal(0, PROBLEMS, NUM_PROBLEMS)
    cells = draw.normal(0, CELL, (2, num_seeds, NUM_PROBLEMS))
    return common + own[0] + problems + cells[0] + effect, common + own[1] + cells[1]


def main(num_studies: int) -> None:
    """A row for each effect, number of seeds and design."""
    draw = np.random.default_rng(0)
    print("| effect, points | seeds | design | better | worse | equivalent | undecided | any false verdict |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, contrast, shared in (("paired", crossed, 0.7), ("independent", independent, 0.0)):
        for num_seeds in (5, 10, 20):
            for effect in (0.0, 0.01, 0.02, 0.04):
                words, wrong = Counter[str](), 0
                for _ in range(num_studies):
                    effects = (effect, 0.0, 0.0)
                    found = verdicts([contrast(*outcomes(draw, num_seeds, e, shared)) for e in effects], MARGIN)
                    words[found[0].word] += 1
                    false = [v.word in ("better", "worse") for v, e in zip(found, effects, strict=True) if e == 0]
                    wrong += any(false) or (effect >= MARGIN and found[0].word == "equivalent")
                shares = [words[w] / num_studies for w in ("better", "worse", "equivalent", "undecided")]
                cells = " | ".join(f"{share:.1%}" for share in (*shares, wrong / num_studies))
                print(f"| {100 * effect:g} | {num_seeds} | {name} | {cells} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
