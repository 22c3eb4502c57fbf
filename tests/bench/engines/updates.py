"""Five updates on stored rollouts, by any training engine, on any number of ranks: what a test compares.

`torchrun --nproc_per_node 2 -m tests.bench.engines.updates OUT` makes them by DeepSpeed at every ZeRO stage.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from algorithms.core import Algorithm
from algorithms.grpo import GRPO
from algorithms.ppo import PPO
from bench.batch import Padded, Sequences, pad_columns, scored, sequences
from bench.config import ASSETS, CriticConfig, EngineConfig, OptimizerConfig
from bench.engines.build import in_dtype
from bench.models.load import load_tokenizer
from bench.ranks import Ranks, joined
from bench.rollout import generator
from bench.train import Learner, Means, Schedule, Update
from bench.trainer import TrainEngine, TrainSetup
from tests.bench.support import rollout, tiny_llama

METHODS: dict[str, Algorithm] = {
    "grpo": GRPO(group_size=5, num_minibatches=2, kl_coef=0.04, entropy_coef=0.01),
    "ppo": PPO(group_size=1, num_minibatches=2),
}
STEPS = 5
OFFLOADED = {"offload": ("optimizer", "params", "reference"), "gradient_checkpointing": True}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"zero{stage} {method}": (method, {"zero": stage}) for stage in range(4) for method in METHODS},
    "zero2 off-loaded": ("grpo", {"zero": 2, "offload": ("optimizer",)}),
    "zero3 off-loaded": ("grpo", {"zero": 3, **OFFLOADED}),
}
HALF: dict[str, tuple[str, dict[str, Any]]] = {
    f"zero{stage} bfloat16": (method, {"zero": stage, "dtype": "bfloat16"})
    for stage, method in enumerate(("grpo", "ppo", "grpo", "ppo"))
}


def stored() -> tuple[Sequences, Any, torch.Tensor]:
    """Three groups of five: rows that two ranks cannot halve, lengths that differ much."""
    draw = torch.Generator().manual_seed(3)
    rows = []
    for g in range(3):
        for i in range(5):
            n = int(torch.randint(1, 12, (1,), generator=draw))
            tokens = torch.randint(2, 40, (n,), generator=draw).tolist()
            rows.append(rollout(f"p{g}", tokens=tokens, reward=float((i + g) % 3), correct=i == 0))
    return sequences(rows), scored(rows, 12), pad_columns([r.completion.logprobs for r in rows])


def torch_engine(algorithm: Algorithm) -> TrainEngine:
    """What the others are compared with."""
    from bench.engines.torch_train import TorchEngine

    return TorchEngine(tiny_llama(), load_tokenizer(str(ASSETS / "gsm8k")), setup_of(algorithm, EngineConfig()))


def deepspeed_engine(algorithm: Algorithm, ranks: Ranks, **settings: Any) -> TrainEngine:  # noqa: ANN401
    """At these settings."""
    from bench.engines.deepspeed_train import DeepSpeedEngine

    engine = EngineConfig(device="cpu", **{"dtype": "float32", **settings})
    tokenizer = load_tokenizer(str(ASSETS / "gsm8k"))
    model = tiny_llama()
    in_dtype(engine, model)
    return DeepSpeedEngine(model, tokenizer, setup_of(algorithm, engine), ranks)


def setup_of(algorithm: Algorithm, engine: EngineConfig) -> TrainSetup:
    """Settings that every engine is given. Weight decay and clipping take part."""
    return TrainSetup(
        needs=algorithm.needs,
        temperature=0.7,
        engine=engine,
        optimizer=OptimizerConfig(weight_decay=0.1, grad_clip=0.5),
        critic=CriticConfig(grad_clip=0.5),
    )


def prepared(engine: TrainEngine, algorithm: Algorithm, ranks: Ranks) -> Update:
    """Off-policy, so that ratios matter."""
    rows, scores, logprobs = stored()
    learner = Learner(engine=engine, micro_batch_tokens=60, ranks=ranks)
    batch = learner.annotate(algorithm, rows, scores, logprobs)
    shift = 0.3 * torch.randn(batch.mask.shape, generator=torch.Generator().manual_seed(1)) * batch.mask
    batch = replace(batch, old_logprobs=batch.old_logprobs + shift)
    targets = algorithm.targets(batch)
    return Update(learner=learner, algorithm=algorithm, sequences=rows, batch=batch, targets=targets)


def schedule(*seed: int) -> Schedule:
    """One pass of each network."""
    return Schedule(policy_lr=1e-2, critic=CriticConfig(), critic_lr=1e-2, generator=generator(*seed))


def updated(engine: TrainEngine, algorithm: Algorithm, ranks: Ranks, steps: range) -> list[dict[str, float]]:
    """Metrics of each step; each makes two updates of every network."""
    update = prepared(engine, algorithm, ranks)
    return [replace(update, means=Means()).make(schedule(0, step))[0] for step in steps]


def weights(engine: TrainEngine) -> dict[str, torch.Tensor]:
    """The policy's, whole."""
    return {name: weight.float().clone() for name, weight in engine.weights()}


def resumed(engine: TrainEngine, again: TrainEngine, algorithm: Algorithm, ranks: Ranks, folder: Path) -> float:
    """Largest difference between going on, and going on from a saved state in a fresh engine."""
    engine.save_state(folder)
    again.load_state(folder)
    update = prepared(again, algorithm, ranks)
    ends = []
    for each in (engine, again):
        replace(update, learner=replace(update.learner, engine=each), means=Means()).make(schedule(9))
        ends.append(weights(each))
    return max(float((ends[0][name] - ends[1][name]).abs().max()) for name in ends[0])


def guarded(engine: TrainEngine, padded: Padded) -> dict[str, float]:
    """What a gradient that is not finite does, and one that is forgotten."""

    def gradient(factor: float = 1.0) -> None:
        engine.backward(factor * engine.forward(padded, entropy_grad=False).logprobs.sum())

    before = weights(engine)
    gradient(float("nan"))
    norm = engine.step("policy", 1.0)
    moved = max(float((weight - before[name]).abs().max()) for name, weight in weights(engine).items())
    gradient()
    once = engine.step("policy", 0.0)
    gradient()
    engine.clear("policy")
    gradient()
    return {"norm": norm, "moved": moved, "once": once, "after clearing": engine.step("policy", 0.0)}


def main(out: Path) -> None:
    """Every engine and method; the first rank writes what came of them."""
    torch.set_num_threads(1)
    with joined() as ranks:
        found: dict[str, Any] = {}
        for case, (method, settings) in (CASES | HALF).items():
            algorithm, folder = METHODS[method], out / case.replace(" ", "-")
            engine = deepspeed_engine(algorithm, ranks, **settings)
            metrics = updated(engine, algorithm, ranks, range(STEPS))
            held = ranks.largest(engine.memory())
            engine.save_model(folder / "model")
            end = weights(engine)
            again = deepspeed_engine(algorithm, ranks, **settings)
            gap = resumed(engine, again, algorithm, ranks, folder / "state")
            guard = guarded(again, stored()[0].pad(torch.arange(4)))
            found[case] = {"metrics": metrics, "weights": end, "resume": gap, "guard": guard, "memory": held}
        if ranks.leads:
            torch.save(found | {"processes": ranks.size}, out / "found.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
