"""Whether two trees give the same numbers: short runs of every method, recorded in one and compared with the other.

    python -m tests.campaigns.equality record FOLDER [--engines torch deepspeed]
    python -m tests.campaigns.equality compare FOLDER OTHER

Compared: rows of steps.jsonl and evals.jsonl, the final weights, and the tables of a small study; times, memory and
rates apart, which no two runs share. Figures that only one tree has are listed, not compared.
"""

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from safetensors import safe_open

METHODS = ("ppo", "grpo", "dr_grpo", "dapo", "rloo", "reinforce_pp", "reinforce_pp_baseline", "gspo", "cispo", "vapo")
SMALL = (
    *("--budget", "steps=3", "--samples-per-step", "32", "--eval.limit", "16", "--eval.num-samples", "2"),
    *("--eval.every", "2", "--eval.validation-limit", "8", "--quiet"),
)
FORMS = {
    "torch": (),
    "deepspeed": ("--engine", "deepspeed", "--zero", "2"),
    "adapters": ("--lora.rank", "4"),
    "lagged": ("--rollout-lag", "1"),
}
FEW = ("ppo", "grpo")  # methods of every form but the first
UNLIKE = ("time/", "memory/", "perf/", "profile/", "cost/device_s")
TIMED = ("seconds", "tokens/s", "s/step", "MFU", "GiB", "memory", "device", "run")
Rows = list[dict[str, object]]
UNLIKE_TABLES = ("memory.csv", "hardware.csv", "provenance.csv")


def record(folder: Path, forms: list[str]) -> None:
    """Every run and the study, below `folder`."""
    bench = [sys.executable, "-m", "bench"]
    for form in forms:
        for method in METHODS if form == "torch" else FEW:
            out = folder / form / method
            if not out.exists():
                flags = ["--algo", method, "--task", "gsm8k", *SMALL, *FORMS[form], "--out", str(out)]
                subprocess.run([*bench, "run", *flags], check=True)
    study = ["--algos", *FEW, "dapo", "--task", "gsm8k", "--seeds", "2", "--budget", "samples=64"]
    sets = ["--set", "samples_per_step=32", "eval.limit=16", "eval.num_samples=2", "eval.every=1"]
    subprocess.run([*bench, "compare", *study, *sets, "--out", str(folder / "study")], check=True)


def rows(path: Path) -> Rows:
    """Rows of a stream, without what no two runs share."""
    read = (json.loads(line) for line in path.read_text().splitlines())
    return [{k: v for k, v in row.items() if not k.startswith(UNLIKE) and not k.endswith("_per_s")} for row in read]


def weights(run: Path) -> str:
    """Digest of the policy's last weights."""
    digest = hashlib.sha256()
    for path in sorted((run / "checkpoint").rglob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in sorted(file.keys()):
                digest.update(name.encode() + file.get_tensor(name).contiguous().numpy().tobytes())
    return digest.hexdigest()


def table(path: Path) -> Rows:
    """Rows of a study's table, columns and rows of time and memory left out."""
    import pandas as pd

    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    kept = [column for column in frame.columns if not any(word in column for word in TIMED)]
    found: Rows = [dict(zip(kept, values, strict=True)) for values in frame[kept].itertuples(index=False)]
    return [row for row in found if not any("seconds" in str(value) for value in row.values())]


def recorded(folder: Path) -> dict[str, Rows]:
    """All that is compared, by a name that both trees give it."""
    found: dict[str, Rows] = {}
    for steps in sorted(folder.glob("*/*/*/steps.jsonl")):
        place = steps.parent.parent.relative_to(folder)
        found |= {f"{place} {stream}": rows(steps.parent / stream) for stream in ("steps.jsonl", "evals.jsonl")}
        found[f"{place} weights"] = [{"digest": weights(steps.parent)}]
    for path in sorted(folder.glob("study/**/tables/*.csv")):
        if path.name not in UNLIKE_TABLES:
            found[f"study {path.name}"] = table(path)
    return found


def columns(rows: Rows) -> set[str]:
    """The figures that any of the rows has."""
    return {key for row in rows for key in row}


def differences(mine: Rows, theirs: Rows) -> Iterator[str]:
    """A line for each row in which a figure that both records have is not equal, or is absent from one."""
    if len(mine) != len(theirs):
        yield f"{len(mine)} rows and {len(theirs)}"
    shared = sorted(columns(mine) & columns(theirs))
    for i, (one, other) in enumerate(zip(mine, theirs, strict=False)):
        keys = [key for key in shared if one.get(key) != other.get(key)]
        if keys:
            yield f"row {i}: {', '.join(keys)}"


def one_sided(mine: dict[str, Rows], theirs: dict[str, Rows]) -> list[str]:
    """Records that only the first has, and figures that only it has in a record of both."""
    names = sorted(mine.keys() - theirs.keys())
    figures = {key for name in mine.keys() & theirs.keys() for key in columns(mine[name]) - columns(theirs[name])}
    return names + sorted(figures)


def compare(one: Path, other: Path) -> int:
    """Say what differs, and what only one tree has; 1 where anything differs, or nothing is there to compare."""
    mine, theirs = recorded(one), recorded(other)
    both = [name for name in mine if name in theirs]
    found = [f"{name}: {line}" for name in both for line in differences(mine[name], theirs[name])]
    for folder, only in ((one, one_sided(mine, theirs)), (other, one_sided(theirs, mine))):
        if only:
            print(f"only in {folder}: {', '.join(only)}")
    print("\n".join(found) or f"equal: {len(both)} records")
    return int(bool(found) or not both)


def main() -> int:
    """Record, or compare and say what differs; 1 where anything does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("record", "compare"))
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--engines", nargs="+", choices=list(FORMS), default=["torch", "adapters", "lagged"])
    chosen = parser.parse_args()
    if chosen.command == "record":
        record(chosen.folders[0], chosen.engines)
        return 0
    return compare(*chosen.folders)


if __name__ == "__main__":
    sys.exit(main())
