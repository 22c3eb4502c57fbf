"""Goldens in files: a result that moved is red until its version and its golden are moved, with a reason.

A file holds one method: `entries`, numbers by version (an old one stays: it is what the old version meant), and
`history`, who moved it, when, why, and what changed.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
import transformers

from algorithms.core import Algorithm
from bench.gate.golden import Numbers, is_same_result, measure_golden, version_of_formulas
from bench.gate.verdict import Finding, signature
from bench.ground.errors import UserError
from bench.ground.files import read_json, write_json

SHIPPED = Path(__file__).parent / "goldens"
GROUPS = {
    "definition": ("setting/", "needs/", "refuses/"),
    "formulas": ("formula/",),
    "training": ("training/",),
}
SHOWN = 3  # moved numbers told in a verdict; the history keeps more
KEPT = 40


@dataclass(frozen=True, kw_only=True)
class Move:
    """A number that is another one now. None: there is or was none of that name."""

    name: str
    old: float | str | None
    new: float | str | None

    def __str__(self) -> str:
        return f"{self.name}: {number_in_words(self.old)} -> {number_in_words(self.new)}"


def number_in_words(value: float | str | None) -> str:
    """A number to nine digits."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else f"{value:.9g}"


def golden_path(name: str, baselines: Path | None) -> Path:
    """A method's file: in the package for our own, else below the folder of baselines."""
    ours = SHIPPED / f"{name}.json"
    if baselines is None and (ours.exists() or ":" not in name):
        return ours
    return (baselines or Path("results/baselines")) / "goldens" / f"{name.replace(':', '.')}.json"


def moved_numbers(old: Numbers, new: Numbers) -> list[Move]:
    """What is different or gone. A name that only the new has is an addition, no move."""
    found = [Move(name=name, old=value, new=new.get(name)) for name, value in old.items()]
    found += [Move(name=name, old=None, new=value) for name, value in new.items() if not_finite(value)]
    return [move for move in found if not is_same_result(move.old, move.new)]


def not_finite(value: float | str) -> bool:
    """Whether it is a number that is none."""
    return isinstance(value, float) and not math.isfinite(value)


def check_golden(name: str, algorithm: type[Algorithm], path: Path) -> list[Finding]:
    """One finding for each group of numbers."""
    entries = entries_of(path)
    key = version_of_formulas(algorithm)
    if key not in entries:
        return [without_golden(name, key, list(entries))]
    new = measure_golden(algorithm)
    moves = moved_numbers(entries[key], new)
    added = [n for n in new if n not in entries[key]]
    return [group_finding(name, group, prefixes, entries[key], moves, added) for group, prefixes in GROUPS.items()]


def entries_of(path: Path) -> dict[str, Numbers]:
    """Version -> numbers; empty where there is no file.

    Raises:
        UserError: it is no golden.
    """
    entries: Any = read_json(path).get("entries") if path.exists() else {}
    shaped = isinstance(entries, dict) and all(isinstance(n, dict) and n for n in cast(Any, entries).values())
    if not shaped or not all(type(v) in (float, int, str) for n in entries.values() for v in n.values()):
        raise UserError(f"{path}: not a golden: 'entries' must be numbers by version; --update-baseline writes one")
    return entries


def without_golden(name: str, key: str, known: Sequence[str]) -> Finding:
    """A new method cannot be judged; a new version of a known one is red until its golden is there."""
    have = f"there are {', '.join(known)}" if known else "there is none yet"
    return Finding(
        tier=1,
        subject=name,
        quantity="golden",
        status="worse" if known else "cannot judge",
        measured=f"no golden of version {key}",
        detail=f'{have}; store it: --algo {name} --update-baseline --reason "..."',
    )


def group_finding(
    name: str, group: str, prefixes: tuple[str, ...], old: Numbers, moves: Iterable[Move], added: Iterable[str]
) -> Finding:
    """Whether a group of numbers stayed."""
    mine = [move for move in moves if move.name.startswith(prefixes)]
    total = sum(n.startswith(prefixes) for n in old)
    new = sum(n.startswith(prefixes) for n in added)
    extra = f"{new} new numbers, not in the golden yet" if new else ""
    return Finding(
        tier=1,
        subject=name,
        quantity=group,
        status="worse" if mine else "pass",
        measured=f"{len(mine)} of {total} numbers moved",
        tolerance="1e-6",
        detail="; ".join(map(str, mine[:SHOWN])) + (f"; and {len(mine) - SHOWN} more" if len(mine) > SHOWN else extra),
        numbers={"moved": [[move.name, move.old, move.new] for move in mine[:KEPT]]},
    )


def move_golden(name: str, algorithm: type[Algorithm], path: Path, reason: str) -> str:
    """Store the numbers as they are; returns a line that says what changed.

    Raises:
        UserError: they moved under the same version, or one is not finite, or the method raises at its defaults.
    """
    entries_of(path)
    content: dict[str, Any] = read_json(path) if path.exists() else {"method": name, "entries": {}, "history": []}
    entries, key, new = content["entries"], version_of_formulas(algorithm), measure_golden(algorithm)
    if broken := [n for n, value in new.items() if not_finite(value) or n.endswith("/defaults/error")]:
        raise UserError(f"{name}: {broken[0]} is {new[broken[0]]}: there is nothing to hold a later change against")
    last = entries.get(key) or (list(entries.values())[-1] if entries else {})
    moves = moved_numbers(last, new)
    if key in entries and moves:
        raise UserError(
            f"{name} {key} gives other numbers ({moves[0]}): first raise {algorithm.__name__}.formula_version, "
            "or LOOP_VERSION in bench/loop.py where the loop itself changed"
        )
    additions = [Move(name=n, old=None, new=value) for n, value in new.items() if n not in last]
    if key in entries and not additions:
        return f"{name} {key}: nothing moved"
    entries[key] = {n: float(f"{value:.12g}") if isinstance(value, float) else value for n, value in new.items()}
    content["history"].append(
        signature(reason)
        | {
            "version": key,
            "made_by": {"torch": torch.__version__, "transformers": transformers.__version__},
            "num_moved": len(moves),
            "num_added": len(additions),
            "changed": [str(move) for move in moves[:KEPT]],
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, content)
    return f"{name} {key}: {len(moves)} numbers moved, {len(additions)} added; {path}"
