"""The two learned rewards of R1's last stage, from preference data: what they are shown, and how good they are.

Helpfulness: pairs, read by their final summary only, with as many longer as shorter answers preferred, so that length
alone earns nothing. Safety: answers one by one, read whole.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from bench.config import RewardModelConfig
from bench.engines.reward import ClassifierReward
from bench.pipeline.reward_model import Pair, RewardTraining, pair_accuracy, train_reward_model, train_safety_model
from bench.reward import Route
from bench.rollout import Sample
from tasks import preferences
from tasks.answers import answer_part
from tasks.core import Split
from tasks.dataset import carve_validation
from tasks.helpful import Helpful
from tasks.preferences import Labelled

BINS = 10
READS: dict[str, Literal["summary", "completion"]] = {"helpful": "summary", "harmful": "completion"}
"""The kind of prompt that each reward is for, and what it reads of an answer."""


def pairs_of_task(path: Path | None, split: Split) -> list[preferences.Pair]:
    """Our own preference pairs, or those of a folder of train.jsonl and test.jsonl, as the task `helpful` splits them.

    Raises:
        DataError: a row that cannot be used, with file and line.
    """
    if path is None:
        made = Helpful().procedural(split)
        return [preferences.read_pair(row, f"helpful:procedural[{i}]") for i, row in enumerate(made)]
    found = preferences.pairs_at(path / ("test.jsonl" if split == "test" else "train.jsonl"))
    return found if split == "test" else [p for p in found if carve_validation(p.prompt) == (split == "validation")]


def helpful_pairs(pairs: Sequence[preferences.Pair]) -> list[Pair]:
    """What the helpfulness model is trained on: summaries of answers to harmless prompts."""
    return [
        Pair(prompt=p.prompt, better=answer_part(p.chosen), worse=answer_part(p.rejected))
        for p in pairs
        if p.kind == "helpful"
    ]


def balanced(pairs: Sequence[Pair], seed: int) -> list[Pair]:
    """As many pairs whose better answer is the longer as pairs whose better answer is the shorter, and all equal ones.

    What is left out is drawn by the seed; the order stays.
    """
    rising = [sign(pair) for pair in pairs]
    rooms = {side: min(rising.count(1), rising.count(-1)) for side in (1, -1)}
    order = random.Random(f"balance/{seed}").sample(range(len(pairs)), len(pairs))
    chosen: set[int] = set()
    for i in order:
        side = rising[i]
        if side == 0 or rooms[side] > 0:
            chosen.add(i)
            if side:
                rooms[side] -= 1
    return [pair for i, pair in enumerate(pairs) if i in chosen]


def sign(pair: Pair) -> int:
    """1 where the better answer has more words, -1 where it has fewer, 0 where as many."""
    difference = len(pair.better.split()) - len(pair.worse.split())
    return (difference > 0) - (difference < 0)


def length_bias(pairs: Sequence[Pair]) -> dict[str, float]:
    """How far length alone tells which answer is better."""
    longer = [sign(pair) for pair in pairs if sign(pair)]
    gap = preferences.mean_words([p.better for p in pairs]) - preferences.mean_words([p.worse for p in pairs])
    return {
        "num_pairs": float(len(pairs)),
        "longer_is_better_frac": sum(side > 0 for side in longer) / max(1, len(longer)),
        "words_better_less_worse": gap,
    }


def calibration_error(differences: Sequence[float]) -> float:
    """Expected calibration error of `sigmoid(better - worse)`, by confidence in BINS bins of [0.5, 1]."""
    shown = torch.sigmoid(torch.tensor(differences)).double()
    confidence, right = torch.maximum(shown, 1 - shown), (shown > 0.5).double()
    bins = ((confidence - 0.5) * 2 * BINS).long().clamp(max=BINS - 1)
    total = 0.0
    for b in bins.unique():
        here = bins == b
        total += float(here.double().mean() * (right[here].mean() - confidence[here].mean()).abs())
    return total


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A learned reward: its folder, the scale of its scores, and its held-out figures."""

    kind: str  # of prompt, which it is for
    path: Path
    mean: float
    std: float
    facts: dict[str, Any]

    @property
    def settings(self) -> RewardModelConfig:
        """As a run is given it: beside the task's own reward, on a scale of mean 0 and spread 1."""
        return RewardModelConfig(
            path=str(self.path),
            kinds=(self.kind,),
            reads=READS[self.kind],
            rules_weight=1.0,
            mean=self.mean,
            std=self.std,
        )

    def scores(self, samples: Sequence[Sample]) -> Tensor:
        """(B,) of completions, as a run would read them; none for none."""
        route = Route(engine_at(self.path), self.settings)
        return route.engine.score([route.read(sample) for sample in samples]) if samples else torch.zeros(0)


def engine_at(path: Path) -> ClassifierReward:
    """A learned reward that is asked outside of a run."""
    return ClassifierReward(str(path), torch.device("cpu"), "float32", 4096)


def helpfulness(
    location: str, pairs: Sequence[preferences.Pair], held: Sequence[preferences.Pair], out: Path, train: RewardTraining
) -> Judged:
    """Train on the balanced pairs, and measure on `held` ones."""
    plain, tested = helpful_pairs(pairs), helpful_pairs(held)
    shown = balanced(plain, train.seed)
    train_reward_model(location, shown, out, train)
    engine = engine_at(out)
    better, worse = (engine.score([(p.prompt, getattr(p, side)) for p in tested]) for side in ("better", "worse"))
    both = torch.cat([better, worse])
    words = torch.tensor(
        [float(len(text.split())) for side in ("better", "worse") for text in [getattr(p, side) for p in tested]]
    )
    facts = {
        "accuracy": pair_accuracy(engine, tested),
        "calibration_error": calibration_error((better - worse).tolist()),
        "num_held_out": len(tested),
        "length_bias_before": length_bias(plain),
        "length_bias_after": length_bias(shown),
        "score_length_correlation": float(torch.corrcoef(torch.stack([both, words]))[0, 1]),
    }
    return Judged(kind="helpful", path=out, mean=float(both.mean()), std=max(float(both.std()), 1e-3), facts=facts)


def safety(
    location: str, rows: Sequence[Labelled], held: Sequence[Labelled], out: Path, train: RewardTraining
) -> Judged:
    """Train pointwise, and measure on `held` answers."""
    train_safety_model(location, rows, out, train)
    engine = engine_at(out)
    scores = engine.score([(row.prompt, row.answer) for row in held])
    safe = torch.tensor([row.safe for row in held])
    right = (scores > 0) == safe
    facts = {
        "accuracy": float(right.float().mean()),
        "accuracy_on_unsafe": float(right[~safe].float().mean()) if (~safe).any() else None,
        "calibration_error": calibration_error(torch.where(safe, scores, -scores).tolist()),
        "num_held_out": len(held),
    }
    return Judged(kind="harmful", path=out, mean=float(scores.mean()), std=max(float(scores.std()), 1e-3), facts=facts)
