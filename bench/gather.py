"""One step's rollouts: prompts asked until the batch holds as many groups as the method keeps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from algorithms.core import Scored
from bench.batch import scored
from bench.parts import Parts, State
from bench.positions import place_rewards
from bench.reward import routed
from bench.rollout import ProblemStream, Rollout, count_occurrences, generate, score


class NoSignalError(Exception):
    """The algorithm kept no group within its rounds: there is nothing to learn from."""


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
        if config.truncated_is_wrong:
            judged = [without_truncated(r) for r in judged]
        judged = place_rewards(judged, parts.sampler)
        groups = [judged[i : i + size] for i in range(0, len(judged), size)]
        return [rollout for group in parts.ranks.collect(groups) for rollout in group]


def without_truncated(rollout: Rollout) -> Rollout:
    """A completion that was cut off as one that is wrong and earned nothing; any other as it is."""
    if rollout.completion.finish_reason != "length":
        return rollout
    return replace(rollout, score=replace(rollout.score, reward=0.0, correct=False, earned=()))


def no_signal(scores: Scored, rounds: int) -> str:
    """Why no group was kept, in numbers."""
    groups = [scores.correct[scores.group == g] for g in scores.group.unique()]
    right = sum(bool(g.all()) for g in groups) / len(groups)
    wrong = sum(not g.any() for g in groups) / len(groups)
    return f"no group of mixed verdicts in {rounds} rounds: {right:.0%} of groups all right, {wrong:.0%} all wrong"
