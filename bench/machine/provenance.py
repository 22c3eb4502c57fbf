"""What stands behind a figure: the commit, the versions and the hardware of the run."""

import contextlib
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from bench.machine.versions import driver_version, package_version

PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "datasets",
    "numpy",
    "math-verify",
    "reasoning-gym",
    "vllm",
    "deepspeed",
    "peft",
)


def provenance(device: torch.device) -> dict[str, Any]:
    """What a figure needs beside it to be believed: code, versions and hardware."""
    return {
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        **commit(),
        "python": platform.python_version(),
        "versions": {name: found for name in PACKAGES if (found := package_version(name)) is not None},
        "device": device_name(device),
        "num_threads": torch.get_num_threads(),
        "cuda": torch.version.cuda,
        **driver_version(),
        "platform": platform.platform(),
    }


def commit() -> dict[str, Any]:
    """Commit and whether the working tree differs from it; absent outside a checkout."""

    def git(*args: str) -> str | None:
        result = subprocess.run(["git", *args], cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
        return result.stdout.strip() if result.returncode == 0 else None

    with contextlib.suppress(OSError):
        head = git("rev-parse", "HEAD")
        if head is not None:
            return {"commit": head, "dirty": bool(git("status", "--porcelain", "--untracked-files=no"))}
    return {}


def device_name(device: torch.device) -> str:
    """The GPU's name, or the processor's."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
