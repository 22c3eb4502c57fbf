"""The list of planted faults, and what planting them has found so far."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"  # name -> whether the tests turned red


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One wrong edit, and the tests that should notice."""

    name: str
    kind: str
    file: str
    old: str
    new: str
    tests: list[str]
    survives: str = ""  # why no test can notice, where that is known


def load() -> list[Fault]:
    """The committed list."""
    content = tomllib.loads((HERE / "faults.toml").read_text())
    return [Fault(**{"tests": content["tests"].get(f["kind"], [])} | f) for f in content["fault"]]


def planted(fault: Fault, text: str) -> str:
    """The file with the fault in it."""
    if text.count(fault.old) != 1:
        raise ValueError(f"{fault.name}: its text occurs {text.count(fault.old)} times in {fault.file}")
    return text.replace(fault.old, fault.new)
