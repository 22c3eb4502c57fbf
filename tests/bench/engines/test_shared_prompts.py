"""Packed passes: a prompt goes once for all of its completions, and every number is the padded pass's."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import MistralConfig, MistralForCausalLM

from bench.batch import Sequences, sequences
from bench.config import ASSETS, EngineConfig
from bench.engines.shared_prompts import hindrance, layout, shares_prompts, tokens_passed
from bench.ground.errors import UserError
from bench.models import flops
from bench.models.shape import ModelShape
from tests.bench.small_runs import rows, run
from tests.bench.support import engine, rollout, tiny_gpt2, tiny_llama


def groups(sharing: bool = True) -> Sequences:
    """Two groups of three; the second prompt is the longer."""
    lengths, prompts = (2, 5, 3, 1, 4, 4), ([7, 8, 9], [5, 6, 7, 8, 9, 10])
    draw = torch.Generator().manual_seed(0)
    made = [torch.randint(2, 40, (n,), generator=draw).tolist() for n in lengths]
    return sequences([rollout(tokens=t, prompt=prompts[i // 3]) for i, t in enumerate(made)], sharing=sharing)


ALL = torch.arange(6)


def gradients(model: torch.nn.Module) -> list[Tensor]:
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("make", [tiny_llama, tiny_gpt2])
@pytest.mark.parametrize("order", [ALL, torch.tensor([5, 0, 3, 2]), torch.tensor([4])], ids=str)
def test_log_probs_entropy_and_gradients_are_those_of_a_padded_pass(make: type, order: Tensor) -> None:
    found: list[tuple[Tensor, Tensor, list[Tensor]]] = []
    for share in ("always", "never"):
        trainer = engine(make(), share_prompts=share)
        out = trainer.forward(groups(trainer.shares_prompts).pad(order), entropy_grad=True)
        trainer.backward((out.logprobs * torch.linspace(-1, 1, out.logprobs.numel()).view_as(out.logprobs)).sum())
        assert (trainer.take_spared()["update"] > 0) == (share == "always" and len(order) > 1)
        found.append((out.logprobs.detach(), out.entropy.detach(), gradients(trainer.policy)))
    (logprobs, entropy, gradient), (wanted, spread, slope) = found
    assert torch.allclose(logprobs, wanted, atol=5e-5)
    assert torch.allclose(entropy, spread, atol=5e-5)
    for ours, theirs in zip(gradient, slope, strict=True):
        assert (ours - theirs).norm() <= 3e-6 * max(1.0, float(theirs.norm()))


def test_values_reference_and_their_gradients_too() -> None:
    found: list[list[Tensor]] = []
    for share in ("always", "never"):
        trainer = engine(tiny_llama(), needs=("values", "ref_logprobs"), share_prompts=share)
        torch.nn.init.constant_(trainer.modules["critic"].get_parameter("head.weight"), 0.5)
        padded = groups(trainer.shares_prompts).pad(ALL)
        values = trainer.values(padded)
        trainer.backward((values**2).sum())
        found.append([values.detach(), trainer.ref_logprobs(padded), *gradients(trainer.modules["critic"])])
    for ours, theirs in zip(*found, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=5e-5)


def test_a_prompt_is_laid_out_once_and_positions_restart() -> None:
    at = layout(groups().pad(torch.tensor([0, 3, 1])))
    assert at.tokens[0, :9].tolist() == [7, 8, 9, 5, 6, 7, 8, 9, 10]
    assert at.positions[0].tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 6, 3, 4, 5, 6, 7]
    assert tokens_passed(groups().pad(torch.tensor([0, 3, 1]))) == 17


def test_rows_of_one_prompt_stand_together_the_longest_first() -> None:
    assert groups().order(ALL).tolist() == [4, 5, 3, 1, 2, 0]
    assert groups(sharing=False).order(ALL).tolist() == [4, 5, 1, 3, 2, 0]


def test_auto_packs_where_a_fifth_of_the_tokens_is_spared() -> None:
    trainer = engine(tiny_llama())
    tokens = groups()
    trainer.logprobs(tokens.pad(torch.tensor([4, 5])))  # 14 of 20
    assert trainer.take_spared() == {"logprobs": 6, "update": 0}
    trainer.logprobs(tokens.pad(torch.tensor([1, 4])))  # other prompts: 18 of 20
    assert trainer.take_spared() == {"logprobs": 0, "update": 0}


def test_what_cannot_be_packed_is_refused_when_asked_for_and_told_when_not() -> None:
    config = MistralConfig(
        vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, sliding_window=4, attn_implementation="sdpa",
    )  # fmt: skip
    windowed = MistralForCausalLM(config).eval()
    assert shares_prompts(windowed, EngineConfig())[0] is False
    assert "every earlier token" in shares_prompts(windowed, EngineConfig())[1]
    with pytest.raises(UserError, match=r"--engine\.share-prompts always: .*every earlier token.*; take auto or never"):
        shares_prompts(windowed, EngineConfig(share_prompts="always"))
    assert shares_prompts(windowed, EngineConfig(share_prompts="never")) == (False, "")
    for where in (EngineConfig(train="deepspeed"), EngineConfig(gradient_checkpointing=True)):
        assert hindrance(tiny_llama(), where)


def test_attention_of_a_models_own_is_found_by_trying_it(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tiny_llama()
    assert hindrance(policy, EngineConfig()) == ""
    plain = type(policy.base_model).forward

    def deaf(self: torch.nn.Module, *, packing: object = None, **options: object) -> object:
        """A backbone that ignores how tokens are packed."""
        self.config._attn_implementation = "sdpa"  # type: ignore[union-attr]
        return plain(self, **options)

    monkeypatch.setattr(type(policy.base_model), "forward", deaf)
    assert "not transformers' own" in hindrance(policy, EngineConfig())


def test_a_run_counts_the_operations_that_it_did(tmp_path: Path) -> None:
    flags = ("--algo", "grpo", "--samples-per-step", "8", "--budget", "steps=1", "--algo.num-minibatches", "1")
    plain, packed = (
        rows(run(tmp_path / share, *flags, "--engine.share-prompts", share))[0] for share in ("never", "always")
    )
    spared = plain["cost/flops"] - packed["cost/flops"]
    shape = ModelShape.from_config(json.loads((ASSETS / "gsm8k" / "config.json").read_text()))
    prompt = 7 * round(plain["prompt/length_mean"])
    assert spared == prompt * (2 * flops.layer_flops(shape, 1, 0) + flops.trained_token_flops(shape))
    for name in ("actor/loss", "actor/grad_norm", "actor/entropy"):
        assert packed[name] == pytest.approx(plain[name], rel=1e-4, abs=1e-6)
