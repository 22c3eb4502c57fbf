"""Which property holds for which method at its defaults, KL and likelihood terms aside.

A method that is not listed is tested for all that must hold for every method, and may be
added here to state what else does.
"""

from dataclasses import replace

import torch
from torch import Tensor

from algorithms.core import Batch
from tests.algorithms.support import make_batch, moved, plain, policy_gradient

GROUPED = frozenset({"grpo", "dr_grpo", "dapo", "rloo", "gspo", "cispo"})
LISTED = GROUPED | {"step_grpo", "sao", "raft", "ppo", "reinforce_pp", "reinforce_pp_baseline", "vapo"}

PROPERTIES: dict[str, tuple[str, frozenset[str]]] = {
    "silent_group": ("an all-equal group gives no gradient", GROUPED | {"step_grpo"}),
    "shift": (
        "adding a constant to every reward changes nothing",
        GROUPED | {"step_grpo", "raft", "ppo", "reinforce_pp", "reinforce_pp_baseline"},
    ),
    "group_shift": (
        "adding a constant to one group's rewards changes nothing",
        GROUPED | {"step_grpo", "raft", "reinforce_pp_baseline"},
    ),
    "scale": (
        "multiplying the rewards changes nothing",
        frozenset({"grpo", "dapo", "gspo", "cispo", "reinforce_pp", "reinforce_pp_baseline", "step_grpo", "raft"}),
    ),
    "centred": ("the advantages of a group add up to 0", GROUPED | {"step_grpo"}),
    "local": ("a group's advantages do not depend on the other groups", GROUPED | {"raft"}),
    "clip": (
        "a token far above the clip gets no gradient",
        frozenset(
            {"ppo", "grpo", "dr_grpo", "dapo", "reinforce_pp", "reinforce_pp_baseline", "gspo", "vapo", "step_grpo"}
        ),
    ),
    "critic": ("needs a critic", frozenset({"ppo", "vapo", "sao"})),
}

REWARDS = [1.0, 0.0, 0.25, 0.5, 0.75, 0.0]
LENGTHS, GROUP = [3, 1, 4, 2, 5, 3], [0, 0, 0, 1, 1, 1]


def with_rewards(batch: Batch, rewards: Tensor) -> Batch:
    return replace(batch, rewards=rewards)


def gradient(name: str, batch: Batch) -> Tensor:
    return policy_gradient(plain(name), batch, moved(batch))[1]


def holds(name: str, prop: str) -> bool:
    """Tries the property out on one batch of two groups of three."""
    batch = make_batch(REWARDS, LENGTHS, GROUP)
    first = torch.tensor(GROUP) == 0
    same = lambda a, b: torch.allclose(a, b, atol=1e-5)
    if prop == "silent_group":
        silent = with_rewards(batch, torch.where(first, 0.7, batch.rewards.float()))
        return not gradient(name, silent)[first].any()
    if prop == "shift":
        return same(gradient(name, batch), gradient(name, with_rewards(batch, batch.rewards + 3)))
    if prop == "group_shift":
        return same(gradient(name, batch), gradient(name, with_rewards(batch, batch.rewards + 3 * first)))
    if prop == "scale":
        return same(gradient(name, batch), gradient(name, with_rewards(batch, batch.rewards * 5)))
    advantages = plain(name).targets(batch).advantages
    if prop == "centred":
        return bool(advantages[first, 0].sum().abs() < 1e-9)
    if prop == "local":
        other = plain(name).targets(with_rewards(batch, batch.rewards + (~first) * wobble(batch))).advantages
        return same(advantages[first], other[first])
    if prop == "clip":
        leap = (batch.old_logprobs + 1.0 * batch.mask).requires_grad_()
        up = policy_gradient(plain(name), batch, leap)[1][advantages > 0]
        return not up.any()
    if prop == "critic":
        return "values" in plain(name).needs
    raise KeyError(prop)


def wobble(batch: Batch) -> Tensor:
    return torch.linspace(-1, 2, len(batch.rewards), dtype=batch.rewards.dtype)
