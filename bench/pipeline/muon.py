"""Muon in fp32, for matrices: momentum, then the nearest orthogonal matrix.

Source: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/. torch.optim.Muon works in bf16, which a CPU
without bf16 units does slowly.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable

import torch

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # quintic coefficients of the post, five iterations


class Muon(torch.optim.Optimizer):
    """For 2-D parameters; equal shapes are orthogonalised together, which is what makes it cheap on small models."""

    def __init__(self, params: Iterable[torch.nn.Parameter], lr: float = 0.02, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape: defaultdict[torch.Size, list[tuple[torch.Tensor, torch.Tensor]]] = defaultdict(list)
            for parameter in group["params"]:
                average = self.state[parameter].setdefault("average", torch.zeros_like(parameter))
                average.lerp_(parameter.grad, 1 - group["momentum"])
                by_shape[parameter.shape].append((parameter, parameter.grad.lerp(average, group["momentum"])))
            for (rows, columns), pairs in by_shape.items():
                scale = max(1.0, rows / columns) ** 0.5
                for (parameter, _), update in zip(pairs, orthogonal(torch.stack([u for _, u in pairs])), strict=True):
                    parameter.add_(update, alpha=-group["lr"] * scale)


def orthogonal(matrices: torch.Tensor) -> torch.Tensor:
    """(N, R, C) matrices with their singular values brought near 1."""
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    a, b, c = NEWTON_SCHULZ
    for _ in range(5):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x
