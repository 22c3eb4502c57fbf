"""The practical comparison: ten claims of the table that introductions to GRPO repeat, each beside our measurement."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bench.ground.words import MODELS
from bench.report.comparison import Arm, Comparison, difference_by_seed
from bench.report.curves import curves, horizon_of
from bench.report.health import num_broken
from bench.report.records import Records
from bench.report.tables import Row, Table, percent, points, quantity, text
from bench.stats import MIN_T, Difference, Estimate, mean_height

Verdict = Literal["supported", "not supported", "not measured here"]
Finding = tuple[str, Verdict]
UNMEASURED: Finding = ("", "not measured here")


@dataclass(frozen=True, kw_only=True)
class Duel:
    """A PPO arm and a GRPO arm of one comparison."""

    comparison: Comparison
    records: Records
    ppo: Arm
    grpo: Arm

    def difference(self, column: str) -> Difference | None:
        """GRPO minus PPO."""
        return difference_by_seed(self.grpo.values(column), self.ppo.values(column))

    def ratio(self, column: str) -> Estimate | None:
        """GRPO over PPO, by the mean of the logarithms."""
        logs = [{s: float(np.log(v)) for s, v in arm.values(column).items() if v > 0} for arm in (self.grpo, self.ppo)]
        d = difference_by_seed(*logs)
        if d is None:
            return None
        exact = min(d.n) >= MIN_T and d.low is None  # counts are equal by rule, not by chance
        ends = (d.mean, d.mean) if exact else (d.low, d.high)
        low, high = (None if end is None else float(np.exp(end)) for end in ends)
        return Estimate(mean=float(np.exp(d.mean)), low=low, high=high, n=min(d.n))


def models_held(arm: Arm) -> list[str]:
    """Models that the arm kept in memory."""
    return [role for role in MODELS if any(arm.values(f"max:memory/{role}_gib").values())]


def models_in_memory(duel: Duel) -> Finding:
    both = [models_held(arm) for arm in (duel.ppo, duel.grpo)]
    if not all(both):
        return UNMEASURED
    words = "; ".join(f"{name} {len(m)} ({', '.join(m)})" for name, m in zip(("PPO", "GRPO"), both, strict=True))
    return words, _verdict(len(both[0]) == 4 and len(both[1]) in (2, 3))


def memory_overhead(duel: Duel) -> Finding:
    weights = [_weights(arm) for arm in (duel.ppo, duel.grpo)]
    if None in weights:
        return UNMEASURED
    ppo, grpo = (w or 0.0 for w in weights)
    total = duel.ratio("trained_gib")
    words = f"weights of all models over the policy's: PPO {ppo:.1f}x, GRPO {grpo:.1f}x"
    if total is not None:
        words += f"; weights, gradients and optimizers, GRPO over PPO: {quantity(total).text}"
    return words, _verdict(round(ppo) == 4 and 2 <= round(grpo, 1) <= 3)


def _weights(arm: Arm) -> float | None:
    sizes = [arm.mean(f"max:memory/{role}_gib") for role in models_held(arm)]
    known = [size.mean for size in sizes if size is not None]
    return sum(known) / known[0] if known else None


def advantage(duel: Duel) -> Finding:
    spread = [arm.mean("mean:actor/advantage_within_std") for arm in (duel.ppo, duel.grpo)]
    if spread[0] is None or spread[1] is None:
        return UNMEASURED
    words = (
        f"spread of the advantage inside a completion: PPO {quantity(spread[0]).text}, GRPO {quantity(spread[1]).text}"
    )
    return words, _verdict(spread[0].mean > 1e-6 > spread[1].mean)


def credit(duel: Duel) -> Finding:
    explained = duel.ppo.mean("last:critic/explained_variance")
    if explained is None:
        return UNMEASURED
    lost = num_broken(duel.grpo)
    words = (
        f"share of the return's variance that PPO's critic explains in the last step: {quantity(explained).text}; "
        f"GRPO runs that broke: {lost} of {len(duel.grpo.runs)}"
    )
    if explained.high is None:
        return words, "not measured here"
    return words, _verdict(explained.high < 0.5 and not lost)


def reward_kind(duel: Duel) -> Finding:
    if "reward_model" in models_held(duel.ppo):
        return "PPO was given a learned reward", "not measured here"
    gain = difference_by_seed(duel.ppo.values("final_accuracy"), duel.ppo.values("start_accuracy"))
    if gain is None or gain.low is None:
        return UNMEASURED
    learned = gain.low > 0
    words = f"PPO's gain with a rule as its only reward: {points(gain).text} points"
    return words, "not supported" if learned else "supported"


def compute_per_step(duel: Duel) -> Finding:
    sizes = [arm.config.get("algo", {}).get("group_size") for arm in (duel.ppo, duel.grpo)]
    seconds, work = duel.ratio("mean:time/step_s"), duel.ratio("cost/flops")
    if seconds is None:
        return UNMEASURED
    words = (
        f"outputs a prompt: PPO {sizes[0]}, GRPO {sizes[1]}; at equal outputs a step, GRPO over PPO: "
        f"seconds {quantity(seconds).text}, FLOPs of the run {quantity(work).text}"
    )
    if seconds.low is None:
        return words, "not measured here"
    return words, _verdict(seconds.low > 1)


def stability(duel: Duel) -> Finding:
    fall = duel.difference("accuracy_drawdown")
    lost = [num_broken(arm) for arm in (duel.ppo, duel.grpo)]
    words = f"runs that broke: PPO {lost[0]} of {len(duel.ppo.runs)}, GRPO {lost[1]} of {len(duel.grpo.runs)}"
    if fall is None:
        return words, "not measured here"
    words += f"; deepest fall of validation accuracy, GRPO minus PPO: {points(fall).text} points"
    if fall.high is None:
        return words, "not measured here"
    return words, _verdict(fall.high < 0 and lost[1] <= lost[0])


def best_for(duel: Duel) -> Finding:
    d = duel.difference("final_accuracy")
    if d is None or d.low is None:
        return UNMEASURED
    words = f"on this verifiable task, GRPO minus PPO: {points(d).text} points; PPO's half of the claim is not measured"
    return words, _verdict(d.low > 0)


def sparse_rewards(duel: Duel) -> Finding:
    sparse = all((arm.config.get("task", {}).get("weights") or {}).get("format") == 0 for arm in (duel.ppo, duel.grpo))
    d, start = duel.difference("final_accuracy"), duel.grpo.mean("start_accuracy")
    if not sparse or d is None or d.low is None:
        return "needs runs rewarded for right answers only (study sparse_reward)", "not measured here"
    gains = [
        difference_by_seed(arm.values("final_accuracy"), arm.values("start_accuracy")) for arm in (duel.ppo, duel.grpo)
    ]
    words = f"right answers only, start {percent(start).text}%: gain of PPO {points(gains[0]).text}, of GRPO "
    words += f"{points(gains[1]).text} points; GRPO minus PPO {points(d).text}"
    return words, _verdict(d.low > 0)


def sample_efficiency(duel: Duel) -> Finding:
    found = curves(duel.comparison, duel.records, "samples")
    end = horizon_of(duel.comparison, found)
    heights = [
        {seed: h for seed, (x, y) in found.get(arm.name, {}).items() if (h := mean_height(x, y, end)) is not None}
        for arm in (duel.grpo, duel.ppo)
    ]
    d = difference_by_seed(*heights) if all(heights) else None
    if d is None or d.high is None:
        return UNMEASURED
    words = f"mean accuracy over the first {end:,.0f} samples, GRPO minus PPO: {points(d).text} points"
    return words, _verdict(d.high < 0)


def _verdict(holds: bool) -> Verdict:
    return "supported" if holds else "not supported"


CLAIMS: tuple[tuple[str, str, str, Callable[[Duel], Finding]], ...] = (
    ("models in memory", "4", "2 to 3", models_in_memory),
    ("memory overhead", "about 4x", "about 2 to 3x", memory_overhead),
    ("advantage", "a value for each token", "one value for each output", advantage),
    ("credit assignment", "fine, but hard to learn", "coarse, but robust", credit),
    ("reward", "a learned model", "a rule", reward_kind),
    ("compute per step", "1 output a prompt", "G outputs a prompt, so dearer", compute_per_step),
    ("stability", "sensitive, the critic lags", "steadier", stability),
    ("best for", "general tasks with dense rewards", "reasoning with verifiable answers", best_for),
    ("sparse rewards", "struggles", "copes", sparse_rewards),
    ("sample efficiency", "better for each sample", "worse, it needs groups", sample_efficiency),
)


def practical_comparison(comparisons: Sequence[Comparison], records: Records) -> Table | None:
    """Ten aspects for every comparison that has both methods; None where none has."""
    rows: list[Row] = []
    for comparison in comparisons:
        duel = _duel(comparison, records)
        for aspect, ppo, grpo, measure in CLAIMS if duel else ():
            assert duel is not None
            words, verdict = measure(duel)
            rows.append(
                {
                    "setting": text(comparison.label),
                    "aspect": text(aspect),
                    "claimed of PPO": text(ppo),
                    "claimed of GRPO": text(grpo),
                    "verdict": text(verdict),
                    "measured here": text(words),
                }
            )
    note = (
        "The claims as introductions to GRPO usually put them. 'Supported' needs the measurement to show it: a 95% "
        "interval on the claim's side where there is one. 'Not supported' does not mean refuted, and what a small "
        "model shows need not hold at 7B. Ten separate looks, so not corrected for their number."
    )
    return Table(name="claims", title="The practical comparison", note=note, rows=rows) if rows else None


def _duel(comparison: Comparison, records: Records) -> Duel | None:
    """The plainest arm of each method: the one that carries its name, else the first."""
    chosen: dict[str, Arm] = {}
    for algo in ("ppo", "grpo"):
        named = [arm for arm in comparison.arms if arm.algo == algo]
        if not named:
            return None
        chosen[algo] = next((arm for arm in named if arm.name == algo), named[0])
    return Duel(comparison=comparison, records=records, ppo=chosen["ppo"], grpo=chosen["grpo"])
