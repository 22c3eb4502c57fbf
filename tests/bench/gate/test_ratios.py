"""Tier 2: what is worse, what is not, and what cannot be told, from simulated costs."""

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from bench.gate.costs import Side, in_turns
from bench.gate.ratios import Pair, judge_ratio
from bench.gate.tolerances import parse_tolerances, tolerance_of
from bench.gate.verdict import Finding, look_sizes
from bench.ground.errors import UserError

TOLERANCES = parse_tolerances(())
Cost = dict[str, Any]
Noise = Callable[[], float]


def cost(rollout: float = 1.0, *, noise: float = 1.0, **memory: float) -> Cost:
    """A step of 1 s rollout, 2 s update and a sync too short to judge."""
    seconds = {"rollout": rollout * noise, "update": 2.0 * noise, "sync": 0.001}
    return {
        "own_s": seconds | {"step": sum(seconds.values())},
        "tokens": {"generated": 1000, "trained": 1000},
        "memory": {"policy_gib": 0.1, "roles_gib": 0.1, "unexplained_gib": 9.0, "peak_gib/update": 0.5} | memory,
    }


class Simulated:
    """A worker whose steps are noisy."""

    def __init__(self, noise: Noise, rollout: float = 1.0, **memory: float) -> None:
        self.noise, self.rollout, self.memory = noise, rollout, memory

    def step(self) -> Cost:
        return cost(self.rollout, noise=self.noise(), **self.memory)


def run(head: Simulated, base: Simulated, sizes: list[int]) -> dict[str, Finding]:
    workers: dict[Side, Simulated] = {"base": base, "head": head}
    found, _ = in_turns(workers, "x", TOLERANCES, sizes, lambda line: None)
    return {finding.quantity: finding for finding in found}


def statuses(pairs: list[Pair]) -> dict[str, str]:
    return {f.quantity: f.status for f in judge_ratio(pairs, "x", TOLERANCES)}


def test_equal_costs_pass_and_short_phases_are_left_out() -> None:
    found = statuses([Pair(base=cost(), head=cost())] * 8)
    assert found == dict.fromkeys(
        (
            "throughput/rollout",
            "throughput/update",
            "throughput/step",
            "memory/policy",
            "memory/roles",
            "memory/peak/update",
        ),
        "pass",
    )


def test_a_slower_phase_is_worse_and_the_others_are_not() -> None:
    found = statuses([Pair(base=cost(), head=cost(1.25))] * 8)
    assert found["throughput/rollout"] == "worse"
    assert found["throughput/update"] == "pass"
    assert statuses([Pair(base=cost(1.25), head=cost())] * 8)["throughput/rollout"] == "pass"


def test_throughput_counts_tokens_not_seconds() -> None:
    """A head that generates more takes longer, and is no slower."""
    longer = cost(1.5)
    longer["tokens"] = {"generated": 1500, "trained": 1000}
    assert statuses([Pair(base=cost(), head=longer)] * 8)["throughput/rollout"] == "pass"


def test_memory_grows_by_role_and_by_peak() -> None:
    found = statuses([Pair(base=cost(), head=cost(policy_gib=0.11))] * 8)
    assert (found["memory/policy"], found["memory/roles"]) == ("worse", "pass")
    assert statuses([Pair(base=cost(), head=cost(policy_gib=0.1019))] * 8)["memory/policy"] == "pass"
    assert statuses([Pair(base=cost(), head=cost(critic_gib=0.1))] * 8)["memory/critic"] == "worse"
    found = statuses([Pair(base=cost(), head=cost(**{"peak_gib/update": 0.6}))] * 8)
    assert found["memory/peak/update"] == "worse"
    assert statuses([Pair(base=cost(), head=cost(**{"peak_gib/update": 0.55}))] * 8)["memory/peak/update"] == "pass"


def test_what_is_missing_never_passes() -> None:
    gone = cost()
    del gone["own_s"]["rollout"], gone["memory"]["policy_gib"], gone["memory"]["peak_gib/update"]
    quantities = ("throughput/rollout", "memory/policy", "memory/peak/update")
    found = statuses([Pair(base=cost(), head=gone)] * 8)
    assert {found[q] for q in quantities} == {"worse"}
    found = statuses([Pair(base=gone, head=cost())] * 8)
    assert [found[q] for q in quantities] == ["cannot judge", "worse", "cannot judge"], "a new role has grown from 0"


def test_too_few_pairs_cannot_judge() -> None:
    assert statuses([Pair(base=cost(), head=cost(2.0))] * 7)["throughput/rollout"] == "cannot judge"


def test_looks_end_when_everything_is_decided() -> None:
    counts = {"base": 0, "head": 0}

    class Counted(Simulated):
        def __init__(self, side: str, rollout: float) -> None:
            super().__init__(lambda: 1.0, rollout)
            self.side = side

        def step(self) -> Cost:
            counts[self.side] += 1
            return super().step()

    run(Counted("head", 2.0), Counted("base", 1.0), [8, 12, 40])
    assert counts == {"base": 8, "head": 8}


def share_of(status: str, quantity: str, rollout: float, sd: float, count: int = 300) -> float:
    """Of simulated checks in which a machine's speed wanders and now and then stalls."""
    draw = random.Random(f"{rollout}/{sd}")
    noise = lambda: math.exp(draw.gauss(0, sd)) * (3.0 if draw.random() < 0.05 else 1.0)
    found = [run(Simulated(noise, rollout), Simulated(noise), look_sizes(8, 40))[quantity].status for _ in range(count)]
    return found.count(status) / count


@pytest.mark.parametrize("sd", [0.02, 0.1, 0.25])
def test_noise_alone_is_seldom_called_worse(sd: float) -> None:
    assert share_of("worse", "throughput/rollout", 1.0, sd) <= 0.01


def test_at_the_tolerance_itself_few_are_called_worse() -> None:
    """The least favourable case of an acceptable change: 10% slower, all looks together."""
    assert share_of("worse", "throughput/rollout", 1 / 0.9, 0.1) <= 0.03


@pytest.mark.parametrize(("sd", "least"), [(0.02, 0.99), (0.1, 0.85)])
def test_a_quarter_slower_is_caught(sd: float, least: float) -> None:
    assert share_of("worse", "throughput/rollout", 1.25, sd) >= least


def test_on_a_very_noisy_machine_it_says_so() -> None:
    assert share_of("cannot judge", "throughput/rollout", 1.0, 0.6, 50) > 0.5


def test_tolerances_are_read_and_the_nearest_name_holds() -> None:
    found = parse_tolerances(["throughput: -20%", "memory/policy: +5%", " accuracy : -2.5 points"])
    assert tolerance_of("throughput/rollout", found) == -0.2
    assert tolerance_of("memory/policy", found) == 0.05
    assert tolerance_of("memory/critic", found) == 0.02
    assert tolerance_of("memory/peak/update", found) == 0.15
    assert tolerance_of("accuracy", found) == -0.025


@pytest.mark.parametrize(
    "text", ["throughput -10%", "speed: -10%", "throughput: 10%", "memory: -2%", "accuracy: -5%", "memory: +2"]
)
def test_a_wrong_tolerance_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--tolerance"):
        parse_tolerances([text])


def test_looks_grow_by_half() -> None:
    assert look_sizes(8, 40) == [8, 12, 18, 27, 40]
    assert look_sizes(4, 12) == [4, 6, 9, 12]
    assert look_sizes(3, 3) == [3]
