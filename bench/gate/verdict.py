"""What a check finds, and the exit code that follows."""

import getpass
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

Status = Literal["pass", "worse", "cannot judge"]
EXIT_CODES: dict[Status, int] = {"pass": 0, "worse": 1, "cannot judge": 3}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One question and its answer."""

    tier: int
    subject: str  # the method
    quantity: str  # "formulas", "throughput/rollout", "accuracy"
    status: Status
    measured: str = ""  # in words, with its interval
    tolerance: str = ""
    detail: str = ""
    numbers: dict[str, Any] = field(default_factory=dict[str, Any])  # the same for programs


def overall(findings: Sequence[Finding]) -> Status:
    """Worse where anything is; else whatever could not be judged is not passed. Nothing found judges nothing."""
    found = {finding.status for finding in findings}
    if "worse" in found:
        return "worse"
    return "cannot judge" if "cannot judge" in found or not found else "pass"


def signature(reason: str) -> dict[str, str]:
    """Who moves a baseline, when and why. Who: the name that git knows, else the login's."""
    known = subprocess.run(["git", "config", "user.name"], capture_output=True, text=True, check=False).stdout.strip()
    return {"when": datetime.now(UTC).isoformat(timespec="seconds"), "who": known or getpass.getuser(), "why": reason}


def look_sizes(first: int, last: int) -> list[int]:
    """Sizes at which to look, each half as large again as the one before."""
    sizes = [first]
    while sizes[-1] < last:
        sizes.append(min(last, sizes[-1] + max(1, sizes[-1] // 2)))
    return sizes
