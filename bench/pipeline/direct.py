"""DPO in the place of RL with preferences: pairs of the model's own answers, ranked by the learned rewards."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.config import EngineConfig, Sampling
from bench.ground.files import read_rows
from bench.ground.tree import Tree
from bench.pipeline.examples import split_prompts
from bench.pipeline.judges import Judged
from bench.pipeline.measure import sampler
from bench.pipeline.methods import PairPreference
from bench.pipeline.supervised import Fit, Trainee, encoded, fit
from bench.pipeline.workshop import StageError, StoppedError
from bench.rollout import Sample, generate
from bench.session.console import Interrupt
from bench.session.record import Recorder
from tasks.core import Problem

GROUP = 8  # completions of a prompt, of which the best and the worst make its pair


@dataclass(frozen=True, kw_only=True)
class Direct:
    """What DPO starts from and is given."""

    location: str
    problems: Sequence[Problem]  # general prompts, each with its kind
    judges: Mapping[str, Judged]  # by the kind of prompt
    sampling: Sampling
    settings: Fit
    seed: int


def preferred(wanted: Direct) -> list[dict[str, str]]:
    """A pair for each prompt whose answers differ in score: the best and the worst, in the official format."""
    engine = sampler(wanted.location, wanted.problems, wanted.sampling.generation_budget)
    samples = generate(engine, wanted.problems, GROUP, wanted.sampling, ("direct", wanted.seed))
    scores = learned_scores(samples, wanted.judges)
    rows: list[dict[str, str]] = []
    for i, problem in enumerate(wanted.problems):
        group = range(i * GROUP, (i + 1) * GROUP)
        best, worst = max(group, key=lambda j: scores[j]), min(group, key=lambda j: scores[j])
        texts = [samples[j].completion.text for j in (best, worst)]
        if scores[best] > scores[worst] and texts[0] != texts[1]:
            rows.append({"prompt": problem.prompt, "chosen": texts[0], "rejected": texts[1], **dict(problem.meta)})
    return rows


def learned_scores(samples: Sequence[Sample], judges: Mapping[str, Judged]) -> list[float]:
    """Each completion's score by the model of its prompt's kind."""
    scores = [0.0] * len(samples)
    for kind, judged in judges.items():
        mine = [i for i, sample in enumerate(samples) if sample.problem.meta["kind"] == kind]
        for i, value in zip(mine, judged.scores([samples[i] for i in mine]).tolist(), strict=True):
            scores[i] = value
    return scores


def direct(folder: Path, wanted: Direct) -> Tree:
    """Sample, rank, and train by DPO against the model that was sampled.

    Raises:
        StageError: no prompt's answers differ in score.
        StoppedError: as asked.
    """
    file = folder / "pairs.jsonl"
    if not file.exists():
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in preferred(wanted))
        file.with_suffix(".partial").write_text(text)
        file.with_suffix(".partial").replace(file)
    rows = read_rows(file)
    if len(rows) < 2:
        raise StageError(f"{len(rows)} of {len(wanted.problems)} prompts have answers that differ in score: no pairs")
    train, held = split_prompts(rows, lambda row: str(row["prompt"]))
    where = EngineConfig(dtype="float32", train="torch", zero=0)
    trainee, recorder = Trainee(wanted.location, PairPreference(), wanted.settings, where), Recorder(folder)
    with recorder.alone(), Interrupt() as interrupt:
        rows_train, rows_held = (encoded(wanted.location, texts_of(part)) for part in (train, held))
        ended = fit(trainee, rows_train, rows_held, recorder, wanted.seed, lambda: interrupt.asked)
        recorder.close({"status": "finished" if ended else "interrupted"})
    if ended is None:
        raise StoppedError
    steps = recorder.rows("steps")
    return {
        "num_pairs": len(rows),
        "samples_generated": GROUP * len(wanted.problems),
        "updates": len(steps),
        "dpo": {name: steps[-1][name] for name in ("dpo/loss", "dpo/margin", "dpo/accuracy")},
        "memory_gib": {f"memory/{role}_gib": size / 2**30 for role, size in trainee.engine.memory().items()},
    }


def texts_of(rows: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Chosen and rejected by turns, each with its prompt."""
    return [(str(row["prompt"]), str(row[side])) for row in rows for side in ("chosen", "rejected")]
