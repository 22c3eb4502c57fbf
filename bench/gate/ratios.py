"""Costs of head and base, step by step in pairs -> findings.

Throughput of a phase is tokens over its own seconds. Each pair gives log(head / base), in which what slowed the machine
down for both cancels. The interval of its centre is Hodges and Lehmann's, so that a few disturbed pairs do not widen
it, and at 99% at every look: a phase that is exactly at its tolerance is called worse in at most one look of 200, an
unchanged one far more seldom.

Bytes by role come from storages: they repeat, and are compared as they are. Peaks by phase are compared in pairs, too.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench.gate.tolerances import Tolerances, tolerance_of
from bench.gate.verdict import Finding, Status
from bench.stats import hodges_lehmann

Cost = dict[str, Any]  # as `bench.gate.worker` says it
SIDES = ("base", "head")
LEVEL = 0.99
MIN_SHARE = 0.1  # of the base's step: what takes less is too short to be timed, and too short to matter
PEAK = "peak_gib/"
NO_ROLE = ("unexplained_gib", PEAK, "torch_peak_gib/")


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One step of each, of the same prompts, one right after the other."""

    base: Cost
    head: Cost


def judge_ratio(pairs: Sequence[Pair], subject: str, tolerances: Tolerances) -> list[Finding]:
    """Every quantity, from the pairs so far."""
    found = [throughput_finding(pairs, phase, subject, tolerances) for phase in phases(pairs)]
    found += [role_finding(pairs, name, subject, tolerances) for name in roles(pairs)]
    return [*found, *(peak_finding(pairs, name, subject, tolerances) for name in peaks(pairs))]


def undecided(findings: Sequence[Finding]) -> bool:
    """Whether more pairs could decide anything."""
    return any(finding.status == "cannot judge" and "low" in finding.numbers for finding in findings)


def phases(pairs: Sequence[Pair]) -> Iterator[str]:
    """The whole step, and the phases that are long enough; what only one side has is judged, too."""
    total = sum(pair.base["own_s"]["step"] for pair in pairs)
    for phase in dict.fromkeys(name for pair in pairs for name in (*pair.base["own_s"], *pair.head["own_s"])):
        if (
            max(sum(side["own_s"].get(phase, 0.0) for side in costs_of_side(pairs, which)) for which in SIDES)
            >= MIN_SHARE * total
        ):
            yield phase


def costs_of_side(pairs: Sequence[Pair], which: str) -> list[Cost]:
    """One side of the pairs."""
    return [getattr(pair, which) for pair in pairs]


def rate(cost: Cost, phase: str) -> float | None:
    """Tokens a second; None where the phase was not measured or handled none."""
    tokens = cost["tokens"]["generated" if phase in ("rollout", "score", "step") else "trained"]
    seconds = cost["own_s"].get(phase)
    return tokens / seconds if seconds and seconds > 0 and tokens else None


def throughput_finding(pairs: Sequence[Pair], phase: str, subject: str, tolerances: Tolerances) -> Finding:
    """Of one phase."""
    quantity = f"throughput/{phase}"
    rates = [(rate(pair.base, phase), rate(pair.head, phase)) for pair in pairs]
    return from_pairs(rates, quantity, subject, tolerances)


def peak_finding(pairs: Sequence[Pair], name: str, subject: str, tolerances: Tolerances) -> Finding:
    """Of one phase's memory."""
    sizes = [(pair.base["memory"].get(name), pair.head["memory"].get(name)) for pair in pairs]
    quantity = f"memory/peak/{name.removeprefix(PEAK)}"
    return from_pairs(sizes, quantity, subject, tolerances)


def from_pairs(
    values: Sequence[tuple[float | None, float | None]], quantity: str, subject: str, tolerances: Tolerances
) -> Finding:
    """The verdict on a ratio, measured as (base, head) pair by pair."""
    tolerance = tolerance_of(quantity, tolerances)
    known = [math.log(head / base) for base, head in values if base and head]
    if len(known) < len(values):
        return missing_finding(subject, quantity, tolerance, in_base=all(base for base, _ in values))
    centre = hodges_lehmann(known, LEVEL)
    if centre.low is None or centre.high is None:
        return cost_finding(
            subject, quantity, "cannot judge", "too few pairs", tolerance, {"n": len(known), "low": None}
        )
    mean, low, high = (math.expm1(x) for x in (centre.mean, centre.low, centre.high))
    numbers: dict[str, float | None] = {"ratio": mean + 1, "low": low + 1, "high": high + 1, "n": len(known)}
    measured = f"{mean:+.1%} [{low:+.1%}, {high:+.1%}]"
    return cost_finding(subject, quantity, status_of_interval(low, high, tolerance), measured, tolerance, numbers)


def missing_finding(subject: str, quantity: str, tolerance: float, *, in_base: bool) -> Finding:
    """What the base measured and the head does not is red; what the base did not measure cannot be compared."""
    verdict: Status = "worse" if in_base else "cannot judge"
    return cost_finding(subject, quantity, verdict, "no longer measured" if in_base else "missing", tolerance, {})


def status_of_interval(low: float, high: float, tolerance: float) -> Status:
    """Of an interval against a limit: below a negative one is worse, and above a positive one."""
    if tolerance < 0:
        low, high, tolerance = -high, -low, -tolerance
    return "pass" if high <= tolerance else "worse" if low > tolerance else "cannot judge"


def cost_finding(
    subject: str, quantity: str, verdict: Status, measured: str, tolerance: float, numbers: dict[str, float | None]
) -> Finding:
    """As tier 2 words it."""
    return Finding(
        tier=2,
        subject=subject,
        quantity=quantity,
        status=verdict,
        measured=measured,
        tolerance=f"{tolerance:+.0%}",
        numbers=numbers,
    )


def roles(pairs: Sequence[Pair]) -> list[str]:
    """Of either side."""
    names = dict.fromkeys(name for pair in pairs for side in (pair.base, pair.head) for name in side["memory"])
    return [name for name in names if not name.startswith(NO_ROLE)]


def peaks(pairs: Sequence[Pair]) -> list[str]:
    """Phases whose peak either side measured."""
    names = dict.fromkeys(name for pair in pairs for side in (pair.base, pair.head) for name in side["memory"])
    return [name for name in names if name.startswith(PEAK)]


def role_finding(pairs: Sequence[Pair], name: str, subject: str, tolerances: Tolerances) -> Finding:
    """The largest size of one role on either side. One that the base does not hold at all has grown."""
    quantity = f"memory/{name.removesuffix('_gib')}"
    tolerance = tolerance_of(quantity, tolerances)
    base, head = (
        max((s["memory"][name] for s in costs_of_side(pairs, w) if name in s["memory"]), default=None) for w in SIDES
    )
    numbers = {"base_gib": base, "head_gib": head}
    if head is None:
        return missing_finding(subject, quantity, tolerance, in_base=True)
    if not base:
        return cost_finding(
            subject, quantity, "worse" if head else "pass", f"{gib_in_words(head)}, new", tolerance, numbers
        )
    growth = head / base - 1
    verdict: Status = "pass" if growth <= tolerance else "worse"
    return cost_finding(
        subject, quantity, verdict, f"{growth:+.1%} ({gib_in_words(base)} -> {gib_in_words(head)})", tolerance, numbers
    )


def gib_in_words(gib: float) -> str:
    """In MiB below one GiB."""
    return f"{gib:.2f} GiB" if gib >= 1 else f"{gib * 1024:.1f} MiB"
