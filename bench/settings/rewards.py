"""What learned rewards and a renewed reference cannot be, as (broken, message)."""

from bench.config import RewardModelConfig, RunConfig


def learned_rewards(config: RunConfig) -> list[tuple[bool, str]]:
    """What keeps learned rewards from meaning anything, as (broken, message)."""
    models = {"--reward-model": config.reward_model, "--safety-model": config.safety_model}
    rules = [
        (
            learned.path is None and learned != RewardModelConfig(),
            f"{flag}.* weighs a learned reward: give {flag} PATH",
        )
        for flag, learned in models.items()
    ]
    rules += [(learned.std <= 0, f"{flag}.std {learned.std}: must be above 0") for flag, learned in models.items()]
    one, other = models.values()
    overlap = not one.kinds or not other.kinds or bool(set(one.kinds) & set(other.kinds))
    return [
        *rules,
        (
            one.path is not None and other.path is not None and overlap,
            "--reward-model and --safety-model would judge the same prompts: give each its own --reward-model.kinds "
            "and --safety-model.kinds",
        ),
    ]


def renewal(config: RunConfig) -> list[tuple[bool, str]]:
    """What keeps a reference from being renewed, as (broken, message)."""
    every = config.reference_updates
    flag = f"--reference-updates {every}"
    return [
        (every < 0, f"{flag}: must be 0 or more"),
        (
            every > 0 and "ref_logprobs" not in config.algo.needs,
            f"{flag}: the method reads no reference; give it a KL coefficient (--algo.kl-coef)",
        ),
        (every > 0 and config.engine.train == "deepspeed", f"{flag} needs --engine torch"),
        (every > 0 and config.lora.rank > 0, f"{flag}: with adapters the reference is the base itself; leave it out"),
    ]
