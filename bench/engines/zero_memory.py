"""Where DeepSpeed keeps what it holds for a network: by ZeRO stage and dtype, the tensors behind each role."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

# the float32 weights that the optimizer steps, where they are not the network's own: ZeRO-1/2, bfloat16 ZeRO-1, ZeRO-3
MASTERS = ("single_partition_of_fp32_groups", "fp32_groups_flat_partition", "fp32_partitioned_groups_flat")
# gradients beside the parameters' own: ZeRO-2 in bfloat16, float32 and off-loaded, bfloat16 ZeRO-1, ZeRO-3
GRADIENTS = (
    "averaged_gradients",
    "all_grad_tensors",
    "accumulated_grads_in_cpu",
    "fp32_groups_gradients_flat",
    "grad_partitions_flat_buffer",
)


def weights(network: nn.Module) -> Iterator[Tensor]:
    """Parameters, or this rank's shards of them, and buffers."""
    for parameter in network.parameters():
        yield getattr(parameter, "ds_tensor", parameter)
    yield from network.buffers()


def optimizer_states(engine: Any) -> Iterator[Tensor]:  # noqa: ANN401 - deepspeed has no types
    """Moments, step counters and master weights."""
    for state in engine.basic_optimizer.state.values():
        yield from (value for value in state.values() if isinstance(value, Tensor))
    for name in MASTERS:
        yield from flat(getattr(engine.optimizer, name, ()))


def gradients(engine: Any) -> Iterator[Tensor]:  # noqa: ANN401
    """Before a step."""
    yield from (p.grad for p in engine.module.parameters() if p.grad is not None)
    for name in GRADIENTS:
        yield from flat(getattr(engine.optimizer, name, ()))


def forget_gradients(engine: Any) -> None:  # noqa: ANN401
    """As DeepSpeed does after an overflow."""
    optimizer = engine.optimizer
    optimizer.zero_grad()
    if hasattr(optimizer, "all_grad_tensors"):  # ZeRO-1/2
        optimizer.averaged_gradients = dict.fromkeys(optimizer.averaged_gradients)
        optimizer.all_grad_tensors = dict.fromkeys(optimizer.all_grad_tensors)
        optimizer.micro_step_id = -1  # as it is after a step: what is on the host is then written over
    if hasattr(optimizer, "clear_hp_grads"):  # bfloat16 ZeRO-1
        optimizer.clear_hp_grads()


def flat(held: Any) -> Iterator[Tensor]:  # noqa: ANN401
    """Tensors of nested lists and dicts."""
    if isinstance(held, Tensor):
        yield held
    elif isinstance(held, dict):
        yield from flat(list(held.values()))
    elif isinstance(held, list | tuple):
        for part in held:
            yield from flat(part)
