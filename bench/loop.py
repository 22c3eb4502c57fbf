"""The loop, top to bottom: tasks -> rollout -> scoring -> targets -> update -> record."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from algorithms.core import Algorithm, Scored
from bench.batch import pad_columns, scored, sequences
from bench.config import RunConfig
from bench.ground.budget import Budget
from bench.ground.words import COUNTERS, FLOPS, STEP_PHASES
from bench.meter import Meter
from bench.metrics import advantage_metrics, batch_metrics, critic_metrics, rollout_metrics
from bench.ranks import ALONE, Ranks
from bench.reward import RewardEngine, rewarded
from bench.rollout import ProblemStream, Rollout, RolloutEngine, generate, generator, score
from bench.sync import Snapshot, agree, hand_over
from bench.train import LearningRates, annotate, update
from bench.trainer import TrainEngine
from bench.work import Held, Work, memory_row, scoring_work
from tasks.core import Problem, Task

# raised when the loop, the trainer or a metric begins to compute something else: goldens are stored under it
LOOP_VERSION = 1


class NoSignalError(Exception):
    """The algorithm kept no group within its rounds: there is nothing to learn from."""


@dataclass(kw_only=True)
class State:
    """All of the loop that changes from step to step, beside the engine's own state. A checkpoint holds it."""

    algorithm: Algorithm
    step: int = 0
    position: int = 0  # in the prompt stream
    counters: dict[str, float]  # what is not counted has no key
    past: list[Snapshot] = field(default_factory=list[Snapshot])  # weights yet to generate from, where rollouts lag

    def count(self, amounts: Mapping[str, float]) -> None:
        """Add to the counters."""
        for name, amount in amounts.items():
            self.counters[name] += amount


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a run is made of."""

    config: RunConfig
    task: Task
    problems: Sequence[Problem]
    rollout: RolloutEngine
    trainer: TrainEngine
    meter: Meter
    work: Work
    reward: RewardEngine | None = None
    ranks: Ranks = ALONE


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
    config, meter, algorithm, ranks = parts.config, parts.meter, state.algorithm, parts.ranks
    with meter.phase("sync"):
        hand_over(parts.rollout, parts.trainer, state.past, parts.problems, config, state.step)
    rollouts, kept = gather(parts, state)
    with meter.phase("sync"):
        parts.rollout.sleep()

    scores = scored(kept, config.sampling.generation_budget)
    scores = replace(scores, rewards=algorithm.shape_rewards(scores))
    tokens = sequences(kept)
    with meter.phase("logprobs"):
        batch = annotate(
            parts.trainer,
            algorithm,
            tokens,
            scores,
            pad_columns([r.completion.logprobs for r in kept]),
            config.engine.tokens_at_once,
            ranks,
        )
    if parts.rollout.weights_bytes and not config.rollout_lag:
        agree(batch.old_logprobs, batch.rollout_logprobs, batch.mask, config)
    with meter.phase("update"):
        targets = algorithm.targets(batch)
        updated, num_updates = update(
            parts.trainer,
            algorithm,
            config.critic,
            tokens,
            batch,
            targets,
            learning_rates(config, state.step, progress),
            config.engine.tokens_at_once,
            generator(config.seed, "minibatches", state.step),
            critic_only=state.step < config.critic.pretrain_steps and "values" in algorithm.needs,
            ranks=ranks,
        )
    state.algorithm = algorithm.adapt({name.removeprefix("actor/"): value for name, value in updated.items()})
    state.step += 1
    row: dict[str, Any] = {"step": state.step}
    row |= rollout_metrics(rollouts, algorithm.group_size) | batch_metrics(batch, kept)
    row |= advantage_metrics(batch, targets) | critic_metrics(batch, targets)
    scoring = scoring_work(parts.reward, ranks)
    work = parts.work.step(rollouts, kept, algorithm, config, scoring, policy_updated=num_updates > 0)
    measured = meter.take() | parts.trainer.clock.take()
    measured["time/step_s"] = time.perf_counter() - start
    measured = ranks.of_leader(measured) | ranks.largest({k: v for k, v in measured.items() if k.startswith("memory/")})
    measured["time/other_s"] = measured["time/step_s"] - sum(
        measured.get(f"time/{phase}_s", 0.0) for phase in STEP_PHASES
    )
    generated, trained = (sum(len(r.completion.token_ids) for r in part) for part in (rollouts, kept))
    state.count(
        {
            "data/prompts": len(rollouts) / algorithm.group_size,
            "data/samples_generated": len(rollouts),
            "data/samples_trained": len(kept),
            "data/tokens_generated": generated,
            "data/tokens_trained": trained,
            "data/updates": num_updates,
            "cost/device_s": measured["time/step_s"] * ranks.size,
        }
        | ({FLOPS: sum(work.values())} if work else {})
    )
    row |= updated | measured | memory_row(held(parts), measured, ranks)
    row |= parts.work.rates(measured, generated, trained, work) | state.counters
    return Step(row=row, rollouts=rollouts)


def held(parts: Parts) -> Held:
    """What the engines hold now, on this rank."""
    sampler, roles = parts.rollout, parts.trainer.memory() | {"kv_cache": parts.rollout.cache_bytes}
    if sampler.weights_bytes:
        roles["rollout_weights"] = sampler.weights_bytes
    if parts.reward is not None:
        roles["reward_model"] = parts.reward.memory()
    return Held(roles=roles, asleep=sampler.weights_bytes + sampler.cache_bytes - sampler.resting_bytes)


def gather(parts: Parts, state: State) -> tuple[list[Rollout], list[Rollout]]:
    """One step's rollouts: all that were generated, and those of the groups that the algorithm keeps.

    Each rank generates and scores its share of the prompts, and all hold them all, in one order.

    Raises:
        NoSignalError: no group was kept in any round.
    """
    config, algorithm = parts.config, state.algorithm
    num_prompts = config.samples_per_step // algorithm.group_size
    stream = ProblemStream(parts.problems, config.seed, state.position)
    everything: list[Rollout] = []
    kept: list[Rollout] = []
    for _ in range(algorithm.max_rounds):
        seed = (config.seed, "rollout", stream.position)
        with parts.meter.phase("rollout"):
            mine = parts.ranks.share(stream.take(num_prompts))
            sampled = generate(parts.rollout, mine, algorithm.group_size, config.sampling, seed)
            parts.ranks.meet()  # so that the phase takes as long as its slowest rank
        with parts.meter.phase("score"):
            judged = score(parts.task, sampled)
        if parts.reward is not None:
            with parts.meter.phase("reward_model"):
                judged = rewarded(judged, parts.reward, config.reward_model)
        with parts.meter.phase("score"):
            size = algorithm.group_size
            groups = [judged[i : i + size] for i in range(0, len(judged), size)]
            rollouts = [rollout for group in parts.ranks.collect(groups) for rollout in group]
        keep = algorithm.keep_group(scored(rollouts, config.sampling.generation_budget)).tolist()
        everything += rollouts
        kept += [r for r, wanted in zip(rollouts, keep, strict=True) if wanted]
        if len(kept) >= config.samples_per_step:
            break
    state.position = stream.position
    if not kept:
        raise NoSignalError(no_signal(scored(everything, config.sampling.generation_budget), algorithm.max_rounds))
    return everything, kept[: config.samples_per_step]


def no_signal(scores: Scored, rounds: int) -> str:
    """Why no group was kept, in numbers."""
    groups = [scores.correct[scores.group == g] for g in scores.group.unique()]
    right = sum(bool(g.all()) for g in groups) / len(groups)
    wrong = sum(not g.any() for g in groups) / len(groups)
    return f"no group of mixed verdicts in {rounds} rounds: {right:.0%} of groups all right, {wrong:.0%} all wrong"


def learning_rates(config: RunConfig, step: int, progress: float) -> LearningRates:
    """Warm-up by steps, then the schedule over the budget."""
    decay = {"constant": 1.0, "linear": 1 - progress, "cosine": (1 + math.cos(math.pi * progress)) / 2}
    assert config.optimizer.lr is not None, "settings are resolved before they are used"
    assert config.critic.lr is not None, "settings are resolved before they are used"
    return LearningRates(
        policy=config.optimizer.lr * warmup(step, config.optimizer.warmup_steps) * decay[config.optimizer.schedule],
        critic=config.critic.lr * warmup(step, config.critic.warmup_steps) * decay[config.optimizer.schedule],
    )


def warmup(step: int, num_steps: int) -> float:
    """Linear rise to 1 over the first `num_steps` steps."""
    return min(1.0, (step + 1) / num_steps) if num_steps else 1.0
