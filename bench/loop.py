"""The loop, top to bottom: tasks -> rollout -> scoring -> targets -> update -> record."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from algorithms.core import Algorithm
from bench.batch import pad_columns, scored, sequences
from bench.gather import gather
from bench.ground.budget import Budget
from bench.ground.words import COUNTERS, FLOPS, STEP_PHASES
from bench.meter import Phase
from bench.metrics import (
    advantage_metrics,
    batch_metrics,
    behaviour_metrics,
    critic_metrics,
    rollout_metrics,
    selection_metrics,
)
from bench.parts import Parts, State
from bench.proof import agree
from bench.rates import schedule
from bench.rollout import Rollout
from bench.sync import hand_over, renewal
from bench.train import Learner, Update
from bench.work import Held, Work, memory_row, scoring_work

# raised when the loop, the trainer or a metric begins to compute something else: goldens are stored under it
LOOP_VERSION = 2  # 2: a problem drawn again in a step is a group of its own, with samples of its own


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step's row, and the completions behind it."""

    row: dict[str, Any]
    rollouts: Sequence[Rollout]


def at_start(algorithm: Algorithm, work: Work) -> State:
    """Before the first step: everything that will be counted stands at 0."""
    counted = (*COUNTERS, FLOPS) if work.shape is not None else COUNTERS
    return State(algorithm=algorithm, counters=dict.fromkeys(counted, 0.0))


def train(parts: Parts, state: State) -> Iterator[Step]:
    """Steps until the budget is used up. `state` is up to date whenever a step is yielded.

    Raises:
        DivergedError: a loss or gradient was not finite; the update was not applied.
        EngineError: an engine's process has ended, or the sampler generates from other weights than it was given.
        NoSignalError: no group was kept.
    """
    while (progress := used(parts.config.parsed_budget, state)) < 1:
        yield one_step(parts, state, progress)


def used(budget: Budget, state: State) -> float:
    """Share of the budget behind us."""
    return budget.fraction(state.step, state.counters)


def one_step(parts: Parts, state: State, progress: float) -> Step:
    """Roll out, score, assign credit, update; then account for it."""
    start = time.perf_counter()
    config, meter, algorithm = parts.config, parts.meter, state.algorithm
    with meter.phase("sync"):
        hand_over(parts.sampler, parts.trainer, state.past, parts.problems, config, state.step)
    gathered = gather(parts, state)
    rollouts, kept = gathered.everything, gathered.kept
    with meter.phase("sync"):
        parts.sampler.sleep()

    plain = scored(kept, config.sampling.generation_budget)
    scores = replace(plain, rewards=algorithm.shape_rewards(plain))
    tokens = sequences(kept, sharing=parts.trainer.shares_prompts)
    learner = Learner(engine=parts.trainer, micro_batch_tokens=config.engine.tokens_at_once, ranks=parts.ranks)
    with meter.phase("logprobs"):
        batch = learner.annotate(algorithm, tokens, scores, pad_columns([r.completion.logprobs for r in kept]))
    if parts.sampler.weights_bytes and not config.rollout_lag:
        agree(batch.old_logprobs, batch.rollout_logprobs, batch.mask, config.engine)
    with meter.phase("update"):
        samples = state.counters["data/samples_generated"]
        planned = schedule(config, algorithm, state.step, samples, progress)
        targets = algorithm.targets(batch)
        update = Update(learner=learner, algorithm=algorithm, sequences=tokens, batch=batch, targets=targets)
        updated, num_updates = update.make(planned)
        renewed = renewal(parts.trainer, config.reference_updates, state.counters["data/updates"], num_updates)
    state.algorithm = algorithm.adapt({name.removeprefix("actor/"): value for name, value in updated.items()})
    state.step += 1
    row = {"step": state.step} | rollout_metrics(rollouts, algorithm.group_size) | batch_metrics(batch, kept)
    row["reward/shaped_frac"] = float((scores.rewards != plain.rewards).float().mean())
    row["data/discarded_signal_frac"] = (gathered.num_kept - len(kept)) / len(rollouts)
    row |= selection_metrics(rollouts, kept)
    row |= behaviour_metrics(config.task, rollouts) | advantage_metrics(batch, targets)
    row |= critic_metrics(batch, targets) | renewed | updated
    done = parts.work.step(
        rollouts, kept, algorithm, config, scoring_work(parts.rewards, parts.ranks), policy_updated=num_updates > 0
    )
    work = parts.work.less(done, parts.ranks.sum({k: float(v) for k, v in parts.trainer.take_spared().items()}))
    made = Made(algorithm=algorithm, rollouts=rollouts, kept=kept, num_updates=num_updates, work=work)
    return Step(row=row | account(parts, state, made, start), rollouts=rollouts)


@dataclass(frozen=True, kw_only=True)
class Made:
    """What one step made, for its account."""

    algorithm: Algorithm  # the one that the step was made by
    rollouts: Sequence[Rollout]
    kept: Sequence[Rollout]
    num_updates: int  # of the policy
    work: dict[Phase, int]  # operations by phase; nothing where they are not counted


def account(parts: Parts, state: State, made: Made, start: float) -> dict[str, Any]:
    """The step's times, memory and rates, and all counters, to which the step is added.

    Args:
        parts: what the run is made of; its clocks and memory are read.
        state: holds the counters.
        made: by the step.
        start: of the step, in seconds of `time.perf_counter`.
    """
    ranks = parts.ranks
    measured = parts.meter.take() | parts.trainer.clock.take()
    measured["time/step_s"] = time.perf_counter() - start
    measured = ranks.of_leader(measured) | ranks.largest({k: v for k, v in measured.items() if k.startswith("memory/")})
    measured["time/other_s"] = measured["time/step_s"] - sum(
        measured.get(f"time/{phase}_s", 0.0) for phase in STEP_PHASES
    )
    generated, trained = (sum(len(r.completion.token_ids) for r in part) for part in (made.rollouts, made.kept))
    state.count(
        {
            "data/prompts": len(made.rollouts) / made.algorithm.group_size,
            "data/samples_generated": len(made.rollouts),
            "data/samples_trained": len(made.kept),
            "data/tokens_generated": generated,
            "data/tokens_trained": trained,
            "data/updates": made.num_updates,
            "cost/device_s": measured["time/step_s"] * ranks.size,
        }
        | ({FLOPS: sum(made.work.values())} if made.work else {})
    )
    rates = parts.work.rates(measured, generated, trained, made.work)
    return measured | memory_row(held(parts), measured, ranks) | rates | state.counters


def held(parts: Parts) -> Held:
    """What the engines hold now, on this rank."""
    sampler, roles = parts.sampler, parts.trainer.memory() | {"kv_cache": parts.sampler.cache_bytes}
    if sampler.weights_bytes:
        roles["rollout_weights"] = sampler.weights_bytes
    if parts.rewards:
        roles["reward_model"] = sum(route.engine.memory() for route in parts.rewards)
    return Held(roles=roles, asleep=sampler.weights_bytes + sampler.cache_bytes - sampler.resting_bytes)
