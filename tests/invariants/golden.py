"""Golden gradients: `python -m tests.invariants.golden` adds those that are missing to golden.json.

A change that moves one is a change of what the method's name means: raise the class's
`formula_version`, say so in the changelog, and run this again.
"""

import json
from pathlib import Path
from typing import Any

import torch

from algorithms import ALGORITHMS
from algorithms.core import Batch
from tests.algorithms.support import from_logits, reduced, wave

PATH = Path(__file__).with_name("golden.json")


def golden_batch() -> tuple[Batch, torch.Tensor]:
    """A fixed batch of four completions and the tokens they hold, without a random generator."""
    lengths = torch.tensor([3, 1, 2, 3])
    mask = torch.arange(3)[None] < lengths[:, None]
    old = (-1.2 + 0.3 * wave(4, 3)) * mask
    batch = Batch(
        rewards=torch.tensor([1.0, 0.0, 0.25, 0.75], dtype=torch.float64),
        correct=torch.tensor([True, False, False, True]),
        group=torch.tensor([0, 0, 1, 1]),
        truncated=torch.zeros(4, dtype=torch.bool),
        lengths=lengths,
        max_new_tokens=4,
        mask=mask,
        old_logprobs=old,
        rollout_logprobs=old,
        ref_logprobs=old + 0.2 * wave(4, 3, phase=1.0) * mask,
        values=0.4 * wave(4, 3, phase=2.0) * mask,
    )
    return batch, torch.tensor([[0, 1, 2], [2, 0, 0], [1, 1, 0], [0, 2, 1]])


def golden(name: str) -> dict[str, Any]:
    """Loss and gradient in the logits (4, 3, 3) of the named method at its defaults."""
    batch, tokens = golden_batch()
    algorithm = ALGORITHMS[name]()
    targets = algorithm.targets(batch)
    logits = (0.5 * wave(4, 3, 3, phase=3.0)).requires_grad_()
    out = algorithm.policy_loss(from_logits(logits, tokens, batch.mask), batch, targets)
    loss = reduced(algorithm, out.loss, batch, targets)
    (gradient,) = torch.autograd.grad(loss, logits)
    return {"loss": loss.item(), "gradient": gradient.flatten().tolist()}


def key(name: str) -> str:
    return f"{name}@{ALGORITHMS[name].formula_version}"


if __name__ == "__main__":
    stored = json.loads(PATH.read_text()) if PATH.exists() else {}
    PATH.write_text(json.dumps({key(name): golden(name) for name in ALGORITHMS} | stored, indent=1) + "\n")
