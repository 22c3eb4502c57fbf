"""Every contrast between arms with its verdict: registered ones first, the rest marked as exploratory."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.contrast import Contrast
from bench.ground.registration import Registration
from bench.report.activity import exercised
from bench.report.comparison import Arm, Comparison, difference_by_seed
from bench.report.duel import models_held
from bench.report.outcomes import contrast_of, endpoint_of, shares_prompts
from bench.report.outcomes import in_words as endpoint_in_words
from bench.report.records import Records
from bench.report.results import lost_in_words, pairs
from bench.report.tables import Cell, Row, Table, interval, number, percent, points, text
from bench.stats import probability_of_improvement
from bench.verdicts import ALPHA, Verdict, in_words, verdicts

REPEATS = 1e-3  # difference between shares of repeated prompts from which on it is said


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A pair of arms with its verdict; None where an arm has no result."""

    comparison: Comparison
    first: Arm
    second: Arm
    primary: bool
    verdict: Verdict | None

    @property
    def words(self) -> str:
        """The verdict, with the runs that were lost."""
        said = "no verdict: an arm has no result"
        if self.verdict is not None:
            said = in_words(self.verdict, self.first.name, self.second.name)
        return said + lost_in_words(self.first, self.second)


def judge_all(
    comparisons: Sequence[Comparison], records: Records, reference: str | None, registration: Registration
) -> list[Judged]:
    """Primary contrasts of all comparisons are one family; the other pairs of each comparison one of their own."""
    primary = [
        (comparison, a, b)
        for comparison in comparisons
        for first, second in registration.primary
        for a in comparison.arms
        for b in comparison.arms
        if (a.name, b.name) == (first, second)
    ]
    found = _family(primary, records, registration, primary=True)
    named = {frozenset(pair) for pair in registration.primary}
    for comparison in comparisons:
        matched = pairs(comparison, reference)
        others = [(comparison, a, b) for a, b in matched if frozenset((a.name, b.name)) not in named]
        found += _family(others, records, registration, primary=False)
    return found


def _family(
    members: Sequence[tuple[Comparison, Arm, Arm]], records: Records, registration: Registration, *, primary: bool
) -> list[Judged]:
    contrasts = [contrast_of(c, records, a, b, endpoint_of(c)) for c, a, b in members]
    known = [contrast for contrast in contrasts if contrast is not None]
    active = [exercised(a, b) for (_, a, b), contrast in zip(members, contrasts, strict=True) if contrast is not None]
    judged = iter(verdicts(known, registration.margin, active, len(registration.looks)))
    return [
        Judged(comparison=c, first=a, second=b, primary=primary, verdict=None if contrast is None else next(judged))
        for (c, a, b), contrast in zip(members, contrasts, strict=True)
    ]


def arm_differences(judged: Sequence[Judged], registration: Registration) -> Table:
    """One row a contrast."""
    looks = (
        f" Look {len(registration.looks)} at growing data, at Pocock's level." if len(registration.looks) > 1 else ""
    )
    return Table(
        name="comparisons",
        title="Differences between arms",
        note=(
            "Accuracy of the first arm minus the second on the test split, in percentage points. One 95% interval with "
            "both sources of error, training seeds and test problems; arms that share their prompts (equal groups, no "
            "refill) are paired, others compared as independent runs. Better and worse: p below 5%, Holm-adjusted "
            "over the primary contrasts of all settings, and over the exploratory ones of each. Equivalent within the "
            f"margin ({registration.margin * 100:g} points): two one-sided tests, adjusted likewise. Detectable is "
            "planning, not evidence: the true difference that this design finds four times in five at the level the "
            "verdict uses, its spread pooled over the setting's contrasts." + looks
        ),
        rows=[_row(item, _pooled(item, judged)) for item in judged],
    )


def _pooled(item: Judged, judged: Sequence[Judged]) -> float | None:
    """Detectable difference at the spread of all contrasts of the same kind in one setting."""
    alike = [
        other.verdict
        for other in judged
        if other.comparison is item.comparison and other.primary == item.primary and other.verdict is not None
    ]
    known = [v.detectable for v in alike if v.detectable is not None]
    return (sum(value**2 for value in known) / len(known)) ** 0.5 if known else None


def _row(item: Judged, detectable: float | None) -> Row:
    end = endpoint_of(item.comparison)
    a, b, found = item.first, item.second, item.verdict
    first, second = a.values(f"final_{end}"), b.values(f"final_{end}")
    improvement = probability_of_improvement([*first.values()], [*second.values()]) if first and second else None
    return {
        "setting": text(item.comparison.label),
        "arms": text(f"{a.name} - {b.name}"),
        "kind": text("primary" if item.primary else "exploratory"),
        "verdict": text(item.words),
        "difference": _difference(found.contrast) if found else text(""),
        "of": text(endpoint_in_words(end)),
        "n": text(_sizes(found.contrast) if found else ""),
        "p (adjusted)": number(found.p if found else None, 2),
        "p of a difference beyond the margin": number(found.p_equivalent if found else None, 2),
        "detectable": percent(detectable),
        "seeds that decide": number(found.seeds_needed if found else None),
        "differs also in": text(differs_also(a, b)),
        "greedy": points(difference_by_seed(a.values("final_accuracy"), b.values("final_accuracy"))),
        "P(first beats second)": percent(improvement),
    }


def _difference(contrast: Contrast) -> Cell:
    ends = contrast.interval(1 - ALPHA) if contrast.error else None
    low, high = ends or (None, None)
    return interval(contrast.mean, low, high, scale=100, signed=True)


def _sizes(contrast: Contrast) -> str:
    first, second = contrast.seeds
    problems = f", {contrast.problems} problems" if contrast.problems > 1 else ""
    return f"{first} pairs{problems}" if contrast.paired else f"{first} and {second}, independent{problems}"


def differs_also(a: Arm, b: Arm) -> str:
    """What else two arms had unequal amounts of, which a difference may come from."""
    parts: list[str] = []
    for column, word in (("data/updates", "updates"), ("data/prompts", "distinct prompts")):
        amounts = [arm.mean(column) for arm in (a, b)]
        if amounts[0] is not None and amounts[1] is not None and amounts[0].mean != amounts[1].mean:
            parts.append(f"{word} {amounts[0].mean:,.0f} against {amounts[1].mean:,.0f}")
    repeats = [arm.share("mean:prompt/repeated_frac") for arm in (a, b)]
    if repeats[0] is not None and repeats[1] is not None and abs(repeats[0].mean - repeats[1].mean) >= REPEATS:
        parts.append(f"prompts repeated in a step {repeats[0].mean:.1%} against {repeats[1].mean:.1%}")
    kl = [arm.config.get("algo", {}).get("kl_coef") for arm in (a, b)]
    if kl[0] != kl[1]:
        parts.append(f"KL {kl[0]} against {kl[1]}")
    models = [models_held(arm) for arm in (a, b)]
    if models[0] != models[1]:
        parts.append(
            f"models {', '.join(models[0]) or 'not measured'} against {', '.join(models[1]) or 'not measured'}"
        )
    if not shares_prompts(a, b):
        parts.append("prompts not shared")
    return "; ".join(parts)
