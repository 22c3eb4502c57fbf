"""A tiny real model under the real training engine, whose gradients are kept instead of applied."""

from dataclasses import fields

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from algorithms import ALGORITHMS
from algorithms.core import Algorithm, Batch, Scored, Targets
from bench.batch import Sequences
from bench.config import CriticConfig, EngineConfig, OptimizerConfig
from bench.engines.torch_train import TorchEngine
from bench.train import Learner, Update
from bench.trainer import Role, TrainSetup

LENGTHS = [6, 1, 3, 5, 2, 4, 7, 3]
PROMPTS = [3, 3, 5, 5, 2, 2, 4, 4]
GROUP = [0, 0, 1, 1, 2, 2, 3, 3]
REWARDS = [1.0, 0.0, 0.1, 1.1, 0.0, 0.0, 1.0, 0.1]
NO_LIMIT = 10_000


class KeepsGradients(TorchEngine):
    """Where an optimizer would step, the gradient is put aside."""

    kept: dict[Role, Tensor]

    def step(self, role: Role, lr: float) -> float:
        """Keep the gradient in one vector."""
        parameters = list(self.modules[role].parameters())
        self.kept[role] = torch.cat(
            [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in parameters]
        )
        self.clear(role)
        return float(self.kept[role].norm())


def tiny_model(seed: int = 0) -> LlamaForCausalLM:
    """Two layers, 19 tokens; large enough weights that the policy is far from uniform."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=19,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        initializer_range=0.3,
        max_position_embeddings=64,
    )
    return LlamaForCausalLM(config).eval()


def engine_for(
    algorithm: Algorithm, cls: type[KeepsGradients] = KeepsGradients, *, gradient_checkpointing: bool = False
) -> KeepsGradients:
    """The engine with all that the algorithm needs, on the tiny model."""
    engine = cls(
        tiny_model(),
        None,  # type: ignore[arg-type]
        TrainSetup(
            needs=algorithm.needs,
            temperature=1.0,
            engine=EngineConfig(device="cpu", gradient_checkpointing=gradient_checkpointing),
            optimizer=OptimizerConfig(lr=1e-3),
            critic=CriticConfig(lr=1e-3),
        ),
    )
    engine.kept = {}
    if "values" in algorithm.needs:
        nudge(engine.modules["critic"], 0.2)  # its head starts at 0: give it an opinion
    return engine


@torch.no_grad()
def nudge(module: torch.nn.Module, scale: float) -> None:
    """Move every weight by a fixed pseudo-random amount."""
    generator = torch.Generator().manual_seed(7)
    for parameter in module.parameters():
        parameter += scale * torch.randn(parameter.shape, generator=generator)


def tiny_sequences(order: Tensor | None = None) -> tuple[Sequences, Scored]:
    """Eight completions of four prompts and their scores, in the given order."""
    generator = torch.Generator().manual_seed(3)
    rows = [torch.randint(19, (p + n,), generator=generator) for p, n in zip(PROMPTS, LENGTHS, strict=True)]
    order = torch.arange(len(rows)) if order is None else order
    scores = Scored(
        rewards=torch.tensor(REWARDS),
        correct=torch.tensor(REWARDS) >= 1,
        group=torch.tensor(GROUP),
        truncated=torch.tensor([n == 7 for n in LENGTHS]),
        lengths=torch.tensor(LENGTHS),
        max_new_tokens=7,
    )
    lengths = torch.tensor(LENGTHS)[order]
    sequences = Sequences(
        rows=[rows[i] for i in order.tolist()], prompt_lengths=torch.tensor(PROMPTS)[order], lengths=lengths
    )
    return sequences, scores[order]


def lively(name: str) -> Algorithm:
    """The named method with KL, entropy, truncation mask and correction on, in groups of two."""
    settings = {
        "kl_coef": 0.1,
        "entropy_coef": 0.05,
        "correction": "token",
        "mask_truncated": True,
        "group_size": 2,
    }
    known = {f.name for f in fields(ALGORITHMS[name])} - ({"correction"} if name == "sao" else set())  # its own filter
    return ALGORITHMS[name](**{k: v for k, v in settings.items() if k in known})  # type: ignore[arg-type]


def annotated(
    engine: KeepsGradients, algorithm: Algorithm, sequences: Sequences, scores: Scored, *, move: float = 0.02
) -> tuple[Batch, Targets]:
    """Batch and targets at the model as it is; then the policy moves away from them."""
    rollout_logprobs = torch.full(sequences.mask.shape, -2.5) * sequences.mask
    learner = Learner(engine=engine, micro_batch_tokens=NO_LIMIT)
    batch = learner.annotate(algorithm, sequences, scores, rollout_logprobs)
    targets = algorithm.targets(batch)
    nudge(engine.policy, move)
    return batch, targets


def gradients(
    engine: KeepsGradients,
    algorithm: Algorithm,
    sequences: Sequences,
    batch: Batch,
    targets: Targets,
    *,
    rows: Tensor | None = None,
    max_tokens: int = NO_LIMIT,
) -> tuple[dict[Role, Tensor], dict[str, float]]:
    """The gradients of one update of policy and critic, and the metrics."""
    rows = torch.arange(len(sequences)) if rows is None else rows
    learner = Learner(engine=engine, micro_batch_tokens=max_tokens)
    update = Update(learner=learner, algorithm=algorithm, sequences=sequences, batch=batch, targets=targets)
    if "values" in algorithm.needs:
        update.apply("critic", rows, 0.0)
    update.apply("policy", rows, 0.0)
    return dict(engine.kept), update.means.result()
