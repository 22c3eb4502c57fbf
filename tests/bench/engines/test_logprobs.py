"""Log-probs: equal to a plain float64 computation, and a function of the row alone."""

import math

import pytest
import torch
from transformers import PreTrainedModel

from bench.batch import Padded, Sequences, micro_batches
from bench.engines.modules import entropy
from tests.bench.support import VOCAB, engine, ragged, tiny_gpt2, tiny_llama


def reference_logprobs(model: PreTrainedModel, tokens: torch.Tensor, prompt: int, temperature: float) -> torch.Tensor:
    """One row alone, full softmax in float64."""
    logits = model.double()(input_ids=tokens[None]).logits[0] / temperature
    model.float()
    return torch.stack([logits[i - 1].log_softmax(-1)[tokens[i]] for i in range(prompt, len(tokens))])


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("make", [tiny_llama, tiny_gpt2])
def test_equal_to_a_plain_float64_full_softmax(make: object, temperature: float) -> None:
    model = make()  # type: ignore[operator]
    rows = ragged()
    got = engine(model, temperature=temperature).logprobs(rows.pad(torch.arange(len(rows))))
    with torch.no_grad():
        for i, tokens in enumerate(rows.rows):
            want = reference_logprobs(model, tokens, int(rows.prompt_lengths[i]), temperature)
            assert torch.allclose(got[i, : len(want)].double(), want, atol=1e-5)
            assert not got[i, len(want) :].any()


@pytest.mark.parametrize("make", [tiny_llama, tiny_gpt2])
def test_a_row_alone_and_beside_a_longer_one_are_equal(make: object) -> None:
    """Positions and masks must not come from the batch's width."""
    trainer = engine(make())  # type: ignore[operator]
    short, long = torch.tensor([3, 4, 5, 6]), torch.randint(0, VOCAB, (40,))
    rows = Sequences(rows=[short, long], prompt_lengths=torch.tensor([2, 32]), lengths=torch.tensor([2, 8]))
    alone, beside = trainer.logprobs(rows.pad(torch.tensor([0]))), trainer.logprobs(rows.pad(torch.tensor([0, 1])))
    assert torch.allclose(alone[0], beside[0, :2], atol=1e-5)


def test_the_padding_id_does_not_matter() -> None:
    rows = ragged().pad(torch.arange(6))
    other = rows.tokens.clone()
    total = rows.prompt_lengths + rows.lengths
    other[torch.arange(other.shape[1]) >= total[:, None]] = 17
    trainer = engine(tiny_llama())
    swapped = Padded(tokens=other, prompt_lengths=rows.prompt_lengths, lengths=rows.lengths)
    assert torch.equal(trainer.logprobs(rows), trainer.logprobs(swapped))


def test_no_shift_between_logits_and_tokens() -> None:
    """A model that puts its mass on the next id gives log-probs near 0 for counting up."""

    class Counting(torch.nn.Module):
        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            return hidden

    model = tiny_llama(tied=False)
    ids = torch.arange(2, 12)
    rows = Sequences(rows=[ids], prompt_lengths=torch.tensor([4]), lengths=torch.tensor([6])).pad(torch.tensor([0]))
    logits = 50.0 * torch.nn.functional.one_hot((rows.tokens + 1) % VOCAB, VOCAB).float()
    model.set_output_embeddings(Counting())  # type: ignore[arg-type]
    model.base_model.forward = lambda **_: type("Out", (), {"last_hidden_state": logits})()  # type: ignore[method-assign]
    got = engine(model).logprobs(rows)
    assert got.shape == (1, 6)
    assert got.sum().abs() < 1e-6


@pytest.mark.parametrize("max_tokens", [1, 20, 10_000])
def test_micro_batch_size_does_not_change_them(max_tokens: int) -> None:
    rows = ragged(rows=9)
    trainer = engine(tiny_llama())
    whole = trainer.logprobs(rows.pad(torch.arange(9)))
    for part in micro_batches(rows, torch.arange(9), max_tokens):
        got = trainer.logprobs(rows.pad(part))
        assert torch.allclose(got, whole[part, : got.shape[1]], atol=1e-5)


def test_temperature_by_hand() -> None:
    """Logits [2, 0] at temperature 0.5, token 0."""
    assert torch.tensor([2.0, 0.0]).div(0.5).log_softmax(-1)[0] == pytest.approx(-0.01815, abs=1e-5)
    model = tiny_llama()
    rows = ragged()
    padded = rows.pad(torch.arange(6))
    cold, warm = (engine(model, temperature=t).logprobs(padded) for t in (0.5, 1.0))
    assert not torch.allclose(cold, warm)


def test_dropout_is_off_in_every_pass() -> None:
    """With dropout on in one of two passes the first ratio is not 1."""
    trainer = engine(tiny_gpt2(dropout=0.1))
    trainer.policy.train()
    padded = ragged().pad(torch.arange(6))
    ratio = (trainer.forward(padded, entropy_grad=False).logprobs - trainer.logprobs(padded)).exp()
    assert torch.equal(ratio, torch.ones_like(ratio))


def test_first_ratio_is_one_to_1e5_for_other_batch_shapes() -> None:
    rows = ragged(rows=8)
    trainer = engine(tiny_llama())
    old = trainer.logprobs(rows.pad(torch.arange(8)))
    for part in torch.arange(8).split(3):
        new = trainer.forward(rows.pad(part), entropy_grad=False).logprobs
        assert ((new - old[part, : new.shape[1]]).exp() - 1).abs().max() < 1e-5


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_equal_batch_shapes_give_a_ratio_of_exactly_one(dtype: str) -> None:
    """In bfloat16 too, since logits are float32 before any logarithm."""
    trainer = engine(tiny_llama(), dtype=dtype)
    padded = ragged().pad(torch.arange(6))
    old, new = trainer.logprobs(padded), trainer.forward(padded, entropy_grad=False).logprobs
    assert old.dtype == new.dtype == torch.float32
    assert torch.equal(old, new.detach())


def test_bfloat16_trains_float32_weights() -> None:
    trainer = engine(tiny_llama(), dtype="bfloat16")
    before = [p.detach().clone() for p in trainer.policy.parameters()]
    trainer.backward(-trainer.forward(ragged().pad(torch.arange(6)), entropy_grad=False).logprobs.sum())
    trainer.step("policy", 1e-4)
    assert all(p.dtype == torch.float32 for p in trainer.policy.parameters())
    assert any(not torch.equal(a, b) for a, b in zip(before, trainer.policy.parameters(), strict=True))


def test_entropy_by_hand() -> None:
    assert entropy(torch.zeros(1, 8))[0] == pytest.approx(math.log(8), abs=1e-6)
    p = torch.tensor([[0.5, 0.25, 0.25]])
    assert entropy(p.log())[0] == pytest.approx(1.5 * math.log(2), abs=1e-6)


def test_gradient_checkpointing_changes_no_gradient() -> None:
    padded = ragged().pad(torch.arange(6))
    gradients: list[torch.Tensor] = []
    for on in (False, True):
        trainer = engine(tiny_llama(), gradient_checkpointing=on)
        trainer.forward(padded, entropy_grad=True).logprobs.sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in trainer.policy.parameters() if p.grad is not None]))
    assert torch.allclose(gradients[0], gradients[1], atol=1e-5)
