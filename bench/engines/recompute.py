"""Activations recomputed in the backward pass, by modules that stay in evaluation."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer


def checkpoint_activations(model: PreTrainedModel) -> None:
    """Recompute each layer's activations in the backward pass; transformers 5.19 has the older name.

    The library does so for layers in training only. Theirs is the only flag set, and only for passes with gradient:
    dropout goes by their parts', or is run by `recompute`, where theirs is off, too.
    """
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable({"use_reentrant": False})
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    for layer in layers:
        layer._gradient_checkpointing_func = partial(recompute, layer)  # type: ignore[assignment]
    model.register_forward_pre_hook(partial(before, layers))


def before(layers: Sequence[nn.Module], _model: nn.Module, _inputs: object) -> None:
    """Without gradient nothing is recomputed, no cache is refused, and the layers are as they evaluate."""
    for layer in layers:
        layer.training = torch.is_grad_enabled()


def recompute(layer: nn.Module, forward: Callable[..., object], *args: object) -> object:
    """Run a layer's forward pass now and again in the backward pass, both in evaluation."""

    def evaluated(*inputs: object) -> object:
        layer.training = False
        try:
            return forward(*inputs)
        finally:
            layer.training = True

    return checkpoint(evaluated, *args, use_reentrant=False)
