"""What a method computes, in numbers: formulas on a stored batch, and whole training steps on stored rollouts.

`measure` gives flat names and numbers, the same on every machine within 1e-6, since nothing is sampled and everything
is float64:

    setting/<field>, needs/<column>, refuses/<what>           the method's defaults and what it accepts
    formula/<variant>/...                                     loss, gradient in the logits, metrics
    training/<variant>/update <i> <role> loss | grad_norm     every optimizer update
    training/<variant>/step <i> <metric>                      every metric of the loop that no clock decides
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, cast

import torch
from torch import Tensor

from algorithms.core import Algorithm
from bench.config import CriticConfig, EngineConfig, EvalConfig, OptimizerConfig, RunConfig, Sampling
from bench.engines.torch_train import TorchEngine
from bench.gate.formulas import formulas
from bench.gate.stored import BUDGET, StoredRollouts, StoredTask, stored_model
from bench.ground.tree import plain
from bench.loop import LOOP_VERSION, Parts, at_start, train
from bench.meter import Meter
from bench.trainer import Role, TrainSetup
from bench.work import Work

Numbers = dict[str, float | str]
RELATIVE, ABSOLUTE = 1e-6, 1e-9
CLOCKS = ("time/", "perf/", "memory/", "profile/", "cost/device_s")

# Each turns on what the others leave off. Fields that a method does not have are left out.
VARIANTS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "kl in the loss": {
        "kl_coef": 0.1,
        "kl_place": "loss",
        "kl_estimator": "k3",
        "entropy_coef": 0.05,
        "correction": "token",
        "mask_truncated": True,
        "clip_ratio": 0.1,
        "clip_ratio_high": 0.15,
        "dual_clip": 1.3,
        "spread": "population",
        "gamma": 0.97,
        "gae_lambda": 0.9,
        "gae_lambda_critic": 0.8,
        "overlong_frac": 0.5,
        "ratio_cap": 1.1,
        "num_epochs": 2,
    },
    "kl in the reward": {
        "kl_coef": 0.1,
        "kl_place": "reward",
        "kl_estimator": "k1",
        "entropy_coef": 0.01,
        "entropy_target": 2.7,
        "correction": "sequence",
        "correction_mode": "mask",
        "spread": "batch",
        "whiten": "none",
        "baseline": "group",
        "value_clip": None,
        "gae_lambda": 0.95,
        "gae_length_alpha": 0.3,
        "ratio_level": "sequence",
        "group_size": 4,
    },
    "kl times the ratio": {
        "kl_coef": 0.2,
        "kl_place": "loss",
        "kl_estimator": "k2",
        "kl_times_ratio": True,
        "correction": "sequence",
        "correction_cap": 1.2,
        "dynamic_sampling": False,
        "gae_length_alpha": None,
        "gamma": 0.9,
        "aggregation": "constant",
    },
}
CONTRADICTIONS: dict[str, dict[str, Any]] = {
    "a group of one": {"group_size": 1},
    "no minibatch": {"num_minibatches": 0},
    "k1 as a loss": {"kl_coef": 0.1, "kl_place": "loss", "kl_estimator": "k1"},
    "a ratio on no KL": {"kl_coef": 0.0, "kl_times_ratio": True},
    "a negative KL": {"kl_coef": -0.1},
    "a correction capped at 0": {"correction_cap": 0.0},
    "a clip of 0": {"clip_ratio": 0.0},
    "lambda above 1": {"gae_lambda": 1.5},
}


def version_of_formulas(algorithm: type[Algorithm]) -> str:
    """Under which a method's numbers are stored: its formulas' version and the loop's."""
    return f"{algorithm.formula_version}.{LOOP_VERSION}"


def measure_golden(algorithm: type[Algorithm]) -> Numbers:
    """Everything that is held against the golden."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the order of a sum must not depend on the machine
    try:
        return dict(results(algorithm))
    finally:
        torch.set_num_threads(threads)


def results(algorithm: type[Algorithm]) -> Iterator[tuple[str, float | str]]:
    """One by one."""
    defaults = algorithm()
    for name, value in plain(defaults).items():
        yield f"setting/{name}", float(value) if type(value) in (int, float) else str(value)
    yield "setting/max_rounds", float(defaults.max_rounds)
    for column in ("ref_logprobs", "values", "entropy"):
        yield f"needs/{column}", str(column in defaults.needs)
    for name, settings in CONTRADICTIONS.items():
        if known := settings_of(algorithm, settings):
            yield f"refuses/{name}", str(built(algorithm, known) is None)
    for variant, settings in VARIANTS.items():
        chosen = settings_of(algorithm, settings)
        if built(algorithm, chosen) is None:  # a method whose own filter stands where the correction would
            chosen.pop("correction", None)
        method = built(algorithm, chosen)
        if method is None:
            yield f"refuses/{variant}", "True"
            continue
        yield from results_or_error(f"formula/{variant}", formulas, method)
        small = built(algorithm, {"group_size": min(method.group_size, 4)} | chosen) or method
        yield from results_or_error(f"training/{variant}", training, small)


def results_or_error(
    prefix: str, compute: Callable[[Algorithm], Iterable[tuple[str, float]]], method: Algorithm
) -> Iterator[tuple[str, float | str]]:
    """What is computed; that it raises is a result, too."""
    try:
        yield from ((f"{prefix}/{name}", value) for name, value in list(compute(method)))
    except Exception as error:
        yield f"{prefix}/error", f"{type(error).__name__}: {error}"


def settings_of(algorithm: type[Algorithm], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a method has."""
    known = {f.name for f in fields(algorithm)}
    return {name: value for name, value in settings.items() if name in known}


def built(algorithm: type[Algorithm], settings: Mapping[str, Any]) -> Algorithm | None:
    """The method with these settings; None where it refuses them."""
    try:
        return algorithm(**settings)
    except ValueError:
        return None


class Watched(TorchEngine):
    """The real engine, which also keeps each update's loss and gradient norm."""

    updates: list[tuple[Role, float, float]]
    pending = 0.0

    def backward(self, loss: Tensor) -> None:
        """Add to the gradients."""
        self.pending += float(loss.detach())
        super().backward(loss)

    def step(self, role: Role, lr: float) -> float:
        """Clip and apply."""
        norm = super().step(role, lr)
        self.updates.append((role, self.pending, norm))
        self.pending = 0.0
        return norm


def training(method: Algorithm) -> Iterator[tuple[str, float]]:
    """Five steps of the real loop on stored rollouts: at least ten updates, whose ratios leave 1 and clip."""
    config = stored_config(method)
    model = stored_model()
    engine = Watched(
        cast("Any", model),
        cast("Any", None),  # a tokenizer is read by nothing here
        TrainSetup(
            needs=method.needs,
            temperature=config.sampling.temperature,
            engine=config.engine,
            optimizer=config.optimizer,
            critic=config.critic,
        ),
    )
    engine.updates = []
    parts = Parts(
        config=config,
        task=config.task,
        problems=config.task.problems("train"),
        sampler=StoredRollouts(),
        trainer=engine,
        meter=Meter(engine.device),
        work=Work(None, 1.0),
    )
    for step in train(parts, at_start(method, parts.work)):
        for name, value in step.row.items():
            if not name.startswith(CLOCKS) and value is not None:
                yield f"step {step.row['step']} {name}", float(value)
    for i, (role, loss, norm) in enumerate(engine.updates, start=1):
        yield f"update {i} {role} loss", loss
        yield f"update {i} {role} grad_norm", norm


def stored_config(method: Algorithm) -> RunConfig:
    """Rates large enough that ratios clip within a step, and micro-batches of three rows or so."""
    return RunConfig(
        algo=method,
        task=StoredTask(),
        budget="steps=5",
        samples_per_step=16,
        sampling=Sampling(max_new_tokens=BUDGET, temperature=0.9),
        optimizer=OptimizerConfig(lr=0.02, schedule="linear", warmup_steps=2),
        critic=CriticConfig(lr=0.05, warmup_steps=2),
        engine=EngineConfig(device="cpu", micro_batch_tokens=40),
        eval=EvalConfig(limit=0),
    )


def is_same_result(old: float | str | None, new: float | str | None) -> bool:
    """Whether two results are one. What is not finite equals nothing."""
    if isinstance(old, float) and isinstance(new, float):
        return math.isfinite(new) and abs(new - old) <= ABSOLUTE + RELATIVE * abs(old)
    return old == new
