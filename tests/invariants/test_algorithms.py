"""What must hold for every registered method, and the table of what holds for some."""

from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor

from algorithms import ALGORITHMS, ops
from algorithms.core import Algorithm, required
from bench.gate.formulas import from_logits, reduced, wave
from tests.algorithms.support import make_batch, moved, output, plain, policy_gradient, some_batch, wider
from tests.invariants.table import LISTED, PROPERTIES, holds

EVERY = pytest.mark.parametrize("name", list(ALGORITHMS))


def lively(name: str) -> Algorithm:
    """The named method with every optional term switched on that it has."""
    settings = {"kl_coef": 0.1, "entropy_coef": 0.05, "correction": "token", "correction_cap": 1.05}
    if name == "sao":  # which refuses a second one
        del settings["correction"]
    if name == "raft":  # its KL is in the loss or nowhere
        settings["kl_place"] = "loss"
    return ALGORITHMS[name](**{k: v for k, v in settings.items() if k in {f.name for f in fields(ALGORITHMS[name])}})  # type: ignore[arg-type]


@pytest.mark.parametrize("prop", list(PROPERTIES))
@EVERY
def test_the_table_of_properties_is_true(name: str, prop: str) -> None:
    if name not in LISTED:
        pytest.skip("this method states nothing beyond what every method must satisfy")
    assert holds(name, prop) is (name in PROPERTIES[prop][1]), PROPERTIES[prop][0]


@EVERY
def test_only_counted_tokens_have_a_gradient(name: str) -> None:
    batch = some_batch()
    _, gradient = policy_gradient(lively(name), batch, moved(batch))
    assert not gradient[~batch.mask].any()
    assert gradient[batch.mask].any()


@EVERY
def test_truncated_rows_have_no_gradient_when_masked(name: str) -> None:
    truncated = torch.tensor([False, True, False, False, False, True])
    batch = some_batch(truncated=truncated)
    algorithm = replace(lively(name), mask_truncated=True)  # type: ignore[call-arg]
    _, gradient = policy_gradient(algorithm, batch, moved(batch))
    assert not gradient[truncated].any()
    assert gradient[~truncated].any()


@EVERY
def test_padding_changes_nothing(name: str) -> None:
    batch = some_batch()
    logprobs = moved(batch)
    loss, gradient = policy_gradient(lively(name), batch, logprobs)
    padded = torch.nn.functional.pad(logprobs.detach(), (0, 3)).requires_grad_()
    other_loss, other_gradient = policy_gradient(lively(name), wider(batch, 3), padded)
    assert torch.allclose(loss, other_loss)
    assert torch.allclose(gradient, other_gradient[:, :-3])


@EVERY
def test_row_order_changes_nothing(name: str) -> None:
    batch = some_batch()
    logprobs = moved(batch)
    loss, gradient = policy_gradient(lively(name), batch, logprobs)
    order = torch.tensor([4, 0, 5, 2, 1, 3])
    other_loss, other_gradient = policy_gradient(lively(name), batch[order], logprobs[order].detach().requires_grad_())
    assert torch.allclose(loss, other_loss)
    assert torch.allclose(gradient[order], other_gradient)


@EVERY
def test_group_labels_change_nothing(name: str) -> None:
    batch = some_batch()
    _, gradient = policy_gradient(lively(name), batch, moved(batch))
    _, other = policy_gradient(lively(name), replace(batch, group=1000 - 3 * batch.group), moved(batch))
    assert torch.allclose(gradient, other)


@pytest.mark.parametrize("size", [1, 2, 4, 6])
@EVERY
def test_micro_batches_add_up(name: str, size: int) -> None:
    batch = some_batch()
    algorithm = lively(name)
    logprobs = moved(batch)
    targets = algorithm.targets(batch)
    loss, gradient = policy_gradient(algorithm, batch, logprobs)
    mask = batch.mask if targets.loss_mask is None else targets.loss_mask
    weights = ops.loss_weights(mask, algorithm.aggregation, batch.max_new_tokens)
    parts = logprobs.detach().clone().requires_grad_()
    total = 0.0
    for rows in torch.arange(6).split(size):
        out = algorithm.policy_loss(output(parts[rows]), batch[rows], targets[rows])
        part = (weights[rows] * out.loss).sum()
        part.backward()
        total += part.item()
    assert total == pytest.approx(loss.item(), abs=1e-12)
    assert parts.grad is not None
    assert torch.allclose(parts.grad, gradient, atol=1e-12)


@EVERY
def test_an_empty_mask_gives_zero_and_no_gradient(name: str) -> None:
    batch = make_batch([1.0, 0.0], [3, 2], [0, 0], truncated=torch.tensor([True, True]))
    algorithm = replace(lively(name), mask_truncated=True)  # type: ignore[call-arg]
    loss, gradient = policy_gradient(algorithm, batch, moved(batch))
    assert loss.item() == 0.0
    assert not gradient.any()


@EVERY
def test_the_first_gradient_is_reinforces(name: str) -> None:
    """At the old policy, from which the tokens come, the gradient in the log-probs is -A times the token's weight."""
    batch = some_batch()
    batch = replace(batch, rollout_logprobs=batch.old_logprobs)
    algorithm = plain(name)
    targets = algorithm.targets(batch)
    _, gradient = policy_gradient(algorithm, batch, batch.old_logprobs.clone().requires_grad_())
    mask = batch.mask if targets.loss_mask is None else targets.loss_mask
    weights = ops.loss_weights(mask, algorithm.aggregation, batch.max_new_tokens)
    assert torch.allclose(gradient, -weights * targets.advantages)


@EVERY
def test_a_better_reward_raises_the_log_probs(name: str) -> None:
    """The sign: descent makes the best completion likelier than the worst."""
    batch = make_batch([1.0, 0.0, 1.0, 0.0], [1, 1, 1, 1], [0, 0, 1, 1], values=torch.zeros(4, 1))
    _, gradient = policy_gradient(plain(name), batch, batch.old_logprobs.clone().requires_grad_())
    good = batch.rewards == 1
    assert (gradient[good] < 0).all()
    assert (gradient[~good] > 0).all() or (name == "raft" and not gradient[~good].any())  # which has no worst


@EVERY
def test_results_are_finite_and_shaped(name: str) -> None:
    batch = some_batch()
    algorithm = lively(name)
    targets = algorithm.targets(batch)
    assert targets.advantages.shape == batch.mask.shape
    assert targets.advantages.dtype == batch.old_logprobs.dtype
    out = algorithm.policy_loss(output(moved(batch)), batch, targets)
    assert out.loss.shape == batch.mask.shape
    assert "pg_loss" in out.metrics
    assert all(torch.isfinite(m).all() and not m.requires_grad for m in (out.loss.detach(), *out.metrics.values()))


@EVERY
def test_needs_is_all_that_is_read(name: str) -> None:
    """Without the columns that `needs` does not list, everything still works."""
    for algorithm in (plain(name), lively(name)):
        columns = {c: None for c in ("ref_logprobs", "values") if c not in algorithm.needs}
        batch = some_batch(**columns)
        targets = algorithm.targets(batch)
        out = algorithm.policy_loss(output(moved(batch)), batch, targets)
        assert torch.isfinite(out.loss).all()


@EVERY
def test_the_critics_loss_is_over_its_own_values(name: str) -> None:
    algorithm = ALGORITHMS[name]()
    if "values" not in algorithm.needs:
        pytest.skip("no critic")
    batch = some_batch()
    targets = algorithm.targets(batch)
    values = (required(batch.values) + 0.1 * batch.mask).requires_grad_()
    out = algorithm.value_loss(values, batch, targets)
    (gradient,) = torch.autograd.grad((ops.loss_weights(batch.mask, "token-mean", 8) * out.loss).sum(), values)
    assert not gradient[~batch.mask].any()
    assert gradient[batch.mask].any()
    assert not required(targets.returns).requires_grad


@EVERY
def test_finite_differences_agree_with_autograd(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float64 logits; what the loss detaches is frozen at the point by replaying its value there."""
    batch = some_batch()
    algorithm = lively(name)
    targets = algorithm.targets(batch)
    tokens = torch.arange(30).reshape(6, 5) % 4
    logits = wave(6, 5, 4, phase=0.3).requires_grad_()

    def loss_at(point: Tensor) -> Tensor:
        out = algorithm.policy_loss(from_logits(point, tokens, batch.mask), batch, targets)
        return reduced(algorithm, out.loss, batch, targets)

    detach, frozen = Tensor.detach, list[Tensor]()

    def record(tensor: Tensor) -> Tensor:
        frozen.append(detach(tensor))
        return frozen[-1]

    monkeypatch.setattr(Tensor, "detach", record)
    loss = loss_at(logits)
    monkeypatch.undo()
    (gradient,) = torch.autograd.grad(loss, logits)

    def frozen_loss_at(point: Tensor) -> float:
        replay = iter(frozen)
        monkeypatch.setattr(Tensor, "detach", lambda tensor: next(replay))
        with torch.no_grad():
            loss = loss_at(point)
        monkeypatch.undo()
        return loss.item()

    step = 1e-6
    for index in [(0, 0, 0), (0, 4, 1), (1, 2, 3), (2, 0, 2), (3, 3, 0), (5, 1, 1), (4, 3, 2)]:
        nudge = torch.zeros_like(logits, requires_grad=False)
        nudge[index] = step
        slope = (frozen_loss_at(logits + nudge) - frozen_loss_at(logits - nudge)) / (2 * step)
        assert gradient[index].item() == pytest.approx(slope, abs=1e-7)
