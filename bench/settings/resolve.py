"""What the settings mean here: defaults that depend on model, task and machine, and what cannot work together."""

import dataclasses
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import torch

from bench.config import ASSETS, EMBEDDED, SOURCES, RewardModelConfig, RunConfig, Sampling
from bench.ground.errors import UserError
from bench.ground.tree import Tree
from bench.machine.presets import Preset, for_run
from bench.models.lora import settings_for
from bench.settings.flags import Chosen
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
    ours = is_embedded(config.model)
    hardware = hardware_of(config, processes)
    config = replace(
        config,
        preset=hardware.name,
        engine=replace(
            config.engine,
            dtype=config.engine.dtype or ("float32" if hardware.dtype == "float32" else "bfloat16"),
            micro_batch_tokens=config.engine.micro_batch_tokens or hardware.micro_batch_tokens,
            train=config.engine.train or ("deepspeed" if processes > 1 else hardware.train_engine),
            zero=config.engine.zero if config.engine.zero is not None else default_stage(config, hardware),
        ),
        sampling=replace(
            config.sampling, max_new_tokens=config.sampling.max_new_tokens or Sampling.default_budget(ours=ours)
        ),
        optimizer=replace(
            config.optimizer, lr=config.optimizer.lr if config.optimizer.lr is not None else (2e-4 if ours else 1e-6)
        ),
        critic=replace(
            config.critic, lr=config.critic.lr if config.critic.lr is not None else (1e-3 if ours else 1e-5)
        ),
        lora=settings_for(config.model, config.lora),
        task=with_source(config, ours=ours),
    )
    check(config)
    check_engine(config, processes)
    check_models(config)
    return replace(chosen, config=config)


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
    try:
        return for_run(config.preset, cpu=on_cpu(config), processes=processes)
    except ValueError as error:
        raise UserError(str(error)) from error


def on_cpu(config: RunConfig) -> bool:
    """Whether the models run without a GPU."""
    return config.engine.device == "cpu" or not torch.cuda.is_available()


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
            changes["source"] = "path" if bench_data(getattr(type(task), "NAME", "")) else "hub"
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
    _ = config.limit  # refuses what cannot be read
    group = config.algo.group_size
    positive = {
        "samples-per-step": config.samples_per_step,
        "sampling.max-new-tokens": config.sampling.budget,
        "sampling.temperature": config.sampling.temperature,
        "sampling.top-p": config.sampling.top_p,
        "engine.micro-batch-tokens": config.engine.tokens_at_once,
        "engine.rollout-batch-size": config.engine.rollout_batch_size,
        "engine.rollout-memory": config.engine.rollout_memory,
        "engine.tensor-parallel": config.engine.tensor_parallel,
        "checkpoint-every": config.checkpoint_every,
        "critic.num-epochs": config.critic.num_epochs,
        "critic.num-minibatches": config.critic.num_minibatches,
    }
    for name, value in positive.items():
        if not (value > 0 and math.isfinite(value)):
            raise UserError(f"--{name} {value}: must be a number above 0")
    for name, lr in (("optimizer.lr", config.optimizer.lr), ("critic.lr", config.critic.lr)):
        if lr is not None and not (lr >= 0 and math.isfinite(lr)):
            raise UserError(f"--{name} {lr}: must be a number of 0 or more")
    if config.sampling.top_p > 1:
        raise UserError(f"--sampling.top-p {config.sampling.top_p}: must lie in (0, 1]")
    if config.rollout_lag < 0:
        raise UserError(f"--rollout-lag {config.rollout_lag}: must be 0 or more")
    if config.samples_per_step % group:
        near = group * max(1, round(config.samples_per_step / group))
        raise UserError(
            f"--samples-per-step {config.samples_per_step} does not divide into groups of {group}; {near} does"
        )
    if config.algo.num_minibatches > config.samples_per_step:
        raise UserError(f"{config.algo.num_minibatches} minibatches need as many samples: raise --samples-per-step")
    if config.eval.checkpoint == "best" and not config.eval.every:
        raise UserError("--eval.checkpoint best needs validation: give --eval.every N")


def check_models(config: RunConfig) -> None:
    """Refuse settings of the models that mean nothing here.

    Raises:
        UserError: says which, and what would do.
    """
    if config.lora.rank < 0:
        raise UserError(f"--lora.rank {config.lora.rank}: must not be negative; 0 trains every weight")
    learned = config.reward_model
    if learned.path is None and learned != RewardModelConfig():
        raise UserError("--reward-model.* weighs a learned reward: give --reward-model PATH")
    if learned.std <= 0:
        raise UserError(f"--reward-model.std {learned.std}: must be above 0")
    if "reference" in config.engine.offload:
        if on_cpu(config):
            raise UserError("--offload reference needs a GPU: on a CPU the reference is in the host's memory already")
        if config.lora.rank:
            raise UserError("--offload reference: with adapters the reference is the policy's own base; leave it out")


def check_engine(config: RunConfig, processes: int) -> None:
    """Refuse what the training engine cannot do, and a batch that the processes cannot share.

    Raises:
        UserError: says which, and what would do.
    """
    engine, offload = config.engine, set(config.engine.offload)
    if engine.tensor_parallel > 1 and (engine.rollout != "vllm" or processes > 1):
        raise UserError(
            f"--engine.tensor-parallel {engine.tensor_parallel} needs --rollout vllm, in a run of one process"
        )
    if engine.rollout_memory > 1:
        raise UserError(f"--engine.rollout-memory {engine.rollout_memory}: a share, must lie in (0, 1]")
    if engine.train == "torch" and processes > 1:
        raise UserError(f"--engine torch is one process, and here are {processes}: use --engine deepspeed")
    if engine.train == "torch" and (engine.zero or offload & {"optimizer", "params"}):
        raise UserError("--zero and --offload optimizer,params need --engine deepspeed")
    if "optimizer" in offload and engine.zero == 0:
        raise UserError("--offload optimizer needs --zero 1, 2 or 3")
    if "params" in offload and engine.zero != 3:
        raise UserError("--offload params needs --zero 3")
    if engine.train == "deepspeed" and config.lora.rank:
        raise UserError("--lora.rank needs --engine torch: adapters train in one process")
    prompts = config.samples_per_step // config.algo.group_size
    if prompts % processes:
        near = max(1, round(prompts / processes)) * processes * config.algo.group_size
        raise UserError(
            f"--samples-per-step {config.samples_per_step} makes {prompts} prompts, which {processes} processes cannot "
            f"share evenly; --samples-per-step {near} can"
        )
