"""The harness's own loop around a random model."""

from dataclasses import replace
from typing import Any

from transformers import PreTrainedModel

from algorithms.core import Algorithm
from bench.config import CriticConfig, EngineConfig, OptimizerConfig, RunConfig, Sampling
from bench.engines.hf import HFRollout
from bench.engines.torch_train import TorchEngine
from bench.loop import Parts, at_start, one_step
from bench.meter import Meter
from bench.models import lora
from bench.models.shape import ModelShape
from bench.trainer import TrainSetup
from bench.work import Work, measured_peak
from scripts.gpu_acceptance.parts import Figures
from scripts.gpu_acceptance.random_models import Bench, Parity


def settings(bench: Bench, algo: Algorithm, size: str, **engine: Any) -> RunConfig:  # noqa: ANN401 - EngineConfig's
    """Resolved, as a run's are."""
    where: dict[str, Any] = {
        "dtype": bench.dtype,
        "micro_batch_tokens": bench.micro_batch_tokens,
        "train": "torch",
        "zero": 0,
    }
    return RunConfig(
        algo=algo,
        task=Parity(bench.prompt_tokens, bench.sizes(size)["vocab_size"]),
        samples_per_step=bench.samples,
        sampling=Sampling(max_new_tokens=bench.completion_tokens),
        optimizer=OptimizerConfig(lr=1e-6, warmup_steps=0),
        critic=CriticConfig(lr=1e-5, warmup_steps=0),
        engine=EngineConfig(**(where | engine)),
    )


def parts_of(bench: Bench, config: RunConfig, size: str, model: PreTrainedModel, **more: Any) -> Parts:  # noqa: ANN401
    """What a run's loop is given."""
    tokenizer = bench.tokenizer(size)
    trainer = TorchEngine(
        model,
        tokenizer,
        TrainSetup(
            needs=config.algo.needs,
            temperature=1.0,
            engine=config.engine,
            optimizer=config.optimizer,
            critic=config.critic,
        ),
    )
    shape = replace(
        ModelShape.from_config(model.config), adapters=sum(p.numel() for p in lora.adapter_parameters(model))
    )
    return Parts(
        config=config,
        task=config.task,
        problems=config.task.problems("train"),
        sampler=HFRollout(model, tokenizer, config.engine),
        trainer=trainer,
        meter=Meter(bench.device),
        work=Work(shape, measured_peak(bench.device, config.engine.dtype)),
        **more,
    )


def steps(parts: Parts, count: int) -> list[Figures]:
    """That many steps' rows."""
    state = at_start(parts.config.algo, parts.work)
    return [one_step(parts, state, 0.0).row for _ in range(count)]
