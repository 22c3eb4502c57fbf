"""Tokens a second of each phase, beside this machine's own rates in the same run. Reports; decides nothing.

python -m pytest tests/perf -q --benchmark-only
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from bench.batch import sequences
from bench.config import ASSETS, CriticConfig, EngineConfig, OptimizerConfig, Sampling
from bench.engines.hf import HFRollout
from bench.engines.torch_train import TorchEngine
from bench.models.flops import backward_flops, decode_flops, forward_flops, prefill_flops
from bench.models.load import load_model, load_tokenizer
from bench.models.shape import ModelShape
from bench.rollout import Sample, generate
from bench.trainer import TrainSetup
from bench.work import measured_peak
from tasks import TASKS

LOCATION = str(ASSETS / "gsm8k")
GROUPS, GROUP_SIZE = 16, 8


class Setup:
    """The embedded model with one batch of its own completions."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.model = load_model(LOCATION)
        self.tokenizer = load_tokenizer(LOCATION)
        config = EngineConfig(device="cpu")
        self.sampler = HFRollout(self.model, self.tokenizer, config)
        self.trainer = TorchEngine(
            self.model,
            self.tokenizer,
            TrainSetup(
                needs=frozenset(),
                temperature=1.0,
                engine=config,
                optimizer=OptimizerConfig(lr=0.0),
                critic=CriticConfig(lr=0.0),
            ),
        )
        self.problems = TASKS["gsm8k"]().problems("test")[:GROUPS]
        samples = self.rollout()
        self.rows = sequences(samples)
        self.prompts, self.completions = self.rows.prompt_lengths.tolist(), self.rows.lengths.tolist()
        self.shape = ModelShape.from_config(self.model.config)
        self.peak = measured_peak(torch.device("cpu"), "float32")

    def rollout(self) -> list[Sample]:
        return generate(self.sampler, self.problems, GROUP_SIZE, Sampling(max_new_tokens=64), ("perf",))

    def logprobs(self) -> None:
        self.trainer.logprobs(self.rows.pad(torch.arange(len(self.rows))))

    def update(self) -> None:
        self.trainer.forward(self.rows.pad(torch.arange(len(self.rows))), entropy_grad=False).logprobs.sum().backward()
        self.trainer.step("policy", 0.0)


@pytest.fixture(scope="module")
def setup() -> Setup:
    return Setup()


def report(benchmark: Any, setup: Setup, run: Callable[[], Any], operations: int) -> None:  # noqa: ANN401 - a fixture
    """Time it, and add tokens a second and the share of the matrix-product rate."""
    benchmark.pedantic(run, rounds=5, warmup_rounds=1)
    assert min(setup.completions) > 0
    if benchmark.disabled:  # beside other tests a time says nothing
        return
    seconds = benchmark.stats.stats.min
    benchmark.extra_info["tokens_per_s"] = round(sum(setup.completions) / seconds)
    benchmark.extra_info["share_of_gemm_rate"] = round(operations / seconds / setup.peak, 3)


def test_rollout(benchmark: Any, setup: Setup) -> None:  # noqa: ANN401
    operations = prefill_flops(setup.shape, setup.prompts[::GROUP_SIZE])
    operations += decode_flops(setup.shape, setup.prompts, setup.completions)
    report(benchmark, setup, setup.rollout, operations)


def test_logprobs(benchmark: Any, setup: Setup) -> None:  # noqa: ANN401
    report(benchmark, setup, setup.logprobs, forward_flops(setup.shape, setup.prompts, setup.completions))


def test_update(benchmark: Any, setup: Setup) -> None:  # noqa: ANN401
    operations = forward_flops(setup.shape, setup.prompts, setup.completions)
    operations += backward_flops(setup.shape, setup.prompts, setup.completions)
    report(benchmark, setup, setup.update, operations)


def test_memory_bandwidth(benchmark: Any) -> None:  # noqa: ANN401
    """Reading a matrix far larger than the caches: what decoding a large model at batch 1 is bound by."""
    matrix, vector = torch.ones(4096, 4096), torch.ones(4096)
    result = benchmark.pedantic(lambda: matrix @ vector, rounds=5, warmup_rounds=1)
    assert (result == 4096).all()
    if not benchmark.disabled:
        benchmark.extra_info["gib_per_s"] = round(matrix.nbytes / benchmark.stats.stats.min / 2**30, 1)
