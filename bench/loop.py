"""The loop, top to bottom: tasks -> rollout -> scoring -> targets -> update -> record."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from algorithms.core import Algorithm, Scored
from bench.batch import pad_columns, scored, sequences
from bench.config import RunConfig
from bench.ground.budget import Budget
from bench.ground.words import COUNTERS, FLOPS, STEP_PHASES
from bench.meter import Meter, Phase
from bench.metrics import advantage_metrics, batch_metrics, behaviour_metrics, critic_metrics, rollout_metrics
from bench.proof import agree
from bench.ranks import ALONE, Ranks
from bench.rates import schedule
from bench.reward import Route, routed
from bench.rollout import ProblemStream, Rollout, RolloutEngine, count_occurrences, generate, score
from bench.sync import Snapshot, hand_over, renewal
from bench.train import Learner, Update
from bench.trainer import TrainEngine
from bench.work import Held, Work, memory_row, scoring_work
from tasks.core import Problem, Task

# raised when the loop, the trainer or a metric begins to compute something else: goldens are stored under it
LOOP_VERSION = 2  # 2: a problem drawn again in a step is a group of its own, with samples of its own


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
    sampler: RolloutEngine
    trainer: TrainEngine
    meter: Meter
    work: Work
    rewards: Sequence[Route] = ()
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


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """One step's rollouts."""

    everything: Sequence[Rollout]  # that was generated
    kept: Sequence[Rollout]  # of it, what is trained on
    num_kept: int  # completions that the algorithm kept; more than are trained on where a round brought a surplus


def gather(parts: Parts, state: State) -> Gathered:
    """One step's rollouts, by as many rounds as fill the batch with groups that the algorithm keeps.

    Each rank generates and scores its share of the prompts, and all hold them all, in one order.

    Raises:
        NoSignalError: no group was kept in any round.
    """
    config, algorithm = parts.config, state.algorithm
    whole = config.samples_per_step // algorithm.group_size
    stream = ProblemStream(parts.problems, config.seed, state.position)
    everything: list[Rollout] = []
    kept: list[Rollout] = []
    for turn in range(algorithm.max_rounds):
        size, missing = algorithm.group_size, whole - len(kept) // algorithm.group_size
        count = algorithm.prompts_to_ask(whole, missing, len(kept) / len(everything)) if turn else whole
        rollouts = generated(parts, state, stream, count)
        keep = algorithm.keep_group(scored(rollouts, config.sampling.generation_budget)).tolist()
        everything += rollouts
        kept += [r for r, wanted in zip(rollouts, keep, strict=True) if wanted]
        if len(kept) >= whole * size:
            break
    state.position = stream.position
    if not kept:
        raise NoSignalError(no_signal(scored(everything, config.sampling.generation_budget), algorithm.max_rounds))
    return Gathered(everything=everything, kept=kept[: config.samples_per_step], num_kept=len(kept))


def generated(parts: Parts, state: State, stream: ProblemStream, num_prompts: int) -> list[Rollout]:
    """One round: the next prompts' completions with their verdicts, groups adjacent."""
    config, size = parts.config, state.algorithm.group_size
    seed = (config.seed, "rollout", stream.position)
    with parts.meter.phase("rollout"):
        problems = stream.take(num_prompts)
        mine, times = parts.ranks.share(problems), parts.ranks.share(count_occurrences(problems, stream.seen))
        sampled = generate(parts.sampler, mine, size, config.sampling, seed, times)
        parts.ranks.meet()  # so that the phase takes as long as its slowest rank
    with parts.meter.phase("score"):
        judged = score(parts.task, sampled)
    if parts.rewards:
        with parts.meter.phase("reward_model"):
            judged = routed(judged, parts.rewards)
    with parts.meter.phase("score"):
        groups = [judged[i : i + size] for i in range(0, len(judged), size)]
        return [rollout for group in parts.ranks.collect(groups) for rollout in group]


def no_signal(scores: Scored, rounds: int) -> str:
    """Why no group was kept, in numbers."""
    groups = [scores.correct[scores.group == g] for g in scores.group.unique()]
    right = sum(bool(g.all()) for g in groups) / len(groups)
    wrong = sum(not g.any() for g in groups) / len(groups)
    return f"no group of mixed verdicts in {rounds} rounds: {right:.0%} of groups all right, {wrong:.0%} all wrong"
