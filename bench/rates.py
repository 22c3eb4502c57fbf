"""Learning rates over a run."""

import math

from algorithms.core import Algorithm
from bench.config import RunConfig
from bench.rollout import generator
from bench.train import Schedule


def schedule(config: RunConfig, algorithm: Algorithm, step: int, samples: float, progress: float) -> Schedule:
    """How the coming step updates: rates warm up over generated samples, then fall over the budget.

    `step` and `samples` lie behind, `progress` is the share of the budget that is used up.
    """
    decay = {"constant": 1.0, "linear": 1 - progress, "cosine": (1 + math.cos(math.pi * progress)) / 2}
    assert config.optimizer.lr is not None, "settings are resolved before they are used"
    assert config.critic.lr is not None, "settings are resolved before they are used"
    steps_behind = samples / config.samples_per_step
    given = config.critic.pretrain_steps
    pretraining = algorithm.value_pretraining if given is None else given
    scale = decay[config.optimizer.schedule]
    return Schedule(
        policy_lr=config.optimizer.lr * warmup(steps_behind, config.optimizer.warmup_steps) * scale,
        critic=config.critic,
        critic_lr=config.critic.lr * warmup(steps_behind, config.critic.warmup_steps) * scale,
        generator=generator(config.seed, "minibatches", step),
        critic_only=step < pretraining and "values" in algorithm.needs,
    )


def warmup(steps_behind: float, num_steps: int) -> float:
    """Linear rise to 1 over the samples of `num_steps` steps."""
    return min(1.0, (steps_behind + 1) / num_steps) if num_steps else 1.0
