"""What the update needs of whatever holds the weights being trained."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import torch
from torch import Tensor

from algorithms.core import Need, PolicyOutput
from bench.batch import Padded
from bench.config import CriticConfig, EngineConfig, OptimizerConfig
from bench.ground.words import Phase
from bench.meter import Clock

Role = Literal["policy", "critic"]


@dataclass(frozen=True, kw_only=True)
class TrainSetup:
    """What an engine is built by, beside the model."""

    needs: frozenset[Need]  # columns, by which it is decided which networks there are
    temperature: float  # of the sampler, which log-probs are taken at, too
    engine: EngineConfig
    optimizer: OptimizerConfig
    critic: CriticConfig


class TrainEngine(Protocol):
    """Whatever holds the weights being trained: plain torch, DeepSpeed, the test double."""

    device: torch.device
    clock: Clock
    shares_prompts: bool  # whether rows that say that they share a prompt pass it once, where that pays
    not_shared: str  # why not, where the settings leave it open; else empty

    def logprobs(self, padded: Padded) -> Tensor:
        """(b, t) of the policy as it is, no gradient."""
        ...

    def forward(self, padded: Padded, *, entropy_grad: bool) -> PolicyOutput:
        """One differentiable pass of the policy; its entropy carries a gradient only on demand."""
        ...

    def ref_logprobs(self, padded: Padded) -> Tensor:
        """(b, t) of the frozen reference, no gradient."""
        ...

    def renew_reference(self) -> None:
        """Make the reference the policy as it is now."""
        ...

    def park(self) -> None:
        """Give back the device's memory that only `ref_logprobs` needs."""
        ...

    def values(self, padded: Padded) -> Tensor:
        """(b, t) of the critic, differentiable."""
        ...

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of `loss`; losses of one optimizer batch add up."""
        ...

    def step(self, role: Role, lr: float) -> float:
        """Clip, apply and clear the gradient; returns its norm before clipping. One not finite is not applied."""
        ...

    def clear(self, role: Role) -> None:
        """Forget the gradient."""
        ...

    def take_spared(self) -> dict[Phase, int]:
        """Prompt tokens, by phase, that passes since the last call did not repeat."""
        ...

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """The policy's weights by name, as the rollout engine takes them."""
        ...

    def save_state(self, folder: Path) -> None:
        """Write all that resuming needs into a new folder; every rank calls it and writes its part."""
        ...

    def load_state(self, folder: Path) -> None:
        """Take up what `save_state` left."""
        ...

    def memory(self) -> dict[str, int]:
        """Bytes by role, from storages; gradients and activations at their largest since the last call."""
        ...

    def save_model(self, path: Path) -> None:
        """The policy in Hugging Face format, or its adapter in peft's."""
        ...
