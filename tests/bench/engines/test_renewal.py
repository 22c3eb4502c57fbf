"""A reference that is renewed: it becomes the policy, and stays so over a checkpoint."""

import json
from pathlib import Path

import torch

from bench.engines.reference import FrozenCopy, tensors_of
from tests.bench.session.test_run import run
from tests.bench.support import engine, ragged, tiny_llama


def moved(learner_model: torch.nn.Module) -> None:
    with torch.no_grad():
        for weight in learner_model.parameters():
            weight.add_(0.1)


def test_a_renewed_reference_is_the_policy_and_moves_no_further() -> None:
    model, data = tiny_llama(), ragged()
    learner = engine(model, needs=("ref_logprobs",))
    padded = data.pad(torch.arange(len(data)))
    first = learner.ref_logprobs(padded)
    moved(model)
    assert torch.equal(learner.ref_logprobs(padded), first)
    learner.renew_reference()
    renewed = learner.ref_logprobs(padded)
    assert torch.equal(renewed, learner.logprobs(padded))
    assert not torch.allclose(renewed, first)
    moved(model)
    assert torch.equal(learner.ref_logprobs(padded), renewed)


def test_a_renewed_reference_survives_a_checkpoint(tmp_path: Path) -> None:
    model = tiny_llama()
    learner = engine(model, needs=("ref_logprobs",))
    moved(model)
    learner.renew_reference()
    learner.save_state(tmp_path / "state")
    other = engine(tiny_llama(1), needs=("ref_logprobs",))
    other.load_state(tmp_path / "state")
    padded = ragged().pad(torch.arange(3))
    assert torch.equal(other.ref_logprobs(padded), learner.ref_logprobs(padded))


def test_copies_share_nothing_with_the_policy() -> None:
    model = tiny_llama()
    copy = FrozenCopy(model)
    copy.renew(model)
    assert not {t.data_ptr() for t in tensors_of(model)} & {t.data_ptr() for t in copy.tensors()}


def test_a_run_renews_it_every_so_many_updates(tmp_path: Path) -> None:
    """Two updates a step and a renewal every three: after updates 3, 6 and 9, which are in steps 2, 3 and 5."""
    flags = ["--budget", "steps=5", "--algo", "grpo", "--algo.group-size", "4", "--reference-updates", "3"]
    path = run(tmp_path, *flags, "--optimizer.lr", "1e-3")
    rows = [json.loads(line) for line in (path / "steps.jsonl").read_text().splitlines()]
    assert [row["actor/reference_renewed"] for row in rows] == [0, 1, 1, 0, 1]
