"""Goldens and baselines that the change under check moves itself: a check against them says little, so it is told."""

import subprocess
from pathlib import Path

SHIPPED = Path("bench/gate/goldens")


def moved_here(base: Path | None, baselines: Path) -> list[str]:
    """A line that names what moved against the base's tree (without one: what is not committed); else nothing."""
    folders = [folder for folder in (SHIPPED, baselines) if not folder.is_absolute()]
    names = sorted(set(uncommitted(folders) if base is None else differing(base, folders)))
    if not names:
        return []
    since = "not committed" if base is None else "not as in the base"
    return [
        f"BASELINES MOVED IN THIS VERY CHANGE ({since}): {', '.join(names)}: read their history before you trust it"
    ]


def differing(base: Path, folders: list[Path]) -> list[str]:
    """Files that one tree has otherwise than the other, or not at all."""
    names = {
        str(file.relative_to(root))
        for root in (Path.cwd(), base)
        for folder in folders
        for file in (root / folder).rglob("*.json")
    }
    return [name for name in names if content(Path.cwd() / name) != content(base / name)]


def content(file: Path) -> bytes | None:
    """None where there is no file."""
    return file.read_bytes() if file.exists() else None


def uncommitted(folders: list[Path]) -> list[str]:
    """Files that git has otherwise than they are here."""
    command = ["git", "status", "--porcelain", "--untracked-files=all", "--", *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [line[3:] for line in done.stdout.splitlines() if line.endswith(".json")]
