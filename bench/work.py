"""What a step cost: counted operations, rates, and bytes by role."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import psutil
import torch

from algorithms.core import Algorithm
from bench.config import RunConfig
from bench.ground.words import GIB, Phase
from bench.models import flops
from bench.models.shape import ModelShape
from bench.ranks import Ranks
from bench.reward import Route
from bench.rollout import Rollout


class Work:
    """Counts one model's work against one machine's peak rate (operations a second).

    `shape` is None for an architecture whose work is not counted. Where any model's is not, all figures are absent.
    """

    def __init__(self, shape: ModelShape | None, peak_per_s: float) -> None:
        self.shape = shape
        self.peak_per_s = peak_per_s

    def step(
        self,
        generated: Sequence[Rollout],
        kept: Sequence[Rollout],
        algorithm: Algorithm,
        config: RunConfig,
        scoring: Mapping[Phase, int],
        *,
        policy_updated: bool,
    ) -> dict[Phase, int]:
        """Operations of one step by phase: rollouts that were thrown away, and every model included.

        `scoring` is what `scoring_work` counted.
        """
        if self.shape is None:
            return {}
        prompts, completions = lengths(generated)
        sampler = self.shape if config.engine.rollout == "hf" else replace(self.shape, adapters=0)  # others merge them
        rollout = flops.prefill_flops(sampler, prompts[:: algorithm.group_size])
        rollout += flops.decode_flops(sampler, prompts, completions)
        policy, critic = (self._passes(kept, config, head) for head in (None, 1))
        passes = 2 if "ref_logprobs" in algorithm.needs else 1
        logprobs, update = passes * policy.forward, algorithm.num_epochs * policy_updated * policy.both
        if "values" in algorithm.needs:
            logprobs += critic.forward
            update += config.critic.num_epochs * critic.both
        return {"rollout": rollout, "logprobs": logprobs, "update": update, **scoring}

    def less(self, work: Mapping[Phase, int], spared: Mapping[str, float]) -> dict[Phase, int]:
        """Operations by phase less those of prompt tokens that passes did not repeat, which no attention was spared."""
        if self.shape is None:
            return {}
        each = flops.layer_flops(self.shape, 1, 0)
        costs = {"logprobs": each, "update": flops.trained_token_flops(self.shape)}
        return {phase: done - int(spared.get(phase, 0)) * costs.get(phase, 0) for phase, done in work.items()}

    def _passes(self, kept: Sequence[Rollout], config: RunConfig, head: int | None) -> "Operations":
        assert self.shape is not None
        prompts, completions = lengths(kept)
        forward = flops.forward_flops(self.shape, prompts, completions, head=head)
        backward = flops.backward_flops(self.shape, prompts, completions, head=head)
        if config.engine.gradient_checkpointing:
            backward += flops.recompute_flops(self.shape, prompts, completions)
        return Operations(forward=forward, both=forward + backward)

    def rates(
        self, measured: dict[str, float], generated: int, trained: int, work: dict[Phase, int]
    ) -> dict[str, float]:
        """Tokens a second in the phase that handles them (prompts not counted), shares of the peak, the load."""
        rates = {
            "perf/generated_tokens_per_s": generated / measured["time/rollout_s"],
            "perf/trained_tokens_per_s": trained / measured["time/update_s"],
            "perf/load": psutil.getloadavg()[0] / (psutil.cpu_count() or 1),
        }
        for phase, operations in work.items():
            rates[f"perf/mfu/{phase}"] = operations / measured[f"time/{phase}_s"] / self.peak_per_s
        if work:
            rates["perf/mfu"] = sum(work.values()) / measured["time/step_s"] / self.peak_per_s
        return rates


@dataclass(frozen=True, kw_only=True)
class Operations:
    """Operations over one step's rows."""

    forward: int
    both: int  # forward and backward


@dataclass(frozen=True, kw_only=True)
class Held:
    """Bytes that a step's engines hold, on this rank."""

    roles: Mapping[str, int]
    asleep: int
    """Of these, what the sampler gives back while the trainer works."""


def memory_row(held: Held, measured: Mapping[str, float], ranks: Ranks) -> dict[str, float]:
    """`memory/<role>_gib` from storages, their sum, and what of the update's peak they do not explain."""
    roles = ranks.largest(dict(held.roles))
    together = sum(size for role, size in roles.items() if not role.endswith("_host")) / GIB
    row = {f"memory/{role}_gib": size / GIB for role, size in roles.items()}
    row["memory/roles_gib"] = together
    if "memory/peak_gib/update" in measured:
        row["memory/unexplained_gib"] = measured["memory/peak_gib/update"] - (together - held.asleep / GIB)
    return row


def scoring_work(routes: Sequence[Route], ranks: Ranks) -> dict[Phase, int]:
    """Operations of a step's scores by learned rewards, over all ranks; their one output is not counted."""
    shapes = [route.engine.shape for route in routes if route.engine.shape is not None]
    if not routes or len(shapes) < len(routes):
        return {}
    work = 0
    for route, shape in zip(routes, shapes, strict=True):
        mine = route.engine.take_lengths()
        work += flops.layer_flops(shape, sum(mine), sum(n * n for n in mine))
    return {"reward_model": int(ranks.sum({"work": work})["work"])}


def lengths(rollouts: Sequence[Rollout]) -> tuple[list[int], list[int]]:
    """Prompt and completion lengths, row by row."""
    return [len(r.prompt_ids) for r in rollouts], [len(r.completion.token_ids) for r in rollouts]


def measured_peak(device: torch.device, dtype: str | None, size: int = 1024, repeats: int = 5) -> float:
    """Operations a second of this machine's own matrix product, the best of a few: the peak that shares refer to."""
    kind = torch.bfloat16 if dtype == "bfloat16" else torch.float32
    size = 8192 if device.type == "cuda" else size
    a = torch.randn(size, size, device=device, dtype=kind)
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        product = a @ a
        float(product[0, 0])  # waits for the device
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best
