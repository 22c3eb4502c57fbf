"""Flags of `bench doctor`."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class DoctorConfig:
    """Look over this machine."""

    out: Path = Path("results/runs")
    """Folder whose disk is measured: where runs are written."""
    json: bool = False
    """Print one JSON object instead of the table."""
    timeout_s: float = 3.0
    """Longest wait for the hub and for the sandbox."""
    quiet: bool = False
    """Print only what is missing."""
