"""Defaults that depend on the model, in one table; the help is made of it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ModelDefaults:
    """What None stands for in the settings that depend on the model."""

    lr: float
    critic_lr: float
    max_new_tokens: int


OURS = ModelDefaults(lr=2e-4, critic_lr=1e-3, max_new_tokens=64)
OTHERS = ModelDefaults(lr=1e-6, critic_lr=1e-5, max_new_tokens=512)


def default_of(name: str) -> str:
    """What None stands for, as the help says it."""
    return f"None: {getattr(OURS, name):g} for an embedded model, {getattr(OTHERS, name):g} for any other."
