"""Training in plain torch, on one device."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from bench.engines.networks import Networks
from bench.meter import storage_bytes
from bench.models.load import lora, weights_for
from bench.trainer import Role, TrainSetup


def trained(module: nn.Module) -> list[nn.Parameter]:
    """Parameters that the optimizer moves."""
    return [p for p in module.parameters() if p.requires_grad]


def learnt(module: nn.Module) -> dict[str, Tensor]:
    """A module's state less its frozen parameters."""
    frozen = {name for name, p in module.named_parameters(remove_duplicate=False) if not p.requires_grad}
    return {name: value for name, value in module.state_dict().items() if name not in frozen}


class TorchEngine(Networks):
    """A `TrainEngine` on one device."""

    def __init__(self, policy: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, setup: TrainSetup) -> None:
        super().__init__(policy, tokenizer, setup, policy.device)
        optimizer = setup.optimizer
        self.clips: dict[Role, float] = {"policy": optimizer.grad_clip, "critic": setup.critic.grad_clip}
        self._gradients: dict[Role, int] = {}
        self.optimizers: dict[Role, torch.optim.Optimizer] = {
            role: torch.optim.AdamW(
                trained(module),
                lr=0.0,
                betas=optimizer.betas,
                eps=optimizer.eps,
                weight_decay=optimizer.weight_decay,
                fused=True,
            )
            for role, module in self.modules.items()
        }

    def backward(self, loss: Tensor) -> None:
        """Add to the gradients."""
        with self.clock("backward"):
            loss.backward()

    def step(self, role: Role, lr: float) -> float:
        """Clip and apply; a norm that is not finite applies nothing."""
        optimizer = self.optimizers[role]
        self._gradients[role] = storage_bytes(p.grad for p in self.modules[role].parameters() if p.grad is not None)
        with self.clock("optimizer"):
            norm = float(nn.utils.clip_grad_norm_(trained(self.modules[role]), self.clips[role]))
            if norm < float("inf"):
                for group in optimizer.param_groups:
                    group["lr"] = lr
                optimizer.step()
        self.clear(role)
        return norm

    def clear(self, role: Role) -> None:
        """Forget the gradient, and give its memory back."""
        self.optimizers[role].zero_grad(set_to_none=True)

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """The policy's, by name, as the rollout engine takes them."""
        return weights_for(self.where.rollout, self.policy)

    def save_state(self, folder: Path) -> None:
        """Policy and critic without what is frozen, both optimizers and, where there is one, the reference."""
        folder.mkdir()
        state = {
            "modules": {role: learnt(module) for role, module in self.modules.items()},
            "optimizers": {role: optimizer.state_dict() for role, optimizer in self.optimizers.items()},
            "reference": self.reference.state() if self.reference is not None else None,
        }
        torch.save(state, folder / "engine.pt")

    def load_state(self, folder: Path) -> None:
        """Exactly what `save_state` wrote."""
        state: dict[str, Any] = torch.load(folder / "engine.pt", map_location=self.device, weights_only=True)
        for role, module in self.modules.items():
            module.load_state_dict(module.state_dict() | state["modules"][role])
            self.optimizers[role].load_state_dict(state["optimizers"][role])
        if self.reference is not None:
            self.reference.load_state(state["reference"])

    def memory(self) -> dict[str, int]:
        """Bytes by role. Policy and critic never hold gradients at once: each clears its own first."""
        states = (
            t for o in self.optimizers.values() for s in o.state.values() for t in s.values() if isinstance(t, Tensor)
        )
        held = self.held(states) | {"gradients": max(self._gradients.values(), default=0)}
        self._gradients = {}
        return held

    def save_model(self, path: Path) -> None:
        """The policy in Hugging Face format, or its adapter in peft's."""
        if lora.is_adapted(self.policy):
            lora.save_adapters(self.policy, path)
        else:
            self.policy.save_pretrained(path)
        self.tokenizer.save_pretrained(path)
