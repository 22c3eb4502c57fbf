"""Key-value caches and states of a batch that is being decoded, and what a config says about attention."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from transformers import DynamicCache, PretrainedConfig
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer


class BufferedLayer(DynamicLayer):
    """A cache layer with room for every token to come, so that decoding copies nothing."""

    def __init__(self, keys: Tensor, values: Tensor, room: int) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self.buffers = tuple(torch.cat([x, x.new_empty(*x.shape[:2], room, x.shape[3])], dim=2) for x in (keys, values))
        self.keys, self.values = keys, values

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Write behind the last token; returns everything up to it."""
        start, stop = self.filled, self.filled + key_states.shape[2]
        for buffer, states in zip(self.buffers, (key_states, value_states), strict=True):
            buffer[:, :, start:stop] = states
        self.keys, self.values = (buffer[:, :, :stop] for buffer in self.buffers)
        return self.keys, self.values

    @property
    def filled(self) -> int:
        """Tokens held."""
        return cast("Tensor", self.keys).shape[2]

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Keep these rows of the batch."""
        stop = self.filled
        self.buffers = tuple(buffer[beam_idx] for buffer in self.buffers)
        self.keys, self.values = (buffer[:, :, :stop] for buffer in self.buffers)


def layers_of(config: PretrainedConfig) -> list[Any]:
    """Empty cache layers as the config has them."""
    return list(DynamicCache(config=config).layers)


def is_plain(config: PretrainedConfig) -> bool:
    """Whether every layer attends to all earlier tokens by their positions, so that one mask serves them all."""
    text = config.get_text_config(decoder=True)
    alibi = getattr(text, "alibi", False) or getattr(text, "position_embedding_type", "") == "alibi"
    return not alibi and all(type(layer) is DynamicLayer for layer in layers_of(config))


def empty(config: PretrainedConfig) -> DynamicCache:
    """A cache for a prefill. Layers with a window hold all tokens: the mask, which must be 2-D, keeps the window."""
    cache = DynamicCache(config=config)
    cache.layers = [
        DynamicLayer() if type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) else layer for layer in cache.layers
    ]
    return cache


def spread(cache: DynamicCache, owner: Tensor, room: int) -> None:
    """Give each sample a row of its prompt's, with room for `room` tokens more."""
    layers: list[Any] = list(cache.layers)
    for i, layer in enumerate(layers):
        if type(layer) is DynamicLayer and layer.keys is not None:
            layers[i] = BufferedLayer(layer.keys[owner], cast("Tensor", layer.values)[owner], room)
        else:
            cast("Any", layer).reorder_cache(owner)
    cache.layers = layers


def select(cache: DynamicCache, rows: Tensor) -> None:
    """Keep these rows of the batch."""
    for layer in cache.layers:
        cast("Any", layer).reorder_cache(rows)


def nbytes(cache: DynamicCache) -> int:
    """Bytes of keys, values and states, room for tokens to come among them."""
    return sum(tensor.nbytes for layer in cache.layers for tensor in _tensors(layer))


def _tensors(layer: object) -> Sequence[Tensor]:
    if isinstance(layer, BufferedLayer):
        return layer.buffers
    states = [*getattr(layer, "conv_states", {}).values(), *getattr(layer, "recurrent_states", {}).values()]
    return [t for t in (getattr(layer, "keys", None), getattr(layer, "values", None), *states) if t is not None]
