"""The sampler: seeds, distributions, eos ids, lengths, and agreement with the trainer."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from bench.batch import sequences
from bench.config import ASSETS, EngineConfig, Sampling
from bench.engines.decoding import draw
from bench.engines.hf import HFRollout
from bench.engines.modules import plain_logprobs
from bench.ground.errors import UserError
from bench.models.load import load_model, load_tokenizer
from bench.proof import long_prompts, prove_attention
from bench.rollout import Rollout, derive_seed
from tasks.core import Problem, Score
from tests.bench.support import engine, ragged, tiny_llama

TOKENIZER = load_tokenizer(str(ASSETS / "gsm8k"))
PROMPTS = [[7, 8, 9], [5], [11, 12, 13, 14, 15, 16]]
SEEDS = [[derive_seed(p, i) for i in range(4)] for p in range(3)]
SAMPLING = Sampling(max_new_tokens=12)


def sampler(batch: int = 256, **model: object) -> HFRollout:
    return HFRollout(tiny_llama(**model), TOKENIZER, EngineConfig(device="cpu", rollout_batch_size=batch))  # type: ignore[arg-type]


def test_a_sample_does_not_depend_on_the_batch_it_lands_in() -> None:
    together = sampler().generate(PROMPTS, SEEDS, SAMPLING)
    small = sampler(batch=3).generate(PROMPTS, SEEDS, SAMPLING)
    alone = [
        [sampler().generate([p], [[s]], SAMPLING)[0][0] for s in seeds] for p, seeds in zip(PROMPTS, SEEDS, strict=True)
    ]
    for groups in (small, alone):
        for group, want in zip(groups, together, strict=True):
            assert [c.token_ids for c in group] == [c.token_ids for c in want]


def test_members_of_a_group_differ_and_seeds_repeat() -> None:
    """Eight samples of one prompt, at least seven distinct."""
    seeds = [derive_seed("x", i) for i in range(8)]
    sampling = Sampling(max_new_tokens=20)
    first, second = (sampler().generate([[7, 8]], [seeds], sampling)[0] for _ in range(2))
    assert len({tuple(c.token_ids) for c in first}) >= 7
    assert [c.token_ids for c in first] == [c.token_ids for c in second]


def test_sampler_and_trainer_agree_on_logprobs() -> None:
    for temperature in (1.0, 0.6):
        sampling = Sampling(max_new_tokens=12, temperature=temperature)
        model = tiny_llama()
        groups = HFRollout(model, TOKENIZER, EngineConfig(device="cpu")).generate(PROMPTS, SEEDS, sampling)
        rollouts = [
            Rollout(
                problem=Problem(id=str(i), prompt="", reference=""),
                prompt_ids=p,
                completion=c,
                score=Score(reward=0, correct=False),
            )
            for i, (p, group) in enumerate(zip(PROMPTS, groups, strict=True))
            for c in group
        ]
        rows = sequences(rollouts)
        got = engine(model, temperature=temperature).logprobs(rows.pad(torch.arange(len(rows))))
        for i, r in enumerate(rollouts):
            want = torch.tensor(r.completion.logprobs)
            assert (got[i, : len(want)] - want).abs().max() < 1e-4
            assert r.completion.sampling_logprobs == pytest.approx(r.completion.logprobs, abs=1e-5)


def test_greedy_equals_transformers_own_generation() -> None:
    """The real model, so that our loop is held to the library's."""
    model = load_model(str(ASSETS / "gsm8k"))
    engine_ = HFRollout(model, TOKENIZER, EngineConfig(device="cpu"))
    prompts = [engine_.encode(q) for q in ("Tom has 3 apples and buys 4. How many?", "What is 2+2?", "Ann")]
    ours = engine_.generate(prompts, [[0]] * 3, Sampling(max_new_tokens=24, temperature=0.0))
    for prompt, (completion,) in zip(prompts, ours, strict=True):
        theirs = model.generate(torch.tensor([prompt]), max_new_tokens=24, do_sample=False)[0, len(prompt) :]  # type: ignore[operator]
        assert completion.token_ids == theirs.tolist()


def test_the_end_token_is_kept_in_ids_and_left_out_of_text() -> None:
    """The sampled end counts as a token; none is added to a truncated completion."""
    groups = sampler().generate(PROMPTS, SEEDS, Sampling(max_new_tokens=12))
    flat = [c for group in groups for c in group]
    assert {c.finish_reason for c in flat} == {"stop", "length"}
    for c in flat:
        assert len(c.token_ids) == len(c.logprobs) == len(c.sampling_logprobs)
        if c.finish_reason == "stop":
            assert c.token_ids[-1] in (1, TOKENIZER.eos_token_id)
            assert all(t not in (1, TOKENIZER.eos_token_id) for t in c.token_ids[:-1])
        else:
            assert len(c.token_ids) == 12
            assert not {1, TOKENIZER.eos_token_id} & set(c.token_ids)


def test_an_end_token_in_the_prompt_ends_nothing() -> None:
    (group,) = sampler().generate([[1, 7, 1]], [list(range(20))], Sampling(max_new_tokens=3))
    assert any(c.finish_reason == "length" for c in group)
    assert all(len(c.token_ids) == 3 for c in group if c.finish_reason == "length")


def test_several_end_ids_are_handled() -> None:
    engine_ = sampler()
    engine_.model.generation_config.eos_token_id = [1, 9]  # type: ignore[union-attr]
    both = HFRollout(engine_.model, TOKENIZER, EngineConfig(device="cpu"))
    ends = {
        c.token_ids[-1]
        for g in both.generate(PROMPTS, [range(40)] * 3, SAMPLING)
        for c in g
        if c.finish_reason == "stop"
    }
    assert {1, 9} <= ends


def test_new_weights_are_used_at_once() -> None:
    engine_, other = sampler(), tiny_llama(seed=5)
    before = engine_.generate(PROMPTS, SEEDS, SAMPLING)
    engine_.load_weights(iter((n, p.detach()) for n, p in other.named_parameters()))
    after = engine_.generate(PROMPTS, SEEDS, SAMPLING)
    fresh = HFRollout(other, TOKENIZER, EngineConfig(device="cpu")).generate(PROMPTS, SEEDS, SAMPLING)
    assert before != after
    assert after == fresh


def test_chat_prompts_start_with_one_beginning_token() -> None:
    """On our own template: no beginning token is doubled."""
    ids = sampler().encode("hello")
    assert ids == TOKENIZER.encode(TOKENIZER.decode(ids), add_special_tokens=False)
    assert ids[0] != ids[1]


def test_top_p_by_hand() -> None:
    """Probabilities .5 .3 .2 at top-p 0.8 leave .625 and .375; the kept mass is 0.8."""
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    sampling = Sampling(max_new_tokens=1, top_p=0.8)
    for u, token, kept in ((0.0, 0, 0.625), (0.62, 0, 0.625), (0.63, 1, 0.375), (0.9999, 1, 0.375)):
        got, full, sampled = draw(logits, torch.tensor([u]), sampling)
        assert got[0] == token
        assert sampled[0].exp() == pytest.approx(kept, abs=1e-6)
        assert (full - sampled)[0].exp() == pytest.approx(0.8, abs=1e-6)


def test_top_k_keeps_the_likeliest() -> None:
    logits = torch.tensor([[0.1, 0.5, 0.3, 0.1]]).log()
    for u in (0.0, 0.3, 0.6, 0.99):
        token, _, sampled = draw(logits, torch.tensor([u]), Sampling(max_new_tokens=1, top_k=2))
        assert token[0] in (1, 2)
        assert sampled[0].exp() == pytest.approx({1: 0.625, 2: 0.375}[int(token[0])], abs=1e-6)


def test_sampled_frequencies_match_probabilities() -> None:
    """A chi-square of 20,000 draws against tempered probabilities stays below the 0.999 quantile for 4 degrees."""
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0, 0.5])
    n = 20_000
    uniform = torch.rand(n, generator=torch.Generator().manual_seed(0))
    token, logprob, _ = draw(logits.expand(n, -1), uniform, Sampling(max_new_tokens=1, temperature=0.8))
    expected = n * (logits / 0.8).softmax(-1)
    observed = torch.bincount(token, minlength=5).float()
    assert ((observed - expected) ** 2 / expected).sum() < 18.5
    assert torch.allclose(logprob, (logits / 0.8).log_softmax(-1)[token], atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-30, 30), min_size=2, max_size=12),
    st.floats(0, 1, exclude_max=True, width=32),
    st.floats(0.05, 1),
    st.integers(0, 12),
)
def test_a_drawn_token_always_has_mass(logits: list[float], uniform: float, top_p: float, top_k: int) -> None:
    sampling = Sampling(max_new_tokens=1, top_p=top_p, top_k=top_k)
    token, full, sampled = draw(torch.tensor([logits]), torch.tensor([uniform]), sampling)
    assert 0 <= int(token[0]) < len(logits)
    assert torch.isfinite(full).all()
    assert torch.isfinite(sampled).all()
    assert sampled[0] >= full[0] - 1e-5


def windowed(window: int = 8) -> PreTrainedModel:
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "mistral",
        vocab_size=40,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=4,
        sliding_window=window,
        initializer_range=0.4,
        eos_token_id=1,
    )
    return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()


def proof(model: PreTrainedModel, rollout: HFRollout | None = None) -> None:
    settings = EngineConfig(device="cpu", micro_batch_tokens=1000)
    rows = long_prompts([[7, 8, 9, 10, 11]], model.config, 128)
    prove_attention(
        rollout or HFRollout(model, TOKENIZER, settings), plain_logprobs(model, None), rows, Sampling(), settings
    )


def test_a_window_is_kept_in_sampling_and_one_that_is_lost_is_refused() -> None:
    model = windowed()
    proof(model)
    blind = HFRollout(model, TOKENIZER, EngineConfig(device="cpu"))
    blind.plain = True  # its own mask for every layer, as a model without windows has it
    with pytest.raises(UserError, match="what its config says about attention is lost"):
        proof(model, blind)


def test_rows_of_the_proof_are_longer_than_the_window_where_they_fit() -> None:
    assert [len(row) for row in long_prompts([[3, 4]], windowed(64).config, 1000)] == [80, 26]
    assert [len(row) for row in long_prompts([[3, 4]], windowed(64).config, 50)] == [42, 14]


@given(window=st.integers(1, 9000), room=st.integers(10, 5000), size=st.integers(1, 9))
@settings(max_examples=50, deadline=None)
def test_the_proof_leaves_every_window_that_a_run_can_leave_and_costs_no_more_than_that(
    window: int, room: int, size: int
) -> None:
    config = AutoConfig.for_model("mistral", sliding_window=window, max_position_embeddings=100_000)
    long, short = (len(row) for row in long_prompts([[3] * size], config, room))
    assert 1 <= short <= long <= max(1, room - 8)
    assert long + 8 > window or room <= window
    assert long <= max(48, window + 16) if room > window else long <= 48


def test_sampling_leaves_every_module_in_the_mode_that_it_was_in() -> None:
    rollout = sampler()
    rollout.model.base_model.layers[0].training = True  # type: ignore[union-attr, index]
    before = [module.training for module in rollout.model.modules()]
    rollout.generate(PROMPTS, SEEDS, SAMPLING)
    assert [module.training for module in rollout.model.modules()] == before


def saved_bytes(model: PreTrainedModel, *, checkpointing: bool) -> int:
    """Activations of a step's forward pass, behind a rollout by the same modules."""
    trainer = engine(model, gradient_checkpointing=checkpointing)
    HFRollout(model, TOKENIZER, EngineConfig(device="cpu")).generate(PROMPTS, SEEDS, SAMPLING)
    trainer.forward(ragged().pad(torch.arange(6)), entropy_grad=False).logprobs.sum().backward()
    return trainer.memory()["activations"]


def test_gradient_checkpointing_still_saves_memory_after_sampling() -> None:
    assert saved_bytes(tiny_llama(), checkpointing=True) < 0.7 * saved_bytes(tiny_llama(), checkpointing=False)


@pytest.mark.parametrize("family", ["starcoder2", "opt", "falcon", "gpt2", "biogpt"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_no_dropout_of_any_name_enters_a_loss(family: str, checkpointing: bool) -> None:
    rates = ("residual_dropout", "embedding_dropout", "attention_dropout", "hidden_dropout", "dropout", "layerdrop")
    rates += ("activation_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop", "hidden_dropout_prob")
    rates += ("attention_probs_dropout_prob",)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 40, "n_embd": 16}
    sizes |= {"n_layer": 2, "n_head": 2, "intermediate_size": 24, "ffn_dim": 24, "word_embed_proj_dim": 16}
    sizes |= {"num_key_value_heads": 2}
    known = AutoConfig.for_model(family)
    chosen = {k: v for k, v in (sizes | dict.fromkeys(rates, 0.5)).items() if hasattr(known, k)}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **chosen), attn_implementation="sdpa").eval()
    trainer = engine(model, gradient_checkpointing=checkpointing)
    padded = ragged().pad(torch.arange(6))
    ratio = (trainer.forward(padded, entropy_grad=False).logprobs - trainer.logprobs(padded)).exp()
    assert torch.allclose(ratio, torch.ones_like(ratio), atol=1e-5)
