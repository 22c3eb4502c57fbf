"""Writes docs/clusters.md and its figure: `python -m docs.generate_clusters`. A test keeps the two together."""

import heapq
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
from tabulate import tabulate

from bench.study.cluster import ATTEMPTS

HERE = Path(__file__).parent
RUNS, NODES = 1000, 64
HOURS, SPREAD = 4.0, 0.3  # of a run: median, and the standard deviation of its logarithm
REPAIR_H = 0.5  # until a node that died is back
BETWEEN_DEATHS_H = (1000, 300, 100, 30)  # of one node
CHECKPOINTS_H = {"every 0.25 h": 0.25, "never (from the start)": float("inf")}


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """What became of a study."""

    makespan_h: float
    ideal_h: float  # all work divided evenly by the nodes, no death
    deaths: int  # of nodes while they held a run
    lost: int  # runs given up


def simulate(durations: Sequence[float], nodes: int, between_h: float, checkpoint_h: float, seed: int = 0) -> Simulated:
    """Each node takes the next run that waits; a death sends its run to the end of the queue, from its checkpoint."""
    draw = random.Random(seed)
    waiting = deque((hours, 1) for hours in durations)  # what is left of a run, and which attempt it is
    free = [(0.0, node) for node in range(nodes)]
    going: list[tuple[float, int, float, int]] = []  # when it ends or dies, its node, what is left then, attempt
    end, deaths, lost = 0.0, 0, 0
    while waiting or going:
        while waiting and free and (not going or free[0][0] <= going[0][0]):
            now, node = heapq.heappop(free)
            left, attempt = waiting.popleft()
            lives = draw.expovariate(1 / between_h)
            done = left if lives >= left else lives - lives % checkpoint_h if checkpoint_h <= lives else 0.0
            heapq.heappush(going, (now + min(left, lives), node, left - done, attempt))
        now, node, left, attempt = heapq.heappop(going)
        end = max(end, now)
        if left:
            deaths += 1
            heapq.heappush(free, (now + REPAIR_H, node))
            if attempt < ATTEMPTS:
                waiting.append((left, attempt + 1))
            else:
                lost += 1
            free = [(max(since, now), which) for since, which in free]
        else:
            heapq.heappush(free, (now, node))
        heapq.heapify(free)
    return Simulated(makespan_h=end, ideal_h=sum(durations) / nodes, deaths=deaths, lost=lost)


def study() -> list[float]:
    """Hours of the runs."""
    draw = random.Random(1)
    return [HOURS * draw.lognormvariate(0.0, SPREAD) for _ in range(RUNS)]


def simulated() -> dict[str, dict[int | float, Simulated]]:
    """By checkpoints, then by a node's hours between deaths; infinity is none."""
    runs, rates = study(), (float("inf"), *BETWEEN_DEATHS_H)
    return {name: {b: simulate(runs, NODES, min(b, 1e12), c) for b in rates} for name, c in CHECKPOINTS_H.items()}


def table(found: dict[str, dict[int | float, Simulated]]) -> str:
    """One row a case."""
    rows: list[list[str]] = []
    for name, cases in found.items():
        for between, case in cases.items():
            dies = "never" if between == float("inf") else f"{between} h"
            times = [f"{case.makespan_h:.1f}", f"{case.ideal_h:.1f}", f"{case.makespan_h / case.ideal_h:.3f}"]
            rows.append([name, dies, *times, str(case.deaths), str(case.lost)])
    heads = ["checkpoints", "a node dies every", "makespan h", "ideal h", "makespan / ideal", "deaths", "runs given up"]
    return tabulate(rows, headers=heads, tablefmt="pipe", disable_numparse=True)


def draw_figure(found: dict[str, dict[int | float, Simulated]], path: Path) -> None:
    """Makespan against the ideal."""
    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    for name, cases in found.items():
        ratios = [cases[between].makespan_h / cases[between].ideal_h for between in BETWEEN_DEATHS_H]
        axes.plot(BETWEEN_DEATHS_H, ratios, "o-", label=name)
    axes.axhline(1.0, color="grey", linewidth=0.8)
    axes.set(xscale="log", xlabel="hours between deaths of a node", ylabel="makespan / ideal")
    axes.set_title(f"{RUNS:,} runs on {NODES} nodes (simulated)")
    axes.legend(title="checkpoints")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def page() -> str:
    """The whole page."""
    text = (HERE / "clusters_text.md").read_text()
    return text.replace("{{simulation}}", table(simulated()))


if __name__ == "__main__":
    plt.rcParams["svg.hashsalt"] = "clusters"
    draw_figure(simulated(), HERE / "clusters.svg")
    (HERE / "clusters.md").write_text(page())
