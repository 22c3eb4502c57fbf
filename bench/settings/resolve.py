"""What the settings mean here: defaults that depend on model, task and machine, and what cannot work together."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

from bench.config import ASSETS, EMBEDDED, SOURCES, RunConfig
from bench.ground.defaults import OTHERS, OURS, ModelDefaults
from bench.ground.errors import UserError
from bench.ground.tree import Tree
from bench.machine.placement import Placement
from bench.machine.presets import Preset, preset_for_run
from bench.models.lora import settings_for
from bench.settings.flags import Chosen
from bench.settings.rewards import learned_rewards, renewal
from tasks.core import Task
from tasks.sources import bench_data


def is_embedded(model: str) -> bool:
    """Whether a model's name means one of ours."""
    return model == EMBEDDED or Path(model).resolve().is_relative_to(ASSETS)


def resolve(chosen: Chosen, processes: int = 1) -> Chosen:
    """Fill in what depends on the model, the task or the machine, and refuse what cannot work together.

    Raises:
        UserError: sizes that do not divide, a bad budget, settings that contradict each other.
    """
    config = chosen.config
    hardware, defaults = hardware_of(config, processes), model_defaults(config.model)
    config = replace(
        config,
        preset=hardware.name,
        engine=given_or(
            config.engine,
            dtype="float32" if hardware.dtype == "float32" else "bfloat16",
            micro_batch_tokens=hardware.micro_batch_tokens,
            train="deepspeed" if processes > 1 else hardware.train_engine,
            zero=default_stage(config, hardware),
        ),
        sampling=given_or(config.sampling, max_new_tokens=answer_budget(config)),
        optimizer=given_or(config.optimizer, lr=defaults.lr),
        critic=given_or(config.critic, lr=defaults.critic_lr),
        lora=settings_for(config.model, config.lora),
        task=with_source(config, ours=is_embedded(config.model)),
    )
    check(config)
    check_engine(config, processes)
    check_models(config)
    return replace(chosen, config=config)


def given_or(settings: Any, **defaults: Any) -> Any:  # noqa: ANN401 - any part of the settings
    """The settings, with a default wherever they are None."""
    return replace(settings, **{name: value for name, value in defaults.items() if getattr(settings, name) is None})


def model_defaults(model: str) -> ModelDefaults:
    """What None stands for in the settings that depend on the model."""
    return OURS if is_embedded(model) else OTHERS


def answer_budget(config: RunConfig) -> int:
    """What None stands for in `max_new_tokens`: what a task says that its embedded model needs, else the model's."""
    own = getattr(config.task, "longest_answer", None) if is_embedded(config.model) else None
    return model_defaults(config.model).max_new_tokens if own is None else own


def default_stage(config: RunConfig, hardware: Preset) -> Literal[0, 1, 2, 3]:
    """The preset's ZeRO stage, or what off-loading needs; 0 for an engine without any."""
    if config.engine.train == "torch":
        return 0
    least = 3 if "params" in config.engine.offload else 1 if "optimizer" in config.engine.offload else 0
    return cast("Literal[0, 1, 2, 3]", max(least, hardware.zero_stage))


def hardware_of(config: RunConfig, processes: int) -> Preset:
    """The configuration whose settings the engine starts from.

    Raises:
        UserError: its devices are not here, or it has not one for each process.
    """
    return preset_for_run(config.preset, cpu=on_cpu(config), processes=processes)


def on_cpu(config: RunConfig) -> bool:
    """Whether the models run without a GPU."""
    if config.engine.device == "cpu":
        return True
    import torch  # here, since what only prints settings' names need not load it

    return not torch.cuda.is_available()


def with_source(config: RunConfig, *, ours: bool) -> Task:
    """The task with its data source and prompt chosen; a user's own task without such fields stays as it is."""
    task = config.task
    names = {f.name for f in dataclasses.fields(cast("Any", task))} if dataclasses.is_dataclass(task) else set[str]()
    changes: Tree = {}
    if "source" in names and "data" in names:
        data = config.data if config.data is not None else getattr(task, "data", None)
        if config.source != "auto":
            changes["source"] = SOURCES[config.source]
        elif data is not None:
            changes["source"] = "path"
        elif not ours:
            elsewhere = "hub" if getattr(type(task), "HUB", True) else "procedural"
            changes["source"] = "path" if bench_data(getattr(type(task), "NAME", "")) else elsewhere
        changes["data"] = data
    elif config.data is not None:
        raise UserError(f"--data: {type(task).__name__} reads no data")
    if "template" in names and not ours and getattr(task, "template", None) == "auto":
        changes["template"] = "boxed"
    return replace(cast("Any", task), **changes) if changes else task


def check(config: RunConfig) -> None:
    """Refuse sizes that do not fit together.

    Raises:
        UserError: says which, and what would do.
    """
    _, group = config.parsed_budget, config.algo.group_size  # the first refuses what cannot be read
    near = group * max(1, round(config.samples_per_step / group))
    rules = [(value <= 0, f"--{name} {value}: must be above 0") for name, value in sizes(config).items()]
    rules += [(not math.isfinite(rate), f"--{name} {rate}: must be a number") for name, rate in rates(config).items()]
    rules += [
        (config.sampling.top_p > 1, f"--sampling.top-p {config.sampling.top_p}: must lie in (0, 1]"),
        (
            any("\ud800" <= letter <= "\udfff" for letter in f"{config.name}{config.out}"),
            "--name and --out hold letters that this locale cannot read: set PYTHONUTF8=1",
        ),
        (config.rollout_lag < 0, f"--rollout-lag {config.rollout_lag}: must be 0 or more"),
        (
            config.samples_per_step % group > 0,
            f"--samples-per-step {config.samples_per_step} does not divide into groups of {group}; {near} does",
        ),
        (
            config.algo.num_minibatches > config.samples_per_step,
            f"{config.algo.num_minibatches} minibatches need as many samples: raise --samples-per-step",
        ),
        (
            config.eval.checkpoint == "best" and not config.eval.every,
            "--eval.checkpoint best needs validation: give --eval.every N",
        ),
    ]
    refuse_first(rules)


def sizes(config: RunConfig) -> dict[str, float]:
    """Settings that must be above 0."""
    return {
        "samples-per-step": config.samples_per_step,
        "sampling.max-new-tokens": config.sampling.generation_budget,
        "sampling.temperature": config.sampling.temperature,
        "sampling.top-p": config.sampling.top_p,
        "engine.micro-batch-tokens": config.engine.tokens_at_once,
        "engine.rollout-batch-size": config.engine.rollout_batch_size,
        "optimizer.eps": config.optimizer.eps,
        "engine.rollout-memory": config.engine.rollout_memory,
        "engine.tensor-parallel": config.engine.tensor_parallel,
        "checkpoint-every": config.checkpoint_every,
        "critic.num-epochs": config.critic.num_epochs,
        "critic.num-minibatches": config.critic.num_minibatches,
    }


def rates(config: RunConfig) -> dict[str, float]:
    """Settings that a number must stand behind: an update by NaN would be one run's last."""
    named = {"optimizer.lr": config.optimizer.lr, "critic.lr": config.critic.lr}
    return {name: rate for name, rate in named.items() if rate is not None} | {
        "sampling.temperature": config.sampling.temperature
    }


def refuse_first(rules: Sequence[tuple[bool, str]]) -> None:
    """Raise for the first rule that is broken, as (broken, message)."""
    if message := next((message for broken, message in rules if broken), None):
        raise UserError(message)


def check_models(config: RunConfig) -> None:
    """Refuse settings of the models that mean nothing here.

    Raises:
        UserError: says which, and what would do.
    """
    rank = config.lora.rank
    refuse_first(
        [
            (rank < 0, f"--lora.rank {rank}: must not be negative; 0 trains every weight"),
            *learned_rewards(config),
            *renewal(config),
        ]
    )


def check_engine(config: RunConfig, processes: int) -> None:
    """Refuse what the training engine cannot do, and a batch that the processes cannot share.

    Raises:
        UserError: says which, and what would do.
    """
    engine = config.engine
    placement = Placement(
        train=engine.train or "torch",
        rollout=engine.rollout,
        zero=engine.zero_stage,
        offload=frozenset(engine.offload),
        train_devices=processes,
        tensor_parallel=engine.tensor_parallel,
        adapters=config.lora.rank > 0,
        on_cpu=on_cpu(config),
    )
    prompts = config.samples_per_step // config.algo.group_size
    near = max(1, round(prompts / processes)) * processes * config.algo.group_size
    rules = [
        (
            engine.tensor_parallel > 1 and processes > 1,
            f"--engine.tensor-parallel {engine.tensor_parallel} needs a run of one process",
        ),
        (engine.rollout_memory > 1, f"--engine.rollout-memory {engine.rollout_memory}: a share, must lie in (0, 1]"),
        *((True, message) for message in placement.contradictions()),
        (
            engine.train == "deepspeed" and config.lora.rank != 0,
            "--lora.rank needs --engine torch: adapters train in one process",
        ),
        (
            prompts % processes > 0,
            f"--samples-per-step {config.samples_per_step} makes {prompts} prompts, which {processes} processes cannot "
            f"share evenly; --samples-per-step {near} can",
        ),
    ]
    refuse_first(rules)
