"""Training on given completions: batches, the harness's own update, validation, early stop, records, resume."""

import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from algorithms.core import Algorithm, Batch, Scored
from bench.batch import Sequences, pad_columns
from bench.config import CriticConfig, EngineConfig, OptimizerConfig, RunConfig, Sampling
from bench.engines.build import train_engine
from bench.models.load import latest_checkpoint, load_model, load_tokenizer, pick_device
from bench.models.text import encode_prompt
from bench.pipeline.methods import PairPreference, dpo_loss
from bench.ranks import ALONE
from bench.rollout import generator
from bench.session.checkpoint import best_folder
from bench.session.record import Recorder
from bench.train import Learner, Schedule, Update

MICRO_BATCH_TOKENS = 4096


@dataclass(frozen=True, kw_only=True)
class Fit:
    """How given completions are learnt."""

    lr: float = 1e-3
    """Peak learning rate; it rises over `warmup` of the updates and falls by a cosine to a tenth."""
    batch_size: int = 64
    """Rows of an update; of DPO, a pair is two."""
    num_updates: int = 40
    """Most updates that are made."""
    warmup: float = 0.05
    """Share of the updates over which the rate rises."""
    validate_every: int = 8
    """Updates between two looks at the validation loss, and between two checkpoints."""
    patience: int = 3
    """Looks without a new best after which training stops; the best weights are the result."""
    micro_batch_tokens: int = MICRO_BATCH_TOKENS
    """Most padded tokens of one pass; rows of like length go together."""

    def rate(self, update: int) -> float:
        """The learning rate of an update, counted from 0."""
        rising = min(1.0, (update + 1) / max(1.0, self.warmup * self.num_updates))
        falling = 0.55 + 0.45 * math.cos(math.pi * update / self.num_updates)
        return self.lr * rising * falling


def encoded(location: str, rows: Sequence[tuple[str, str]]) -> Sequences:
    """Prompts in the chat template and completions with their end token, as ids.

    Args:
        location: of the model, whose tokenizer is used.
        rows: prompt and completion.
    """
    tokenizer = load_tokenizer(location)
    prompts = [encode_prompt(tokenizer, prompt) for prompt, _ in rows]
    texts = [text + str(tokenizer.eos_token) for _, text in rows]
    answers = [cast("list[int]", tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts]
    return Sequences(
        rows=[torch.tensor(p + a) for p, a in zip(prompts, answers, strict=True)],
        prompt_lengths=torch.tensor([len(p) for p in prompts]),
        lengths=torch.tensor([len(a) for a in answers]),
    )


class Trainee:
    """A model that learns from given completions by the harness's update."""

    def __init__(self, location: str, algorithm: Algorithm, settings: Fit, where: EngineConfig) -> None:
        self.algorithm, self.settings = algorithm, settings
        model = cast("Any", load_model(location)).to(pick_device(where.device))
        config = RunConfig(
            algo=algorithm,
            task=cast("Any", None),  # nothing is asked and nothing judged
            sampling=Sampling(),
            optimizer=OptimizerConfig(lr=settings.lr),
            engine=where,
        )
        self.engine = train_engine(config, model, load_tokenizer(location), ALONE)
        self.learner = Learner(engine=self.engine, micro_batch_tokens=settings.micro_batch_tokens)

    def batch(self, rows: Sequences) -> Batch:
        """The rows as the method sees them; passes are made only for what it needs."""
        count, blank = len(rows), pad_columns([[0.0] * int(n) for n in rows.lengths])
        scores: dict[str, Any] = {
            "rewards": torch.zeros(count),
            "correct": torch.ones(count, dtype=torch.bool),
            "group": torch.arange(count) // self.algorithm.group_size,
            "truncated": torch.zeros(count, dtype=torch.bool),
            "lengths": rows.lengths,
            "max_new_tokens": int(rows.lengths.max()),
        }
        if not self.algorithm.needs:
            return Batch(**scores, mask=rows.mask, old_logprobs=blank, rollout_logprobs=blank)
        return self.learner.annotate(self.algorithm, rows, Scored(**scores), blank)

    def update(self, rows: Sequences, number: int) -> dict[str, float]:
        """One update by these rows; returns its metrics."""
        batch = self.batch(rows)
        update = Update(
            learner=self.learner,
            algorithm=self.algorithm,
            sequences=rows,
            batch=batch,
            targets=self.algorithm.targets(batch),
        )
        plan = Schedule(
            policy_lr=self.settings.rate(number), critic=CriticConfig(), critic_lr=0.0, generator=generator(number)
        )
        metrics, _ = update.make(plan)
        return metrics | self.of_pairs(batch)

    def of_pairs(self, batch: Batch) -> dict[str, float]:
        """The pair loss and how many pairs are ranked right, where the method is one of pairs."""
        if not isinstance(self.algorithm, PairPreference):
            return {}
        margins = self.algorithm.margins(batch)
        return {
            "dpo/loss": float(dpo_loss(margins).mean()),
            "dpo/margin": float(margins.mean()),
            "dpo/accuracy": float((margins > 0).float().mean()),
        }

    @torch.no_grad()
    def loss(self, rows: Sequences) -> float:
        """What is minimised, on rows that are not learnt: a mean over tokens, or over pairs."""
        if self.algorithm.needs:
            return self.of_pairs(self.batch(rows))["dpo/loss"]
        total, count = 0.0, int(rows.lengths.sum())
        for part, counts in self.learner.shared_out(rows, torch.arange(len(rows))):
            total -= float((counts * self.engine.logprobs(rows.pad(part))).sum())
        return total / count


@dataclass(kw_only=True)
class Progress:
    """Where training stands; a checkpoint holds it."""

    update: int = 0
    best_loss: float | None = None
    best_update: int | None = None
    looks_since: int = 0


def rows_of(data: Sequences, rows: Tensor) -> Sequences:
    """These rows alone."""
    return Sequences(
        rows=[data.rows[i] for i in rows.tolist()], prompt_lengths=data.prompt_lengths[rows], lengths=data.lengths[rows]
    )


def batch_rows(count: int, size: int, unit: int, seed: int, number: int) -> Tensor:
    """Rows of update `number`: each pass over the data is a fresh shuffle, of which groups of `unit` stay together."""
    groups = count // unit
    per_epoch = max(1, groups * unit // size)
    epoch, index = divmod(number, per_epoch)
    order = torch.randperm(groups, generator=generator(seed, "given", epoch))
    chosen = order[index * size // unit : (index + 1) * size // unit]
    return (chosen[:, None] * unit + torch.arange(unit)).flatten()


def fit(
    trainee: Trainee,
    train: Sequences,
    validation: Sequences,
    recorder: Recorder,
    seed: int,
    stopped: Callable[[], bool] = lambda: False,
) -> Path | None:
    """Train to the end or the early stop, from the last checkpoint where there is one.

    Args:
        trainee: who learns.
        train: what is learnt.
        validation: what the early stop looks at.
        recorder: of the folder, in which `steps.jsonl`, `evals.jsonl` and the result `model/` are written.
        seed: of the order.
        stopped: asked after each update; a checkpoint is written before training ends early by it.

    Returns:
        The folder of the best weights; None where it was stopped.
    """
    settings, state = trainee.settings, taken_up(trainee, recorder)
    while state.update < settings.num_updates and state.looks_since < settings.patience:
        if state.update == 0 and state.best_update is None:
            look(trainee, validation, recorder, state)
        rows = batch_rows(len(train), settings.batch_size, trainee.algorithm.group_size, seed, state.update)
        metrics = trainee.update(rows_of(train, rows), state.update)
        state.update += 1
        recorder.write("steps", {"step": state.update, "lr": settings.rate(state.update - 1), **metrics})
        ending = state.update == settings.num_updates
        if ending or state.update % settings.validate_every == 0:
            look(trainee, validation, recorder, state)
            save(trainee, recorder, state)
        if stopped() and not ending:
            save(trainee, recorder, state)
            return None
    return best_weights(recorder, state)


def best_weights(recorder: Recorder, state: Progress) -> Path:
    """The best weights as `model/`, in the place of the checkpoints."""
    assert state.best_update is not None
    model = recorder.path / "model"
    shutil.rmtree(model, ignore_errors=True)
    shutil.copytree(recorder.path / "checkpoint" / best_folder(state.best_update), model)
    shutil.rmtree(recorder.path / "checkpoint")
    return model


def look(trainee: Trainee, validation: Sequences, recorder: Recorder, state: Progress) -> None:
    """Take the validation loss, and keep the weights where it is the best."""
    loss = trainee.loss(validation)
    recorder.write("evals", {"step": state.update, "split": "validation", "loss": loss})
    state.looks_since += 1
    if state.best_loss is None or loss < state.best_loss:
        state.best_loss, state.best_update, state.looks_since = loss, state.update, 0
        folder = recorder.path / "checkpoint" / best_folder(state.update)
        shutil.rmtree(folder, ignore_errors=True)
        trainee.engine.save_model(folder)


def save(trainee: Trainee, recorder: Recorder, state: Progress) -> None:
    """A checkpoint from which training goes on exactly."""
    counts = recorder.counts()

    def content(folder: Path) -> None:
        trainee.engine.save_state(folder / "trainer")
        torch.save({"progress": vars(state), "counts": counts}, folder / "state.pt")

    recorder.checkpoint(state.update, content, keep=best_folder(state.best_update or 0))


def taken_up(trainee: Trainee, recorder: Recorder) -> Progress:
    """The state of the last checkpoint, or of the beginning; what was recorded after it is dropped."""
    if not list((recorder.path / "checkpoint").glob("step-*[0-9]")):
        recorder.rewind(None)
        return Progress()
    folder = latest_checkpoint(recorder.path)
    content = torch.load(folder / "state.pt", weights_only=True)
    trainee.engine.load_state(folder / "trainer")
    recorder.rewind(content["counts"])
    return Progress(**content["progress"])
