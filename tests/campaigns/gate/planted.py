"""Edits planted in a copy of the tree: faults that must be caught, refactors that must not, and costs."""

import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.faults.listed import Fault, load, planted

HERE = Path(__file__).parent


def faults() -> list[Fault]:
    """The planted faults of what is gated; those of the gate itself are for its own tests."""
    return [fault for fault in load() if fault.kind != "gate"]


def refactors() -> list[Fault]:
    """The harmless edits."""
    content = tomllib.loads((HERE / "refactors.toml").read_text())
    return [Fault(kind="refactor", tests=[], **edit) for edit in content["refactor"]]


@contextmanager
def edited(edit: Fault, tree: Path) -> Generator[None]:
    """The tree with the edit in it, which is left as it was."""
    path = tree / edit.file
    sound = path.read_text()
    path.write_text(planted(edit, sound))
    try:
        yield
    finally:
        path.write_text(sound)


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """A method and settings under which a fault shows, if it can."""

    algo: str
    settings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """For folders."""
        return "-".join([self.algo, *(s.removeprefix("--algo.").replace("=", "") for s in self.settings)])


# a fault in what only some settings use is run under them; every other one under grpo's defaults
PPO = Exercise(algo="ppo")
PPO_LAMBDA = Exercise(algo="ppo", settings=("--algo.gae-lambda=0.9", "--algo.gamma=0.98"))
PPO_KL = Exercise(algo="ppo", settings=("--algo.kl-coef=0.05",))
GRPO = Exercise(algo="grpo")
GRPO_ENTROPY = Exercise(algo="grpo", settings=("--algo.entropy-coef=0.02",))
GRPO_CORRECTED = Exercise(algo="grpo", settings=("--algo.correction=token",))
GRPO_SEQUENCE = Exercise(algo="grpo", settings=("--algo.correction=sequence",))
GRPO_MASKED = Exercise(algo="grpo", settings=("--algo.mask-truncated",))
DAPO, DR_GRPO, GSPO, CISPO = (Exercise(algo=name) for name in ("dapo", "dr_grpo", "gspo", "cispo"))
RLOO, REINFORCE, BASELINE, VAPO = (
    Exercise(algo=name) for name in ("rloo", "reinforce_pp", "reinforce_pp_baseline", "vapo")
)
EXERCISES: dict[str, Exercise] = {
    "whitening-divides-by-n": PPO,
    "whitening-leaks-onto-padding": PPO,
    "whitening-counts-padding": REINFORCE,
    "reward-on-the-pad-after-the-end": PPO,
    "gae-bootstraps-from-padding": PPO,
    "gae-without-lambda": PPO_LAMBDA,
    "gae-without-the-next-value": PPO,
    "gae-without-gamma": PPO_LAMBDA,
    "kl-set-but-unused-in-the-reward": PPO_KL,
    "kl-in-the-reward-and-the-loss": PPO_KL,
    "kl-paid-out-in-the-reward": PPO_KL,
    "k2-not-halved": BASELINE,
    "sequence-ratio-not-a-mean": GSPO,
    "sequence-ratio-over-the-padded-length": GSPO,
    "sequence-ratio-detached": GSPO,
    "sequence-level-ignored": GSPO,
    "gspo-with-a-token-s-clip": GSPO,
    "upper-clip-is-the-lower": DAPO,
    "value-clip-takes-the-better": PPO,
    "value-clip-around-the-new-values": PPO,
    "value-loss-not-halved": PPO,
    "correction-inverted": GRPO_CORRECTED,
    "correction-uncapped": GRPO_CORRECTED,
    "correction-weighs-the-kl": GRPO_CORRECTED,
    "correction-of-a-sequence-by-its-mean": GRPO_SEQUENCE,
    "overlong-punishes-from-the-start": DAPO,
    "token-mean-of-sequence-means": PPO,
    "constant-divisor-is-the-padded-length": DR_GRPO,
    "constant-mode-without-the-rows": DR_GRPO,
    "dr-grpo-by-token-mean": DR_GRPO,
    "empty-rows-in-the-denominator": GRPO_MASKED,
    "truncated-rows-trained-on": GRPO_MASKED,
    "finished-rows-masked-instead": GRPO_MASKED,
    "loss-mask-ignored": GRPO_MASKED,
    "entropy-minimised": GRPO_ENTROPY,
    "entropy-of-the-wrong-sign": GRPO_ENTROPY,
    "returns-without-the-values": PPO,
    "whitening-over-masked-rows": PPO,
    "one-lambda-for-both": VAPO,
    "one-lambda-for-every-length": VAPO,
    "likelihood-of-wrong-completions": VAPO,
    "critic-reduced-as-the-policy": VAPO,
    "filter-on-rewards": DAPO,
    "filter-keeps-groups-all-wrong": DAPO,
    "filter-forgotten": DAPO,
    "shaped-rewards-forgotten": DAPO,
    "baseline-includes-itself": RLOO,
    "returns-summed-from-the-front": REINFORCE,
    "group-baseline-ignored": BASELINE,
    "cispo-weight-differentiated": CISPO,
    "cispo-drops-capped-tokens": CISPO,
}


def exercise(fault: Fault) -> Exercise:
    """How the fault is run."""
    return EXERCISES.get(fault.name, GRPO)
