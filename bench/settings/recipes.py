"""Published settings as data: `--recipe NAME`.

Only where `checked` is set was each value read from the source itself; the others were entered from memory or from
descriptions of it, and want checking before they are cited.

A recipe gives what its source states and this harness has; all else keeps its default. What a source does that
no setting here expresses is in the recipe's note.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from algorithms import ALGORITHMS
from bench.config import CriticConfig, OptimizerConfig, RunConfig, Sampling
from bench.ground.errors import UserError, nearest

Tree = dict[str, Any]
Settings = Mapping[str, Any]  # dotted names, as on the command line less the dashes


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of one source, for each algorithm that it covers, its main one first."""

    source: str
    settings: Mapping[str, Settings]
    note: str = ""
    checked: bool = False


def dotted(prefix: str = "", /, **values: Any) -> Settings:  # noqa: ANN401 - any setting's value
    """Settings by dotted name: `dotted("sampling", top_p=0.9)` is `{"sampling.top_p": 0.9}`."""
    return {f"{prefix}.{name}" if prefix else name: value for name, value in values.items()}


ADAM = dotted("optimizer", betas=(0.9, 0.999))
CONSTANT = dotted("optimizer", schedule="constant")
UNTRUNCATED = dotted("sampling", temperature=1.0, top_p=1.0, top_k=0)
SIGNED = dotted("task.weights", right=1.0, wrong=-1.0, accuracy=1.0, format=0.0)

BLOG = {
    **dotted("sampling", temperature=0.7, top_p=0.9, max_new_tokens=512),
    **dotted("optimizer", lr=1e-6),
    **dotted("task.weights", right=1.0, wrong=-1.0, accuracy=1.0, format=1.0),
    **dotted("algo", clip_ratio=0.2, kl_coef=0.04, kl_estimator="k3", kl_place="loss", num_epochs=1, num_minibatches=1),
}
TRL = {**UNTRUNCATED, **ADAM, **dotted("optimizer", warmup_steps=0, schedule="linear", grad_clip=1.0)}
VERL = {
    **UNTRUNCATED,
    **ADAM,
    **CONSTANT,
    **dotted("sampling", max_new_tokens=512),
    **dotted("optimizer", lr=1e-6, weight_decay=0.01, warmup_steps=0, grad_clip=1.0),
    **dotted("algo", clip_ratio=0.2, dual_clip=3.0, kl_coef=0.0, aggregation="token-mean", num_minibatches=4),
}

RECIPES: dict[str, Recipe] = {
    "deepseekmath": Recipe(
        source="DeepSeekMath, arXiv:2402.03300, section 4.2",
        settings={
            "grpo": {
                **dotted(samples_per_step=1024),
                **dotted("algo", group_size=64, kl_coef=0.04, kl_estimator="k3", kl_place="loss", num_minibatches=1),
                **dotted("optimizer", lr=1e-6),
                **dotted("sampling", max_new_tokens=1024),
            }
        },
        note="Its reward is a learned model's; ours is the task's verdict.",
    ),
    "r1-zero": Recipe(
        source="DeepSeek-R1, arXiv:2501.12948, training details of R1-Zero",
        settings={
            "grpo": {
                **dotted(samples_per_step=8192),
                **dotted("algo", group_size=16, clip_ratio=10.0, kl_coef=0.001, num_epochs=1, num_minibatches=16),
                **dotted("optimizer", lr=3e-6),
                **dotted("sampling", temperature=1.0, max_new_tokens=32768),
                **dotted("task.weights", right=1.0, wrong=0.0, accuracy=1.0, format=1.0),
            }
        },
        note="It renews the reference every 400 steps, and later doubles the generation budget.",
    ),
    "open-reasoner-zero": Recipe(
        source="Open-Reasoner-Zero, arXiv:2503.24290",
        settings={
            "ppo": {
                **dotted(samples_per_step=8192),
                **dotted("algo", group_size=64, gamma=1.0, gae_lambda=1.0, clip_ratio=0.2, kl_coef=0.0),
                **dotted("algo", num_minibatches=1, whiten="batch"),
                **dotted("optimizer", lr=1e-6, betas=(0.9, 0.95), weight_decay=0.0, warmup_steps=50),
                **dotted("critic", lr=5e-6, num_minibatches=12, warmup_steps=50),
                **UNTRUNCATED,
                **CONSTANT,
                **dotted("task.weights", right=1.0, wrong=0.0, accuracy=1.0, format=0.0),
            }
        },
        note="64 completions of a prompt, but no group statistics: the critic is the baseline.",
    ),
    "dapo": Recipe(
        source="DAPO, arXiv:2503.14476, section 4.1",
        settings={
            "dapo": {
                **dotted(samples_per_step=8192),
                **dotted("algo", group_size=16, clip_ratio=0.2, clip_ratio_high=0.28, overlong_frac=0.2),
                **dotted("algo", dynamic_sampling=True, refill="whole", overlong_weight=1.0, num_minibatches=16),
                **dotted("optimizer", lr=1e-6, warmup_steps=20),
                **dotted("sampling", max_new_tokens=20480),
                **UNTRUNCATED,
                **CONSTANT,
                **SIGNED,
            }
        },
    ),
    "dr-grpo": Recipe(
        source="Dr. GRPO, arXiv:2503.20783, and its Oat training script",
        settings={
            "dr_grpo": {
                **dotted(samples_per_step=1024),
                **dotted("algo", group_size=8, clip_ratio=0.2, kl_coef=0.0, num_minibatches=8),
                **dotted("optimizer", lr=1e-6, betas=(0.9, 0.95), weight_decay=0.0, grad_clip=1.0, warmup_steps=0),
                **dotted("sampling", max_new_tokens=3000),
                **UNTRUNCATED,
                **CONSTANT,
                **dotted("task.weights", right=1.0, wrong=0.0, accuracy=1.0, format=0.0),
            }
        },
    ),
    "vapo": Recipe(
        source="VAPO, arXiv:2504.05118, section 5.1",
        settings={
            "vapo": {
                **dotted(samples_per_step=8192),
                **dotted("algo", group_size=16, clip_ratio=0.2, clip_ratio_high=0.28, gamma=1.0, positive_coef=0.1),
                **dotted("algo", gae_lambda_critic=1.0, gae_length_alpha=0.05, num_minibatches=16, kl_coef=0.0),
                **dotted("optimizer", lr=1e-6),
                **dotted("critic", lr=2e-6, pretrain_steps=50, num_minibatches=16),
                **CONSTANT,
            }
        },
    ),
    "trl-default": Recipe(
        checked=True,
        source="TRL 1.12.0: the defaults of GRPOConfig, RLOOConfig and PPOConfig",
        settings={
            "grpo": {
                **TRL,
                **dotted(samples_per_step=8),
                **dotted("algo", group_size=8, kl_coef=0.0, clip_ratio=0.2, aggregation="token-mean"),
                **dotted("algo", spread="sample", eps=1e-4, num_epochs=1, num_minibatches=1),
                **dotted("optimizer", lr=1e-6),
                **dotted("sampling", max_new_tokens=512),
            },
            "rloo": {
                **TRL,
                **dotted(samples_per_step=8),
                **dotted("algo", group_size=2, kl_coef=0.05, num_epochs=1, num_minibatches=1),
                **dotted("optimizer", lr=1e-6),
                **dotted("sampling", max_new_tokens=512),
            },
            "ppo": {
                **TRL,
                **dotted(samples_per_step=8),
                **dotted(
                    "algo", group_size=1, kl_coef=0.05, gamma=1.0, gae_lambda=0.95, clip_ratio=0.2, value_clip=0.2
                ),
                **dotted("algo", num_epochs=4, num_minibatches=1),
                **dotted("optimizer", lr=3e-6),
                **dotted("critic", lr=3e-6, num_epochs=4, num_minibatches=1, warmup_steps=0),
                **dotted("sampling", temperature=0.7, max_new_tokens=53),
            },
        },
        note="TRL's RLOO clips a sequence's ratio; its PPO has one optimizer and a value coefficient of 0.1.",
    ),
    "verl-default": Recipe(
        checked=True,
        source="verl 0.9.1: ppo_trainer.yaml",
        settings={
            "ppo": {
                **VERL,
                **dotted(samples_per_step=1024),
                **dotted("algo", group_size=1, gamma=1.0, gae_lambda=1.0, value_clip=0.5),
                **dotted("critic", lr=1e-5, num_minibatches=4, warmup_steps=0, grad_clip=1.0),
            },
            "grpo": {**VERL, **dotted(samples_per_step=5120), **dotted("algo", group_size=5, eps=1e-6)},
        },
        note="Its group size is 1 until it is set; 5 is its GRPO example's.",
    ),
    "blog-post": Recipe(
        source='the blog post "GRPO vs PPO for LLM Reasoning"',
        settings={"grpo": {**BLOG, **dotted("algo", group_size=16)}, "ppo": BLOG},
        note="The post scores tempered, top-p samples with untempered log-probs. Ours are tempered, over the full "
        "vocabulary, and what top-p leaves out is reported as rollout/truncation_gap_mean.",
    ),
}


def recipe_settings(name: str, algo_name: str | None) -> tuple[str, Settings]:
    """The algorithm (the recipe's main one unless given) and its settings by dotted name.

    Raises:
        UserError: no such recipe, or it does not cover the algorithm.
    """
    if name not in RECIPES:
        raise UserError(f"--recipe {name}: unknown; {nearest(name, RECIPES)}")
    recipe = RECIPES[name]
    chosen = algo_name or next(iter(recipe.settings))
    if chosen not in recipe.settings:
        raise UserError(f"--recipe {name} has no settings for {chosen}: it is for {', '.join(recipe.settings)}")
    return chosen, recipe.settings[chosen]


def recipe_tree(name: str, algo_name: str | None) -> Tree:
    """A recipe as the nested tree that a settings file would hold, the algorithm's name included.

    Raises:
        UserError: no such recipe, or it does not cover the algorithm.
    """
    chosen, settings = recipe_settings(name, algo_name)
    tree: Tree = {"algo_name": chosen}
    for path, value in settings.items():
        *parents, leaf = path.split(".")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[leaf] = value
    return tree


def differences(name: str, algo_name: str | None = None) -> list[tuple[str, Any, Any]]:
    """(setting, the recipe's value, the default) wherever they differ; task settings have no one default: None."""
    chosen, settings = recipe_settings(name, algo_name)
    defaults = {
        "algo": ALGORITHMS[chosen](),
        "sampling": Sampling(),
        "optimizer": OptimizerConfig(),
        "critic": CriticConfig(),
    }
    rows: list[tuple[str, Any, Any]] = []
    for path, value in settings.items():
        head, _, leaf = path.partition(".")
        default = getattr(defaults[head], leaf) if head in defaults else getattr(RunConfig, path, None)
        if value != default:
            rows.append((path, value, default))
    return rows
