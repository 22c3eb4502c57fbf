"""vLLM itself, as it lives in its process. Nothing here runs in the process of the run."""

# vLLM has an environment of its own
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import psutil
from torch import Tensor, nn

from bench.config import EngineConfig, Sampling
from bench.ground.words import GIB
from bench.meter import storage_bytes

EXTENSION = f"{__name__}.Weights"


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What the engine is built from."""

    location: str
    where: EngineConfig
    longest: int  # prompt and completion together, in tokens
    eos: list[int]
    gpu: int = 0
    """Which of the visible ones it shares with the trainer; with tensor parallelism the first ones."""


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """One completion as vLLM gives it."""

    token_ids: list[int]  # (T,) the end token included
    logprobs: list[float]  # (T,) tempered, over the full vocabulary
    sampling_logprobs: list[float]  # (T,) after top-p and top-k


class Host:
    """A vLLM engine whose scheduler runs in this process."""

    def __init__(self, setup: Setup) -> None:
        environment(setup)
        keep_weights_plain()
        from vllm import LLM

        self.setup = setup
        self.on_gpu = setup.where.device == "cuda"
        self.asleep = False
        where = setup.where
        alone = where.tensor_parallel == 1
        self.llm = LLM(
            model=setup.location,
            skip_tokenizer_init=True,
            generation_config="vllm",  # sampling is ours alone
            dtype=where.dtype or "float32",
            max_model_len=setup.longest,
            max_num_seqs=where.rollout_batch_size,
            max_num_batched_tokens=max(setup.longest, where.rollout_batch_size, 8192),
            # part of a prompt draws a number that is thrown away, and a CPU's generator cannot step back
            enable_chunked_prefill=self.on_gpu,
            enable_prefix_caching=True,
            async_scheduling=False,
            logprobs_mode="processed_logprobs",
            logits_processors=["bench.engines.vllm_mass:KeptMass"],
            tensor_parallel_size=where.tensor_parallel,
            distributed_executor_backend="uni" if alone else "mp",
            worker_extension_cls=EXTENSION,
            enforce_eager=not self.on_gpu,
            enable_sleep_mode=self.on_gpu,
            gpu_memory_utilization=where.rollout_memory,
            kv_cache_memory_bytes=None if self.on_gpu else cpu_cache_bytes(setup),
        )

    def held(self) -> tuple[int, int]:
        """Bytes of weights and of key-value cache, over all its devices."""
        each = self.llm.collective_rpc("held")
        return sum(weights for weights, _ in each), sum(cache for _, cache in each)

    def sleep(self) -> None:
        """Free weights and cache; a no-op on a CPU, where vLLM has no such thing."""
        if self.on_gpu and not self.asleep:
            self.llm.sleep(level=2)
            self.asleep = True

    def wake(self) -> None:
        """Take the memory again; what it holds is undefined until it is loaded."""
        if self.asleep:
            self.llm.wake_up()
            self.asleep = False

    def load(self, file: str) -> None:
        """Write some of the weights over the present ones, in place."""
        self.llm.collective_rpc("load_file", args=(file,))

    def loaded(self) -> None:
        """All weights are new: what was cached under the old ones is void.

        Raises:
            RuntimeError: the prefix cache is in use, so that it was not emptied.
        """
        if not self.llm.reset_prefix_cache():
            raise RuntimeError("the prefix cache could not be emptied after a change of weights")

    def generate(self, prompts: Sequence[list[int]], seeds: Sequence[Sequence[int]], sampling: Sampling) -> list[Drawn]:
        """Completions, prompt by prompt and seed by seed."""
        from vllm import SamplingParams

        cut = sampling.temperature > 0 and (sampling.top_p < 1 or sampling.top_k > 0)
        jobs = [(prompt, seed) for prompt, part in zip(prompts, seeds, strict=True) for seed in part]
        parameters = [
            SamplingParams(
                seed=seed,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                top_k=sampling.top_k,
                max_tokens=sampling.generation_budget,
                stop_token_ids=self.setup.eos,
                ignore_eos=True,  # its own; the end tokens are those above
                logprobs=0,  # of the sampled token alone
                detokenize=False,
                extra_args={"kept_mass_of": index} if cut else None,
            )
            for index, (_, seed) in enumerate(jobs)
        ]
        outputs = self.llm.generate([{"prompt_token_ids": prompt} for prompt, _ in jobs], parameters, use_tqdm=False)
        kept: dict[int, list[float]] = self.llm.collective_rpc("take_kept_mass")[0] if cut else {}
        return [drawn(output.outputs[0], kept.get(index)) for index, output in enumerate(outputs)]


def drawn(output: Any, kept: Sequence[float] | None) -> Drawn:  # noqa: ANN401 - vLLM's completion
    """The figure reported is of the distribution drawn from; the log of the kept mass leads to the full one."""
    ids = list(output.token_ids)
    sampling = [step[token].logprob for token, step in zip(ids, output.logprobs, strict=True)]
    full = sampling if kept is None else [s + k for s, k in zip(sampling, kept, strict=False)]
    return Drawn(token_ids=ids, logprobs=full, sampling_logprobs=sampling)


def environment(setup: Setup) -> None:
    """Set the switches that vLLM reads when it is imported."""
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)  # the trainer's own ranks, where it has several
    os.environ |= {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_USE_V2_MODEL_RUNNER": "0",  # the runner that the seeds and the kept mass were tried with
        "VLLM_NO_USAGE_STATS": "1",
    }
    if setup.where.device == "cpu":
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")  # OMP_NUM_THREADS decides
    elif setup.where.tensor_parallel == 1:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        os.environ["CUDA_VISIBLE_DEVICES"] = visible.split(",")[setup.gpu] if visible else str(setup.gpu)


def cpu_cache_bytes(setup: Setup) -> int:
    """Room for a full batch of the longest sequences, within the share of memory that it may take."""
    from transformers import AutoConfig

    from bench.models.shape import ModelShape

    share = int(psutil.virtual_memory().total * setup.where.rollout_memory)
    try:
        shape = ModelShape.from_config(AutoConfig.from_pretrained(setup.location))
    except ValueError:  # a family whose sizes are not known here
        return min(share, 4 * GIB)
    width = 2 if setup.where.dtype == "bfloat16" else 4
    block = 128  # tokens of a block of the cache on a CPU
    tokens = -(-setup.longest // block) * block * (setup.where.rollout_batch_size + 1)
    return min(share, tokens * width * shape.layers * shape.kv_heads * (shape.head_dim + shape.value_dim))


class Weights:
    """What vLLM mixes into its worker, on each device."""

    model_runner: Any

    def load_file(self, file: str) -> None:
        """Copy these weights into the model."""
        from safetensors import safe_open

        def read() -> Iterator[tuple[str, Tensor]]:
            with safe_open(file, framework="pt") as opened:
                for name in opened.keys():  # noqa: SIM118 - no mapping
                    yield name, opened.get_tensor(name)

        self.model_runner.model.load_weights(read())

    def held(self) -> tuple[int, int]:
        """Bytes of weights and of key-value cache."""
        model: nn.Module = self.model_runner.model
        caches: list[Tensor] = self.model_runner.kv_caches
        return storage_bytes(chain(model.parameters(), model.buffers())), storage_bytes(caches)

    def take_kept_mass(self) -> dict[int, list[float]]:
        """See `vllm_mass`."""
        from bench.engines import vllm_mass

        return vllm_mass.take()


def keep_weights_plain() -> None:
    """On a CPU vLLM packs a copy of each weight for its matrix products and drops the weight, which `load_weights`
    then cannot find, or, for tied embeddings, updates without effect. Plain products read the weight itself.
    """
    from vllm.model_executor.layers import utils
    from vllm.platforms import current_platform

    def plain(layer: Any, remove_weight: bool) -> None:  # noqa: ANN401 - vLLM's signature
        del remove_weight
        layer.cpu_linear = nn.functional.linear

    if current_platform.is_cpu():
        utils.dispatch_cpu_unquantized_gemm = plain
