"""Whether a metric tells credit by token from credit by completion."""

import pytest
import torch

from algorithms.core import Batch, Targets
from bench.metrics import advantage_metrics


def batch(mask: torch.Tensor) -> Batch:
    rows, width = mask.shape
    return Batch(
        rewards=torch.zeros(rows),
        correct=torch.zeros(rows, dtype=torch.bool),
        group=torch.zeros(rows, dtype=torch.long),
        truncated=torch.zeros(rows, dtype=torch.bool),
        lengths=mask.sum(1),
        max_new_tokens=width,
        mask=mask,
        old_logprobs=torch.zeros(rows, width),
        rollout_logprobs=torch.zeros(rows, width),
    )


def test_credit_by_token_is_told_from_credit_by_completion() -> None:
    mask = torch.tensor([[True, True, True], [True, True, False]])
    by_token = Targets(advantages=torch.tensor([[1.0, 2.0, 3.0], [5.0, 7.0, 0.0]]))
    by_completion = Targets(advantages=torch.tensor([[2.0, 2.0, 2.0], [-1.0, -1.0, 0.0]]))
    # (1, 2, 3) has population variance 2/3; (5, 7) has 1; the padded place does not count
    expected = ((2 / 3) ** 0.5 + 1) / 2
    assert advantage_metrics(batch(mask), by_token)["actor/advantage_within_std"] == pytest.approx(expected)
    assert advantage_metrics(batch(mask), by_completion)["actor/advantage_within_std"] == 0
