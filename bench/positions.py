"""Where in a completion's tokens the parts of its reward were earned: tasks see characters, methods see tokens."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from bench.ground.errors import UserError
from bench.rollout import Completion, Rollout, RolloutEngine

TOLERANCE = 1e-6  # of the sum of the parts against the reward


def place_rewards(rollouts: Sequence[Rollout], engine: RolloutEngine) -> list[Rollout]:
    """The rollouts, each part of a reward paid at the token that its last character comes from.

    Raises:
        UserError: a part lies outside its completion, or the parts do not add up to the reward.
    """
    return [replace(r, paid_at=_paid_at(r, engine)) if r.score.earned else r for r in rollouts]


def _paid_at(rollout: Rollout, engine: RolloutEngine) -> tuple[int, ...]:
    check_earned(rollout)
    ends = token_ends(rollout.completion, engine)
    return tuple(next(i for i, reached in enumerate(ends) if reached >= end) for end, _ in rollout.score.earned)


def check_earned(rollout: Rollout) -> None:
    """Refuse a task's rewards that cannot be paid where it says.

    Raises:
        UserError: in one line.
    """
    earned, length, name = rollout.score.earned, len(rollout.completion.text), rollout.problem.id
    ends = [end for end, _ in earned]
    if wrong := [end for end in ends if not 1 <= end <= length]:
        raise UserError(f"{name}: the task pays at character {wrong[0]} of a completion of {length}; mend its score")
    if ends != sorted(ends):
        raise UserError(f"{name}: the task's rewards are not in the order of the completion; mend its score")
    total = sum(amount for _, amount in earned)
    if abs(total - rollout.score.reward) > TOLERANCE:
        raise UserError(
            f"{name}: the task pays {total:g} along the completion and says {rollout.score.reward:g}; mend its score"
        )


def token_ends(completion: Completion, engine: RolloutEngine) -> list[int]:
    """(T,) how many characters of the text lie behind each token; the end mark adds none.

    Most tokenizers' tokens can be read one by one, which is cheap; where their texts do not add up to the
    completion's, each beginning of it is read.
    """
    ids, length = completion.token_ids, len(completion.text)
    inner = ids if completion.finish_reason == "length" else ids[:-1]
    known = {i: len(engine.decode([i])) for i in set(inner)}
    ends = list(accumulate(known[i] for i in inner))
    if (ends[-1] if ends else 0) != length:
        lost = max(0, length - len(engine.decode(inner)))  # spaces that a decoder drops at a text's start
        ends = [min(len(engine.decode(inner[: n + 1])) + lost, length) for n in range(len(inner))]
    return ends + [length] * (len(ids) - len(inner))
