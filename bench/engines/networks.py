"""The networks of a training run and their forward passes; the engines beside it add the updates."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from algorithms.core import PolicyOutput
from bench.batch import Padded
from bench.engines.modules import Critic, entropy, token_logprobs
from bench.engines.recompute import checkpoint_activations
from bench.engines.reference import reference_of, tensors_of
from bench.engines.shared_prompts import pays, shares_prompts, tokens_passed
from bench.ground.words import Phase
from bench.meter import Clock, storages
from bench.models.load import autocast
from bench.trainer import Role, TrainSetup

ENTROPY_ROWS = 4096  # tokens whose (rows, V) distributions exist at once where only the number is wanted


def nothing_spared() -> dict[Phase, int]:
    """Prompt tokens that passes did not repeat: none yet, in the phases that could."""
    return {"logprobs": 0, "update": 0}


class Networks:
    """Policy, and where they are needed a critic and a frozen reference, made where the policy is.

    Args:
        policy: the model to train.
        tokenizer: the policy's, which is saved with it.
        setup: which networks there are, and how they run.
        device: passes run on it.
        shared_out: an engine takes them from there in shards and keeps the reference itself, off-loaded or not.
    """

    def __init__(
        self,
        policy: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        setup: TrainSetup,
        device: torch.device,
        *,
        shared_out: bool = False,
    ) -> None:
        self.policy = policy
        self.tokenizer = tokenizer
        self.temperature = setup.temperature
        self.where = setup.engine
        self.device = device
        self.modules: dict[Role, nn.Module] = {"policy": policy}
        if "values" in setup.needs:
            self.modules["critic"] = Critic(policy).to(policy.device)
        offload = "reference" in setup.engine.offload and not shared_out
        self.reference = reference_of(policy, offload=offload) if "ref_logprobs" in setup.needs else None
        if setup.engine.gradient_checkpointing:
            for backbone in [policy.base_model] + (
                [cast("Critic", self.modules["critic"]).backbone] if "values" in setup.needs else []
            ):
                checkpoint_activations(cast("PreTrainedModel", backbone))
        self.clock = Clock(self.device)
        self._activations = 0
        self.shares_prompts, self.not_shared = shares_prompts(policy, setup.engine)
        self.spared = nothing_spared()

    def run_policy(self, padded: Padded) -> tuple[Tensor, Tensor]:
        """The policy's `token_logprobs`; an engine that wraps its modules runs them its own way."""
        return token_logprobs(self.policy, padded, self.temperature)

    def run_critic(self, padded: Padded) -> Tensor:
        """(b, t) of the critic."""
        return self.modules["critic"](padded)

    @torch.no_grad()
    def logprobs(self, padded: Padded) -> Tensor:
        """(b, t), no gradient."""
        padded = self._place(padded)
        with autocast(self.device, self.where.dtype):
            return padded.unflatten(self.run_policy(padded)[0])

    def ref_logprobs(self, padded: Padded) -> Tensor:
        """(b, t), no gradient."""
        assert self.reference is not None, "no reference was built: the algorithm does not list ref_logprobs"
        with self.reference.use() as model:
            return self._logprobs(model, padded)

    def renew_reference(self) -> None:
        """Make the reference the policy as it is now."""
        assert self.reference is not None, "settings are refused that renew a reference which no method reads"
        self.reference.renew(self.policy)

    def park(self) -> None:
        """Give back the device's memory that only `ref_logprobs` needs."""
        if self.reference is not None:
            self.reference.park()

    @torch.no_grad()
    def _logprobs(self, model: PreTrainedModel, padded: Padded) -> Tensor:
        padded = self._place(padded)
        with autocast(self.device, self.where.dtype):
            return padded.unflatten(token_logprobs(model, padded, self.temperature)[0])

    def forward(self, padded: Padded, *, entropy_grad: bool) -> PolicyOutput:
        """(b, t) each."""
        padded = self._place(padded)
        with self.clock("forward"):
            with autocast(self.device, self.where.dtype), self._count_saved("policy"):
                logprobs, logits = self.run_policy(padded)
            if entropy_grad:
                spread = entropy(logits)
            else:
                spread = torch.cat([entropy(part) for part in logits.detach().split(ENTROPY_ROWS)])
        return PolicyOutput(logprobs=padded.unflatten(logprobs), entropy=padded.unflatten(spread))

    def values(self, padded: Padded) -> Tensor:
        """(b, t), differentiable."""
        with self.clock("forward"), autocast(self.device, self.where.dtype), self._count_saved("critic"):
            return self.run_critic(self._place(padded))

    def held(self, optimizer: Iterable[Tensor]) -> dict[str, int]:
        """Bytes by role, gradients apart; activations at their largest since the last call.

        Storage that two roles share counts for the first of them; a role without any of its own is left out.
        """
        held: dict[str, int] = {}
        counted: set[int] = set()
        roles: dict[str, Iterable[Tensor]] = {role: tensors_of(module) for role, module in self.modules.items()}
        if self.reference is not None:
            roles["reference_host" if self.reference.on_host else "reference"] = self.reference.tensors()
        for role, tensors in (roles | {"optimizer": optimizer}).items():
            own = {place: size for place, size in storages(tensors).items() if place not in counted}
            counted |= own.keys()
            if own or role == "optimizer":
                held[role] = sum(own.values())
        held["activations"] = self._activations
        self._activations = 0
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

    def _place(self, padded: Padded) -> Padded:
        """On the device, packed where that is wanted and pays; what packing spares is counted."""
        if padded.prompts is None or not (self.where.share_prompts == "always" or pays(padded)):
            return replace(padded, prompts=None).to(self.device)
        whole = int(padded.prompt_lengths.sum() + padded.lengths.sum())
        self.spared["update" if torch.is_grad_enabled() else "logprobs"] += whole - tokens_passed(padded)
        return padded.to(self.device)

    def take_spared(self) -> dict[Phase, int]:
        """Prompt tokens, by phase, that passes since the last call did not repeat."""
        spared, self.spared = self.spared, nothing_spared()
        return spared
