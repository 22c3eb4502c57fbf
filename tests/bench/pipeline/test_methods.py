"""Learning from given completions by the harness's update: the formulas, one update, resume and early stop."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from algorithms.core import PolicyOutput
from bench.batch import Sequences
from bench.config import ASSETS, EngineConfig
from bench.pipeline.methods import Imitation, PairPreference, dpo_loss
from bench.pipeline.supervised import Fit, Trainee, batch_rows, encoded, fit, rows_of
from bench.session.record import Recorder

BASE = str(ASSETS / "logic")  # the smallest of ours
CPU = EngineConfig(device="cpu", dtype="float32", train="torch", zero=0)
ROWS = [(f"What is {a}+{b}?", f"<think>{a}+{b}={a + b}.</think>\\boxed{{{a + b}}}") for a in range(4) for b in range(4)]


def trainee(algorithm: Imitation | PairPreference | None = None, **settings: float) -> Trainee:
    return Trainee(BASE, algorithm or Imitation(), replace(Fit(batch_size=4, num_updates=6), **settings), CPU)  # type: ignore[arg-type]


def weights(learner: Trainee) -> torch.Tensor:
    return torch.cat([w.flatten().clone() for _, w in learner.engine.weights()])


def test_the_loss_is_cross_entropy_of_completions_alone() -> None:
    """Against a plain forward pass of transformers over whole rows, prompts left out."""
    learner, data = trainee(), encoded(BASE, ROWS[:3])
    model = learner.engine.policy  # type: ignore[attr-defined]
    total, count = 0.0, 0
    for row, prompt in zip(data.rows, data.prompt_lengths.tolist(), strict=True):
        logits = model(input_ids=row[None]).logits[0]
        total += F.cross_entropy(logits[prompt - 1 : -1], row[prompt:], reduction="sum").item()
        count += len(row) - prompt
    assert learner.loss(data) == pytest.approx(total / count, rel=1e-5)
    assert learner.update(data, 0)["actor/loss"] == pytest.approx(total / count, rel=1e-5)


def test_an_update_depends_on_no_split_into_micro_batches() -> None:
    data = encoded(BASE, ROWS)
    ends: list[torch.Tensor] = []
    for tokens in (40, 4096):
        learner = trainee(micro_batch_tokens=tokens)
        learner.update(data, 3)
        ends.append(weights(learner))
    assert torch.allclose(*ends, atol=1e-6)


def pairs() -> Sequences:
    return encoded(BASE, [(p, text) for p, c in ROWS[:3] for text in (c, "<think>?</think>\\boxed{0}")])


def test_dpos_gradient_is_that_of_its_loss() -> None:
    """The rows' gradients add up to the gradient of -log sigmoid(margin), taken by autograd through one whole pass."""
    method, data = PairPreference(beta=0.5), pairs()
    learner = trainee(method)
    with torch.no_grad():  # away from the reference, so that the margins are not 0
        for _, weight in learner.engine.weights():
            weight.add_(0.02 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(weight.numel())))
    batch = learner.batch(data)
    assert method.margins(batch).abs().min() > 1e-3
    output = learner.engine.forward(data.pad(torch.arange(6)), entropy_grad=False)
    ratio = ((output.logprobs - batch.ref_logprobs) * batch.mask).sum(1)
    loss = dpo_loss(0.5 * (ratio[0::2] - ratio[1::2])).mean()
    policy = learner.engine.policy  # type: ignore[attr-defined]
    expected = torch.autograd.grad(loss, list(policy.parameters()))
    targets = method.targets(batch)
    output = learner.engine.forward(data.pad(torch.arange(6)), entropy_grad=False)
    rows = method.policy_loss(output, batch, targets).loss.sum(1)
    found = torch.autograd.grad(rows.mean(), list(policy.parameters()))
    scale = max(float(g.abs().max()) for g in expected)
    assert all(torch.allclose(a, b, atol=1e-5 * scale) for a, b in zip(found, expected, strict=True))
    assert max(float(g.abs().max()) for g in expected) > 1e-3


def test_dpo_at_the_reference_by_hand() -> None:
    """No margin: the loss is log 2, and the chosen gains as much as the rejected loses."""
    learner = trainee(PairPreference(beta=0.1))
    metrics = learner.update(pairs(), 0)
    assert metrics["dpo/loss"] == pytest.approx(0.693147, abs=1e-5)
    assert metrics["dpo/margin"] == pytest.approx(0, abs=1e-5)
    after = learner.of_pairs(learner.batch(pairs()))
    assert after["dpo/loss"] < 0.69
    assert after["dpo/accuracy"] == 1


def test_imitation_weighs_every_token_alike() -> None:
    output = PolicyOutput(logprobs=torch.tensor([[-1.0, -2.0]]), entropy=torch.zeros(1, 2))
    assert Imitation().policy_loss(output, None, None).loss.tolist() == [[1.0, 2.0]]  # type: ignore[arg-type]


def test_each_pass_over_the_data_is_a_shuffle_and_pairs_stay_together() -> None:
    seen = torch.cat([batch_rows(16, 4, 1, 0, n) for n in range(4)])
    assert sorted(seen.tolist()) == list(range(16))
    assert not torch.equal(batch_rows(16, 4, 1, 0, 0), batch_rows(16, 4, 1, 0, 4))  # the second pass is another
    rows = batch_rows(16, 4, 2, 1, 0).tolist()
    assert rows[0] % 2 == 0
    assert [rows[1] - rows[0], rows[3] - rows[2]] == [1, 1]


def run(folder: Path, stop_after: int | None = None) -> Path | None:
    folder.mkdir(exist_ok=True)
    recorder, data = Recorder(folder), encoded(BASE, ROWS)
    train, held = rows_of(data, torch.arange(12)), rows_of(data, torch.arange(12, 16))
    asked = iter(range(1, 100))
    return fit(
        trainee(validate_every=2),
        train,
        held,
        recorder,
        0,
        lambda: stop_after is not None and next(asked) >= stop_after,
    )


def test_training_stopped_and_resumed_is_training_never_stopped(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole")
    assert run(tmp_path / "parts", stop_after=3) is None
    assert not (tmp_path / "parts" / "model").exists()
    parts = run(tmp_path / "parts")
    assert whole is not None
    assert parts is not None
    for file in ("steps.jsonl", "evals.jsonl"):
        assert (tmp_path / "parts" / file).read_text() == (tmp_path / "whole" / file).read_text()
    assert (parts / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_training_stops_where_validation_no_longer_improves(tmp_path: Path) -> None:
    """At a rate that only does harm the first look stays the best, and its weights are the result."""
    recorder, data = Recorder(tmp_path), encoded(BASE, ROWS)
    learner = trainee(lr=1.0, num_updates=50, validate_every=1, patience=2, warmup=0.0)
    before = weights(learner)
    model = fit(learner, rows_of(data, torch.arange(12)), rows_of(data, torch.arange(12, 16)), recorder, 0)
    assert model is not None
    assert len(recorder.rows("steps")) == 2
    kept = Trainee(str(model), Imitation(), Fit(), CPU)
    assert torch.equal(weights(kept), before)
