"""The practical comparison: ten claims of the table that introductions to GRPO repeat, each beside our measurement."""

from collections.abc import Callable, Sequence
from typing import Literal

from bench.contrast import Contrast, crossed
from bench.ground.registration import Registration
from bench.progress import mean_height
from bench.report.comparison import Arm, Comparison
from bench.report.curves import curves, horizon_of
from bench.report.duel import Duel, models_held
from bench.report.health import num_broken
from bench.report.outcomes import by_seed, endpoint_of
from bench.report.records import Records
from bench.report.tables import Row, Table, interval, percent, quantity, text
from bench.verdicts import verdicts

Verdict = Literal["supported", "contradicted", "equivalent", "undecided", "by construction", "not measured"]
Finding = tuple[str, Verdict]
UNMEASURED: Finding = ("", "not measured")
SAME = 0.05  # of a ratio: within it two amounts are equivalent


def judged(contrast: Contrast, margin: float, *, claimed: Literal["higher", "lower"]) -> tuple[Verdict, str]:
    """Of a difference that the claim puts above or below 0, and what would decide it where nothing does yet."""
    (found,) = verdicts([contrast], margin)
    match found.word:
        case "better" | "worse":
            return ("supported" if (found.word == "better") == (claimed == "higher") else "contradicted"), ""
        case "equivalent":
            return "equivalent", f" (within {margin * 100:g} points)"
        case "undecided":
            needed = f"; {found.seeds_needed} seeds an arm would decide" if found.seeds_needed else ""
            return "undecided", needed
        case _:
            return "not measured", ""


def in_points(contrast: Contrast) -> str:
    """A difference of shares with its interval."""
    ends = contrast.interval() if contrast.error else None
    low, high = ends or (None, None)
    return interval(contrast.mean, low, high, scale=100, signed=True).text


def models_in_memory(duel: Duel, margin: float) -> Finding:
    both = [models_held(arm) for arm in (duel.ppo, duel.grpo)]
    if not all(both):
        return UNMEASURED
    words = "; ".join(f"{name} {len(m)} ({', '.join(m)})" for name, m in zip(("PPO", "GRPO"), both, strict=True))
    return f"{words}; at equal KL and equal reward PPO holds the critic more", "by construction"


def memory_overhead(duel: Duel, margin: float) -> Finding:
    ratio = duel.ratio("trained_gib")
    if ratio is None:
        return UNMEASURED
    words = f"weights, gradients and optimizers, GRPO over PPO: {quantity(ratio).text}"
    held = [set(models_held(arm)) - {"critic"} for arm in (duel.ppo, duel.grpo)]
    if held[0] != held[1]:
        return f"{words}; the arms hold other models besides the critic, so this is no measure of it", "not measured"
    if ratio.low is None or ratio.high is None:
        return words, "not measured"
    if ratio.low >= 2 / 4 and ratio.high <= 3 / 4:
        return words, "supported"
    return words, "contradicted" if ratio.high < 2 / 4 or ratio.low > 3 / 4 else "undecided"


def advantage(duel: Duel, margin: float) -> Finding:
    spread = [arm.mean("mean:actor/advantage_within_std") for arm in (duel.ppo, duel.grpo)]
    if spread[0] is None or spread[1] is None:
        return UNMEASURED
    ppo, grpo = (quantity(found).text for found in spread)
    return f"spread of the advantage inside a completion: PPO {ppo}, GRPO {grpo}", "by construction"


def credit(duel: Duel, margin: float) -> Finding:
    explained = duel.ppo.mean("last:critic/explained_variance")
    if explained is None:
        return UNMEASURED
    words = (
        f"PPO's critic explains {quantity(explained).text} of the return's variance in the last step; how far that is "
        "from what can be explained is not known here"
    )
    return words, "not measured"


def reward_kind(duel: Duel, margin: float) -> Finding:
    if "reward_model" in models_held(duel.ppo):
        return "PPO was given a learned reward", "not measured"
    gain = gain_of(duel.ppo, endpoint_of(duel.comparison))
    if gain is None:
        return UNMEASURED
    verdict, needed = judged(gain, margin, claimed="lower")
    words = f"PPO's gain with a rule as its only reward: {in_points(gain)} points{needed}"
    return words, "undecided" if verdict == "supported" else verdict  # a loss has other reasons than a rule


def gain_of(arm: Arm, endpoint: str) -> Contrast | None:
    """After minus before, over the seeds of one arm."""
    before, after = arm.values(f"start_{endpoint}"), arm.values(f"final_{endpoint}")
    seeds = sorted(before.keys() & after.keys())
    return crossed([[after[s]] for s in seeds], [[before[s]] for s in seeds]) if seeds else None


def compute_per_step(duel: Duel, margin: float) -> Finding:
    sizes = [arm.config.get("algo", {}).get("group_size") for arm in (duel.ppo, duel.grpo)]
    work = duel.ratio("cost/flops")
    if work is None or work.low is None or work.high is None:
        return UNMEASURED
    words = (
        f"outputs a prompt, by construction: PPO {sizes[0]}, GRPO {sizes[1]}; FLOPs of a run at equal outputs, "
        f"GRPO over PPO: {quantity(work).text}"
    )
    if work.low > 1 - SAME and work.high < 1 + SAME:
        return words, "equivalent"
    if work.low > 1:
        return words, "supported"
    return words, "contradicted" if work.high < 1 else "undecided"


def stability(duel: Duel, margin: float) -> Finding:
    lost = [num_broken(arm) for arm in (duel.ppo, duel.grpo)]
    words = f"runs that broke: PPO {lost[0]} of {len(duel.ppo.runs)}, GRPO {lost[1]} of {len(duel.grpo.runs)}"
    fall = duel.difference("accuracy_drawdown")
    if fall is not None:
        words += f"; deepest fall of validation accuracy, GRPO minus PPO: {in_points(fall)} points"
    return (
        f"{words}; needs runs over learning rates (--tune), whose basins say how much either forgives",
        "not measured",
    )


def best_for(duel: Duel, margin: float) -> Finding:
    d = duel.difference(f"final_{endpoint_of(duel.comparison)}")
    words = "an interaction: needs a task of dense preferences beside one of verifiable answers"
    return words if d is None else f"{words}; on this one GRPO minus PPO: {in_points(d)} points", "not measured"


def sparse_rewards(duel: Duel, margin: float) -> Finding:
    sparse = all((arm.config.get("task", {}).get("weights") or {}).get("format") == 0 for arm in (duel.ppo, duel.grpo))
    end = endpoint_of(duel.comparison)
    d, start = duel.difference(f"final_{end}"), duel.grpo.share(f"start_{end}")
    if not sparse or d is None:
        return "needs runs rewarded for right answers only (study sparse_reward)", "not measured"
    verdict, needed = judged(d, margin, claimed="higher")
    gains = [gain_of(arm, end) for arm in (duel.ppo, duel.grpo)]
    shown = " and ".join(in_points(gain) for gain in gains if gain is not None)
    words = f"right answers only, start {percent(start).text}%: gains of PPO and GRPO {shown} points; "
    return f"{words}GRPO minus PPO {in_points(d)}{needed}", verdict


def sample_efficiency(duel: Duel, margin: float) -> Finding:
    found = curves(duel.comparison, duel.records, "samples")
    end = horizon_of(duel.comparison, found)
    heights = [
        {seed: h for seed, (x, y) in found.get(arm.name, {}).items() if (h := mean_height(x, y, end)) is not None}
        for arm in (duel.grpo, duel.ppo)
    ]
    if not all(heights):
        return UNMEASURED
    d = by_seed(duel.grpo, duel.ppo, *heights)
    verdict, needed = judged(d, margin, claimed="lower")
    words = f"mean accuracy over the first {end:,.0f} samples, GRPO minus PPO: {in_points(d)} points{needed}"
    return words, verdict


CLAIMS: tuple[tuple[str, str, str, Callable[[Duel, float], Finding]], ...] = (
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


def practical_comparison(
    comparisons: Sequence[Comparison], records: Records, margin: float = Registration.margin
) -> Table | None:
    """Ten aspects for every comparison that has both methods; None where none has."""
    rows: list[Row] = []
    for comparison in comparisons:
        duel = _duel(comparison, records)
        for aspect, ppo, grpo, measure in CLAIMS if duel else ():
            assert duel is not None
            words, verdict = measure(duel, margin)
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
        "The claims as introductions to GRPO usually put them. Supported and contradicted: a 95% interval lies wholly "
        "on the claim's side, or on the other. Equivalent: within the margin, by two one-sided tests. Undecided: "
        "neither can be said from these runs. By construction: follows from what the methods are. What a small model "
        "shows need not hold at 7B. Ten separate looks, not corrected for their number."
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
