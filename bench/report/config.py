"""Flags of `bench report`, apart from what it needs to run: --help loads no more."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True, kw_only=True)
class ReportConfig:
    """Tables, figures and a page from recorded runs."""

    paths: Annotated[tuple[Path, ...], tyro.conf.Positional] = (Path("results/runs"),)
    """Run directories, or folders that hold some at any depth."""
    out: Path = Path("results/report")
    """Folder for the report, and its cache."""
    title: str = "PPO against GRPO"
    """Heading of the page."""
    reference: str | None = None
    """Arm against which the others are compared. None: every two arms."""
    target: float | None = None
    """Accuracy for cost-to-target. None: 90% of the way from the start to the lowest arm's end."""
    quiet: bool = False
    """Print the page's path only."""
