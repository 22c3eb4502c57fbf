"""Interchangeable learning algorithms. Adding one: write one file, add one line here."""

from algorithms.core import Algorithm
from algorithms.grpo import GRPO
from algorithms.ppo import PPO

ALGORITHMS: dict[str, type[Algorithm]] = {
    "ppo": PPO,
    "grpo": GRPO,
}
