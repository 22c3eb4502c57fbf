"""The frozen reference: a copy of the policy, or with adapters the policy's own modules used in another way."""

import copy
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from bench.models.lora import adapter_parameters, changes_nothing, is_adapted, switch_adapters


def tensors_of(module: nn.Module) -> Iterator[Tensor]:
    """Parameters and buffers."""
    yield from module.parameters()
    yield from module.buffers()


class Reference:
    """What the policy is held against. It holds nothing of its own unless a subclass says so."""

    on_host = False

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model

    @contextmanager
    def use(self) -> Generator[PreTrainedModel]:
        """The model to pass through."""
        yield self.model

    def park(self) -> None:
        """Leave the device, if that is wanted; `use` comes back."""

    def tensors(self) -> Iterator[Tensor]:
        """All that is held for it alone."""
        return iter(())

    def state(self) -> dict[str, Tensor]:
        """What resuming needs."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up `state`."""


class FrozenCopy(Reference):
    """A copy of the policy as it starts."""

    def __init__(self, policy: PreTrainedModel) -> None:
        super().__init__(copy.deepcopy(policy).requires_grad_(False))

    def tensors(self) -> Iterator[Tensor]:
        """The copy's."""
        return tensors_of(self.model)

    def state(self) -> dict[str, Tensor]:
        """The copy's weights."""
        return self.model.state_dict()

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up `state`."""
        self.model.load_state_dict(state)


class OffloadedCopy(FrozenCopy):
    """A copy in the host's memory, on the device only from its first use until it is parked.

    Nothing ever moves back: frozen weights stay on the host, and the device's copies are dropped.
    """

    on_host = True

    def __init__(self, policy: PreTrainedModel) -> None:
        self.device = policy.device
        self.num_moves = 0
        self._on_device = False
        on_host = {id(t): self._host(t) for t in tensors_of(policy)}
        Reference.__init__(self, copy.deepcopy(policy, on_host))
        self._home = [(t, t.data) for t in tensors_of(self.model)]

    def _host(self, tensor: Tensor) -> Tensor:
        """A copy that the device can read quickly."""
        copied = tensor.detach().to("cpu", copy=True)
        copied = copied.pin_memory() if self.device.type == "cuda" else copied
        return nn.Parameter(copied, requires_grad=False) if isinstance(tensor, nn.Parameter) else copied

    @contextmanager
    def use(self) -> Generator[PreTrainedModel]:
        """Bring it to the device, unless it is there."""
        if not self._on_device:
            for tensor, data in self._home:
                tensor.data = data.to(self.device, non_blocking=True)
            self._on_device = True
            self.num_moves += 1
        yield self.model

    def park(self) -> None:
        """Drop the device's copies."""
        for tensor, data in self._home:
            tensor.data = data
        self._on_device = False


class AdaptersOff(Reference):
    """The policy without its adapters, which is where training started."""

    @contextmanager
    def use(self) -> Generator[PreTrainedModel]:
        """The policy, its adapters off meanwhile."""
        switch_adapters(self.model, on=False)
        try:
            yield self.model
        finally:
            switch_adapters(self.model, on=True)


class FrozenAdapter(Reference):
    """The policy with the adapter that training started from in place of the one being trained."""

    def __init__(self, policy: PreTrainedModel) -> None:
        super().__init__(policy)
        self.frozen = [p.detach().clone() for p in adapter_parameters(policy)]

    @contextmanager
    def use(self) -> Generator[PreTrainedModel]:
        """The policy, the frozen adapter in its place meanwhile."""
        trained = [p.data for p in adapter_parameters(self.model)]
        self._put(self.frozen)
        try:
            yield self.model
        finally:
            self._put(trained)

    def _put(self, weights: Sequence[Tensor]) -> None:
        for parameter, weight in zip(adapter_parameters(self.model), weights, strict=True):
            parameter.data = weight

    def tensors(self) -> Iterator[Tensor]:
        """The frozen adapter's."""
        return iter(self.frozen)

    def state(self) -> dict[str, Tensor]:
        """The frozen adapter's weights, by number."""
        return {str(i): weight for i, weight in enumerate(self.frozen)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up `state`."""
        for name, weight in self.state().items():
            weight.copy_(state[name])


def reference_of(policy: PreTrainedModel, *, offload: bool) -> Reference:
    """The policy as it is now, held in the least memory."""
    if is_adapted(policy):
        return AdaptersOff(policy) if changes_nothing(policy) else FrozenAdapter(policy)
    return OffloadedCopy(policy) if offload else FrozenCopy(policy)
