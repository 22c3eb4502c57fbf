"""The page on clusters: its simulation by numbers worked out by hand, and the page as the simulation says."""

import math
from pathlib import Path

from docs.generate_clusters import page, simulate

NEVER = 1e12


def test_equal_runs_without_deaths_take_whole_waves() -> None:
    even = simulate([2.0] * 8, nodes=4, between_h=NEVER, checkpoint_h=math.inf)
    assert (even.makespan_h, even.ideal_h, even.deaths, even.lost) == (4.0, 4.0, 0, 0)
    odd = simulate([2.0] * 5, nodes=4, between_h=NEVER, checkpoint_h=math.inf)
    assert (odd.makespan_h, odd.ideal_h) == (4.0, 2.5)


def test_the_next_run_goes_to_the_node_that_is_free_first() -> None:
    assert simulate([3.0, 1.0, 1.0, 1.0], nodes=2, between_h=NEVER, checkpoint_h=math.inf).makespan_h == 3.0


def test_a_run_is_given_up_after_three_attempts_and_checkpoints_save_it() -> None:
    lost = simulate([10.0], nodes=1, between_h=1e-3, checkpoint_h=math.inf)
    assert (lost.deaths, lost.lost) == (3, 1)
    runs = [10.0] * 50
    saved, started = (simulate(runs, nodes=5, between_h=20.0, checkpoint_h=hours) for hours in (0.1, math.inf))
    assert saved.makespan_h < started.makespan_h
    assert saved.deaths > 0


def test_the_page_on_clusters_is_what_the_simulation_says() -> None:
    """After a change: python -m docs.generate_clusters."""
    assert (Path(__file__).parents[3] / "docs" / "clusters.md").read_text() == page()
