"""Flags of `bench compare`, apart from what it needs to run: --help loads no more."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from bench.ground.errors import UserError


@dataclass(frozen=True, kw_only=True)
class ExecutorConfig:
    """Where runs are carried out."""

    executor: Literal["local", "ray"] = "local"
    """What carries runs out: processes of this machine, or Ray on this machine or a cluster (docs/clusters.md)."""
    ray_address: str | None = None
    """HOST:PORT of a Ray cluster, or auto for the one that this machine belongs to. None: a Ray of its own, here."""
    ray_files: Literal["sent", "shared"] = "sent"
    """How files get to nodes. sent: Ray carries folders there and results back. shared: all see the same paths."""
    ray_cores: int = 1
    """Cores that a run asks of its node under Ray, and the threads that it computes with."""
    jobs: int | None = None
    """Runs at once, which share the processor's cores. None: one, or with Ray as many as the cluster holds."""

    def check(self) -> None:
        """Refuse what cannot be.

        Raises:
            UserError: says which setting, and what would do.
        """
        if self.jobs is not None and self.jobs < 1:
            raise UserError(f"--jobs {self.jobs}: must be at least 1")
        if self.ray_cores < 1:
            raise UserError(f"--ray-cores {self.ray_cores}: must be at least 1")
        if self.executor == "local" and self.ray_address is not None:
            raise UserError(f"--ray-address {self.ray_address}: add --executor ray, which alone reads it")

    def of_ray(self) -> dict[str, str | int | None]:
        """What another process needs to know to use the same cluster."""
        names = ("executor", "ray_address", "ray_files", "ray_cores")
        return {name: getattr(self, name) for name in names}

    @property
    def at_once(self) -> int | None:
        """Runs at once; None: as many as a cluster holds."""
        return self.jobs or (1 if self.executor == "local" else None)


@dataclass(frozen=True, kw_only=True)
class CompareConfig(ExecutorConfig):
    """Run a study and report on it. What is given here goes over the study's file."""

    study: str = "default"
    """A study file, or the name of a ready one."""
    algos: tuple[str, ...] = ()
    """Algorithms to compare, each with its defaults."""
    arms: tuple[str, ...] = ()
    """Arms to compare: ALGO or NAME=ALGO[@RECIPE][,SETTING=VALUE...]."""
    task: Annotated[tuple[str, ...], tyro.conf.arg(aliases=["--tasks"])] = ()
    """Tasks, each a comparison of its own."""
    model: Annotated[tuple[str, ...], tyro.conf.arg(aliases=["--models"])] = ()
    """Models, each a comparison of its own."""
    preset: Annotated[tuple[str, ...], tyro.conf.arg(aliases=["--presets"])] = ()
    """Hardware presets, each a comparison of its own."""
    data: Path | None = None
    """Data in the official format, as for `run`."""
    seeds: int | None = None
    """Runs of each arm in each place."""
    budget: str | None = None
    """What each run may use, as for `run`; equal for all arms."""
    set: tuple[str, ...] = ()
    """Settings of every run, SETTING=VALUE, such as eval.every=4."""
    reference: str | None = None
    """Arm that the others are compared with. None: every two arms."""
    tune: int | None = None
    """Points of each arm's space to try before the study, on validation. None: what the study's file says."""
    tune_seeds: int | None = None
    """Runs at each point that --tune tries. None: what the study's file says."""
    space: tuple[str, ...] = ()
    """Space of every arm for --tune: SETTING=V1,V2,..."""
    equal: Literal["flops", "tokens", "seconds", "samples", "updates"] | None = None
    """Unit of cost in which all runs get the same: as much as a pilot run of the first arm uses under the budget."""
    out: Path = Path("results/studies")
    """Folder in which the study's own folder is made."""
    name: str | None = None
    """Name of the study and its folder. None: that of the file."""
    dry_run: bool = False
    """Show the plan and stop."""
    quiet: bool = False
    """Print the closing table only."""
