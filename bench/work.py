"""What a step cost: counted operations, rates, and bytes by role."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from algorithms.core import Algorithm
from bench import flops
from bench.config import RunConfig
from bench.meter import GIB
from bench.rollout import Rollout
from bench.shape import ModelShape

if TYPE_CHECKING:
    from bench.run import Parts


class Work:
    """Counts one model's work against one machine's peak rate (operations a second).

    `shape` is None for an architecture whose work is not counted; its figures are then absent.
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
        *,
        policy_updated: bool,
    ) -> int | None:
        """Operations of one step: rollouts that were thrown away, reference and critic included."""
        if self.shape is None:
            return None
        prompts, completions = lengths(generated)
        total = flops.prefill_flops(self.shape, prompts[:: algorithm.group_size])
        total += flops.decode_flops(self.shape, prompts, completions)
        prompts, completions = lengths(kept)
        forward = flops.forward_flops(self.shape, prompts, completions)
        backward = flops.backward_flops(self.shape, prompts, completions)
        if config.engine.gradient_checkpointing:
            backward += flops.recompute_flops(self.shape, prompts, completions)
        total += forward * (2 if "ref_logprobs" in algorithm.needs else 1)
        total += (forward + backward) * algorithm.num_epochs * policy_updated
        if "values" in algorithm.needs:
            forward = flops.forward_flops(self.shape, prompts, completions, head=1)
            backward = flops.backward_flops(self.shape, prompts, completions, head=1)
            total += forward + (forward + backward) * config.critic.num_epochs
        return total

    def rates(
        self, measured: dict[str, float], generated: int, trained: int, work: int | None, seconds: float
    ) -> dict[str, float | None]:
        """Tokens a second in the phase that handles them (prompts not counted), and the share of the machine's peak."""
        return {
            "perf/generated_tokens_per_s": generated / measured["time/rollout_s"],
            "perf/trained_tokens_per_s": trained / measured["time/update_s"],
            "perf/mfu": None if work is None else work / seconds / self.peak_per_s,
        }

    def memory(self, parts: "Parts", measured: dict[str, float]) -> dict[str, Any]:
        """`memory/<role>_gib` from storages, their sum, and what of the update's peak they do not explain."""
        roles = parts.trainer.memory() | {"kv_cache": parts.rollout.cache_bytes}
        held = sum(roles.values()) / GIB
        row: dict[str, Any] = {f"memory/{role}_gib": size / GIB for role, size in roles.items()}
        row["memory/roles_gib"] = held
        if "memory/peak_gib/update" in measured:
            explained = held - roles["kv_cache"] / GIB
            row["memory/unexplained_gib"] = measured["memory/peak_gib/update"] - explained
        return row


def lengths(rollouts: Sequence[Rollout]) -> tuple[list[int], list[int]]:
    """Prompt and completion lengths, row by row."""
    return [len(r.prompt_ids) for r in rollouts], [len(r.completion.token_ids) for r in rollouts]


def measured_peak(device: torch.device, dtype: str, size: int = 1024, repeats: int = 5) -> float:
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
