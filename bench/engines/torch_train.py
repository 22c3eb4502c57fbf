"""Training in plain torch: policy, and where they are needed a critic and a frozen reference."""

import copy
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from algorithms.core import Need, PolicyOutput
from bench.batch import Padded
from bench.config import CriticConfig, EngineConfig, OptimizerConfig
from bench.meter import Clock, storage_bytes
from bench.models import autocast, named_weights, output_layer
from bench.trainer import Role

ENTROPY_ROWS = 4096  # tokens whose (rows, V) distributions exist at once where only the number is wanted


class Critic(nn.Module):
    """The policy's architecture with a scalar head that starts at 0: V(s) (b, l) for every position."""

    def __init__(self, policy: PreTrainedModel) -> None:
        super().__init__()
        self.backbone = copy.deepcopy(policy.base_model)
        self.head = nn.Linear(policy.config.get_text_config().hidden_size, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, padded: Padded) -> Tensor:
        """(b, t) the value of the state that each generated token was drawn from."""
        hidden = self.backbone(input_ids=padded.tokens, use_cache=False).last_hidden_state
        return padded.unflatten(self.head(padded.states(hidden))[:, 0].float())


def token_logprobs(model: PreTrainedModel, padded: Padded, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probs of the generated tokens, and the tempered logits behind them.

    Rows are right-padded, so causal attention alone keeps padding out; logits exist for generated tokens only; the
    log-prob is a gather less a log-sum-exp, in float32, so no (b, t, V) log-softmax is made.

    Returns:
        (n,) and (n, V), row by row.
    """
    hidden = model.base_model(input_ids=padded.tokens, use_cache=False).last_hidden_state
    logits = output_layer(model)(padded.states(hidden)).float()
    if temperature != 1:
        logits = logits / temperature
    return logits.gather(-1, padded.targets[:, None])[:, 0] - logits.logsumexp(-1), logits


def entropy(logits: Tensor) -> Tensor:
    """(n, V) -> (n,) in nats."""
    logprobs = logits.log_softmax(-1)
    return -(logprobs.exp() * logprobs).sum(-1)


def _tensors(module: nn.Module) -> Iterator[Tensor]:
    yield from module.parameters()
    yield from module.buffers()


class TorchEngine:
    """A `TrainEngine` on one device."""

    def __init__(
        self,
        policy: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        needs: frozenset[Need],
        temperature: float,
        engine: EngineConfig,
        optimizer: OptimizerConfig,
        critic: CriticConfig,
    ) -> None:
        self.policy = policy
        self.tokenizer = tokenizer
        self.temperature = temperature
        self.engine = engine
        self.device = policy.device
        self.reference = copy.deepcopy(policy).requires_grad_(False) if "ref_logprobs" in needs else None
        self.modules: dict[Role, nn.Module] = {"policy": policy}
        self.clips: dict[Role, float] = {"policy": optimizer.grad_clip}
        if "values" in needs:
            self.modules["critic"] = Critic(policy).to(self.device)
            self.clips["critic"] = critic.grad_clip
        if engine.gradient_checkpointing:
            for backbone in [policy.base_model] + (
                [cast("Critic", self.modules["critic"]).backbone] if "values" in needs else []
            ):
                cast("PreTrainedModel", backbone).activation_checkpointing_enable({"use_reentrant": False})
                backbone.train()  # without dropout this switches nothing but the checkpointing on
        self._gradients: dict[Role, int] = {}
        self._activations = 0
        self.clock = Clock(self.device)
        self.optimizers: dict[Role, torch.optim.Optimizer] = {
            role: torch.optim.AdamW(
                module.parameters(), lr=0.0, betas=optimizer.betas, weight_decay=optimizer.weight_decay, fused=True
            )
            for role, module in self.modules.items()
        }

    def logprobs(self, padded: Padded) -> Tensor:
        """(b, t), no gradient."""
        return self._logprobs(self.policy, padded)

    def ref_logprobs(self, padded: Padded) -> Tensor:
        """(b, t), no gradient."""
        assert self.reference is not None, "no reference was built: the algorithm does not list ref_logprobs"
        return self._logprobs(self.reference, padded)

    @torch.no_grad()
    def _logprobs(self, model: PreTrainedModel, padded: Padded) -> Tensor:
        padded = self._place(padded)
        with autocast(self.device, self.engine.dtype):
            return padded.unflatten(token_logprobs(model, padded, self.temperature)[0])

    def forward(self, padded: Padded, *, entropy_grad: bool) -> PolicyOutput:
        """(b, t) each."""
        padded = self._place(padded)
        with self.clock("forward"):
            with autocast(self.device, self.engine.dtype), self._count_saved("policy"):
                logprobs, logits = token_logprobs(self.policy, padded, self.temperature)
            if entropy_grad:
                spread = entropy(logits)
            else:
                spread = torch.cat([entropy(part) for part in logits.detach().split(ENTROPY_ROWS)])
        return PolicyOutput(logprobs=padded.unflatten(logprobs), entropy=padded.unflatten(spread))

    def values(self, padded: Padded) -> Tensor:
        """(b, t), differentiable."""
        with self.clock("forward"), autocast(self.device, self.engine.dtype), self._count_saved("critic"):
            return self.modules["critic"](self._place(padded))

    def backward(self, loss: Tensor) -> None:
        """Add to the gradients."""
        with self.clock("backward"):
            loss.backward()

    def step(self, role: Role, lr: float) -> float:
        """Clip and apply; a norm that is not finite applies nothing."""
        optimizer = self.optimizers[role]
        self._gradients[role] = storage_bytes(p.grad for p in self.modules[role].parameters() if p.grad is not None)
        with self.clock("optimizer"):
            norm = float(nn.utils.clip_grad_norm_(self.modules[role].parameters(), self.clips[role]))
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
        """The policy's, by name."""
        return named_weights(self.policy)

    def state(self) -> dict[str, Any]:
        """Policy, critic, both optimizers and, where there is one, the reference."""
        return {
            "modules": {role: module.state_dict() for role, module in self.modules.items()},
            "optimizers": {role: optimizer.state_dict() for role, optimizer in self.optimizers.items()},
            "reference": self.reference.state_dict() if self.reference is not None else None,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Exactly what `state` gave."""
        for role, module in self.modules.items():
            module.load_state_dict(state["modules"][role])
            self.optimizers[role].load_state_dict(state["optimizers"][role])
        if self.reference is not None:
            self.reference.load_state_dict(state["reference"])

    def memory(self) -> dict[str, int]:
        """Bytes by role. Policy and critic never hold gradients at once: each clears its own first."""
        held: dict[str, int] = {str(role): storage_bytes(_tensors(module)) for role, module in self.modules.items()}
        if self.reference is not None:
            held["reference"] = storage_bytes(_tensors(self.reference))
        states = (
            t for o in self.optimizers.values() for s in o.state.values() for t in s.values() if isinstance(t, Tensor)
        )
        held["optimizer"] = storage_bytes(states)
        held["gradients"] = max(self._gradients.values(), default=0)
        held["activations"] = self._activations
        self._gradients, self._activations = {}, 0
        return held

    @contextmanager
    def _count_saved(self, role: Role) -> Generator[None]:
        """Bytes that autograd keeps for the backward pass, weights apart: what a micro-batch's activations take."""
        if not torch.is_grad_enabled():
            yield
            return
        weights = {p.untyped_storage().data_ptr() for p in self.modules[role].parameters()}
        saved: dict[int, int] = {}

        def keep(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in weights:
                saved[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            yield
        self._activations = max(self._activations, sum(saved.values()))

    def save_model(self, path: Path) -> None:
        """The policy in Hugging Face format."""
        self.policy.save_pretrained(path)
        self.tokenizer.save_pretrained(path)

    def _place(self, padded: Padded) -> Padded:
        return Padded(
            tokens=padded.tokens.to(self.device),
            prompt_lengths=padded.prompt_lengths.to(self.device),
            lengths=padded.lengths.to(self.device),
        )
