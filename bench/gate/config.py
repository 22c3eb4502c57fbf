"""Flags of `bench check`, apart from what it needs to run: --help loads no more."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from bench.study.config import ExecutorConfig


@dataclass(frozen=True, kw_only=True)
class CheckConfig(ExecutorConfig):
    """Hold this tree against a base: exit code 0 passed, 1 worse, 2 usage, 3 cannot judge."""

    tiers: tuple[Literal[1, 2, 3], ...] = (1,)
    """Tiers to run. 1: results against goldens. 2: throughput and memory against --base. 3: accuracy over seeds."""
    algo: Annotated[tuple[str, ...], tyro.conf.arg(aliases=["--algos"])] = ()
    """Methods, `pkg.mod:Class` for one's own. None: every one for tier 1, grpo and ppo for tiers 2 and 3."""
    base: str | None = None
    """Commit or folder to compare with. Tier 3 without one reads a stored baseline."""
    tolerance: tuple[str, ...] = ()
    """How much worse is still good, such as 'throughput: -10%' 'memory/policy: +2%' 'accuracy: -5'."""
    task: str = "gsm8k"
    """Task of tiers 2 and 3."""
    model: str = "embedded"
    """Model of tiers 2 and 3."""
    budget: str = "samples=2560"
    """Budget of each run in tier 3."""
    set: tuple[str, ...] = ()
    """Settings of tiers 2 and 3, SETTING=VALUE, such as samples-per-step=64."""
    seeds: int = 4
    """Runs a side at the first look of tier 3."""
    max_seeds: int = 12
    """Runs a side at the last look of tier 3."""
    pairs: int = 8
    """Steps a side at the first look of tier 2."""
    max_pairs: int = 40
    """Steps a side at the last look of tier 2."""
    runs: Path | None = None
    """Recorded runs that tier 3 judges, and starts none."""
    against: Path | None = None
    """What --runs are held against: recorded runs, or a baseline's file. None: the stored baseline."""
    baselines: Path | None = None
    """Folder of goldens and baselines. None: the package's goldens, and results/baselines."""
    update_baseline: bool = False
    """Store what tiers 1 and 3 find instead of judging it. Needs --reason."""
    reason: str = ""
    """Why a baseline moves; it is stored with it."""
    out: Path = Path("results/check")
    """Folder for check.md, junit.xml, check.json and the runs."""
    quiet: bool = False
    """Print the closing table only."""
