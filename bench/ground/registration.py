"""What a study registered before its first run, as its folder keeps it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.ground.files import read_json

FILE = "registered.json"


@dataclass(frozen=True, kw_only=True)
class Registration:
    """A study's contrasts, and how often its data were looked at."""

    primary: Sequence[tuple[str, str]] = ()  # first minus second
    margin: float = 0.01  # a share: the smallest difference worth acting on
    looks: Sequence[int] = (0,)  # seeds an arm of each look, this one last
    sha256: str = ""

    @property
    def registered(self) -> bool:
        """Whether anything was promised."""
        return bool(self.primary)


def registration_of(runs: Sequence[Path]) -> Registration:
    """Of the one study that all these run folders belong to; without one, nothing was registered."""
    folders = {path.resolve().parent.parent for path in runs}
    files = {folder / FILE for folder in folders}
    file = files.pop() if len(files) == 1 else None
    if file is None or not file.exists():
        return Registration()
    found = read_json(file)
    return Registration(
        primary=[(first, second) for first, second in found["study"]["primary"]],
        margin=found["study"]["margin"],
        looks=found["looks"],
        sha256=found["sha256"],
    )
