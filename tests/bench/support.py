"""Small real models and rollouts for the harness's tests."""

from collections.abc import Sequence

import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from bench.batch import Sequences
from bench.config import ASSETS, CriticConfig, EngineConfig, OptimizerConfig
from bench.engines.torch_train import TorchEngine
from bench.models.load import drop_dropout, load_tokenizer
from bench.rollout import Completion, Rollout
from bench.trainer import TrainSetup
from tasks.core import Problem, Score

VOCAB = 40


def tiny_llama(seed: int = 0, *, tied: bool = True, vocab: int = VOCAB) -> PreTrainedModel:
    """Two layers of random weights, large enough that distributions are far from uniform."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        tie_word_embeddings=tied,
        initializer_range=0.4,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=0,
        attn_implementation="sdpa",
    )
    return LlamaForCausalLM(config).eval()


def tiny_gpt2(seed: int = 0, dropout: float = 0.0) -> PreTrainedModel:
    """Absolute positions; dropout switched off the way a loaded model's is."""
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=VOCAB,
        n_positions=128,
        n_embd=16,
        n_layer=2,
        n_head=2,
        initializer_range=0.4,
        eos_token_id=1,
        bos_token_id=1,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        attn_implementation="sdpa",
    )
    model = GPT2LMHeadModel(config)
    drop_dropout(model)
    return model.eval()


def engine(
    model: PreTrainedModel, *, needs: Sequence[str] = (), temperature: float = 1.0, **settings: object
) -> TorchEngine:
    """A training engine on the CPU."""
    return TorchEngine(
        model,
        load_tokenizer(str(ASSETS / "gsm8k")),
        TrainSetup(
            needs=frozenset(needs),  # type: ignore[arg-type]
            temperature=temperature,
            engine=EngineConfig(device="cpu", **settings),  # type: ignore[arg-type]
            optimizer=OptimizerConfig(lr=1e-2),
            critic=CriticConfig(lr=1e-2),
        ),
    )


def ragged(seed: int = 0, rows: int = 6, vocab: int = VOCAB) -> Sequences:
    """Random prompts of 1-9 tokens and completions of 1-7."""
    draw = torch.Generator().manual_seed(seed)
    prompts = torch.randint(1, 10, (rows,), generator=draw)
    lengths = torch.randint(1, 8, (rows,), generator=draw)
    tokens = [torch.randint(0, vocab, (int(p + n),), generator=draw) for p, n in zip(prompts, lengths, strict=True)]
    return Sequences(rows=tokens, prompt_lengths=prompts, lengths=lengths)


def rollout(
    problem: str = "p",
    *,
    tokens: Sequence[int] = (3, 4, 1),
    reward: float = 0.0,
    correct: bool = False,
    finish: str = "stop",
    prompt: Sequence[int] = (5, 6),
) -> Rollout:
    """A rollout by hand."""
    return Rollout(
        problem=Problem(id=problem, prompt="q", reference="r"),
        prompt_ids=list(prompt),
        completion=Completion(
            token_ids=list(tokens),
            logprobs=[-1.0] * len(tokens),
            sampling_logprobs=[-1.0] * len(tokens),
            text="t",
            finish_reason=finish,  # type: ignore[arg-type]
        ),
        score=Score(reward=reward, correct=correct, answer="a"),
    )
