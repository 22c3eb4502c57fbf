"""How large the stages of the R1 pipeline are: settings by name, for our base and for two larger models."""

from dataclasses import dataclass, field

from bench.pipeline.rejection import Rejection
from bench.pipeline.reward_model import RewardTraining
from bench.pipeline.supervised import Fit


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What each stage may use. The defaults suit our base; `--preset` names others."""

    max_new_tokens: int = 72
    """Generation budget of a completion, in every stage and evaluation."""
    cold_examples: int = 256
    """Examples of the cold start, where the solver makes them."""
    cold: Fit = field(default_factory=lambda: Fit(num_updates=12, validate_every=4))
    """Supervised training of stage 1."""
    rl_lr: float = 8e-4
    """Peak learning rate of the policy in reinforcement learning."""
    critic_lr: float = 1e-3
    """The critic's, where the method has one."""
    kl_coef: float = 0.001
    """Coefficient of the KL to the reference, where the method has one (R1: 0.001)."""
    samples_per_step: int = 256
    """Completions of a step of reinforcement learning."""
    first_steps: int = 16
    """Steps of stage 2 (and of stage 0, where it is run)."""
    second_steps: int = 6
    """Steps of stage 4 by rules alone."""
    general_steps: int = 12
    """Steps of stage 4 with general prompts and preferences."""
    general_share: float = 0.5
    """Share of general prompts in the steps of stage 4 that have any."""
    direct_lr: float = 2e-4
    """Peak learning rate of DPO, where --general-algo is dpo."""
    second_temperature: float = 0.7
    """Sampling temperature of stage 4 (R1: 0.7)."""
    reference_updates: int = 16
    """Updates after which the reference is renewed (R1: 400)."""
    language_weight: float = 0.2
    """Weight of language consistency in the reward of reinforcement learning."""
    rejection: Rejection = field(default_factory=Rejection)
    """Rejection sampling of stage 3."""
    general_examples: int = 128
    """General examples that are mixed into stage 3's data."""
    restart: Fit = field(default_factory=lambda: Fit(num_updates=24, validate_every=8))
    """Supervised training of stage 3, from the base."""
    judges: RewardTraining = field(default_factory=lambda: RewardTraining(num_epochs=2))
    """Training of the two learned rewards."""
    eval_problems: int = 200
    """Problems of the test split on which each checkpoint is evaluated."""
    eval_samples: int = 2
    """Sampled completions of each, beside the greedy one."""
    other_tasks: tuple[str, ...] = ("countdown", "math")
    """Tasks outside the pipeline's, on which each checkpoint is evaluated, too."""
    other_problems: int = 64
    """Problems of each of them."""
    micro_batch_tokens: int | None = None
    """Most padded tokens of one pass in reinforcement learning. None: the hardware preset's."""


_LARGE_FIT = Fit(lr=2e-5, batch_size=32, num_updates=64, validate_every=16, micro_batch_tokens=8192)
PRESETS: dict[str, Sizes] = {
    "embedded": Sizes(),
    "smollm2-135m": Sizes(
        max_new_tokens=256,
        cold_examples=1024,
        cold=_LARGE_FIT,
        rl_lr=3e-6,
        critic_lr=1e-5,
        first_steps=100,
        second_steps=20,
        general_steps=20,
        reference_updates=100,
        rejection=Rejection(num_problems=2048),
        general_examples=512,
        restart=Fit(lr=2e-5, batch_size=32, num_updates=128, validate_every=16, micro_batch_tokens=8192),
        direct_lr=5e-7,
        judges=RewardTraining(lr=1e-5),
    ),
    "qwen2.5-0.5b": Sizes(
        max_new_tokens=512,
        cold_examples=2048,
        cold=_LARGE_FIT,
        rl_lr=1e-6,
        critic_lr=1e-5,
        samples_per_step=512,
        first_steps=200,
        second_steps=40,
        general_steps=40,
        reference_updates=200,
        rejection=Rejection(num_problems=4096),
        general_examples=1024,
        restart=Fit(lr=1e-5, batch_size=64, num_updates=192, validate_every=16, micro_batch_tokens=16384),
        direct_lr=5e-7,
        judges=RewardTraining(lr=9e-6, batch_size=64),
        eval_problems=500,
    ),
}
