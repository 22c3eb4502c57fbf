"""The words of a record: counters, phases and roles, each named once. `metric_reference` defines what bears them."""

from typing import Literal, get_args

GIB = 2**30

Phase = Literal["load", "rollout", "score", "reward_model", "logprobs", "update", "sync", "evaluate"]
STEP_PHASES: tuple[Phase, ...] = ("sync", "rollout", "score", "reward_model", "logprobs", "update")
"""In the order in which a step goes through them."""

COUNTERS = (
    "data/prompts",
    "data/samples_generated",
    "data/samples_trained",
    "data/tokens_generated",
    "data/tokens_trained",
    "data/updates",
    "cost/device_s",
)
FLOPS = "cost/flops"
"""The counter that is absent where a model's work is not counted."""

Role = Literal[
    "policy", "reference", "critic", "reward_model", "gradients", "optimizer",
    "activations", "rollout_weights", "kv_cache",
]  # fmt: skip
ROLES: tuple[Role, ...] = get_args(Role)
"""Of memory that a run measures, in the order of its tables."""
MODELS: tuple[Role, ...] = ROLES[:4]
LASTING: tuple[Role, ...] = ROLES[:6]
"""What is held over a whole step."""
