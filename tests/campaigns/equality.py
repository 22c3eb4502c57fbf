"""Whether two trees give the same numbers: short runs of every method, recorded in one and compared with the other.

    python -m tests.campaigns.equality record FOLDER [--engines torch deepspeed]
    python -m tests.campaigns.equality compare FOLDER OTHER

Compared: rows of steps.jsonl and evals.jsonl, the final weights, and the tables of a small study; times, memory and
rates apart, which no two runs share.
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


def rows(path: Path) -> list[dict[str, object]]:
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


def tables(folder: Path) -> dict[str, list[str]]:
    """The study's tables as lines of comma-separated values, columns of time and memory left out."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.glob("study/**/tables/*.csv")):
        import pandas as pd

        frame = pd.read_csv(path, dtype=str)
        kept = [c for c in frame.columns if not any(word in c for word in TIMED)]
        if path.name not in UNLIKE_TABLES:
            found[path.name] = [line for line in frame[kept].to_csv().splitlines() if "seconds" not in line]
    return found


def differences(one: Path, other: Path) -> Iterator[str]:
    """A line for each thing that is not equal."""
    for steps in sorted(one.glob("*/*/*/steps.jsonl")):
        place = steps.parent.relative_to(one).parent
        (twin,) = (other / place).iterdir()
        for stream in ("steps.jsonl", "evals.jsonl"):
            for mine, theirs in zip(rows(steps.parent / stream), rows(twin / stream), strict=True):
                keys = {k for k in mine.keys() | theirs.keys() if mine.get(k) != theirs.get(k)}
                if keys:
                    yield f"{place} {stream} step {mine.get('step')}: {', '.join(sorted(keys))}"
        if weights(steps.parent) != weights(twin):
            yield f"{place}: weights"
    mine, theirs = tables(one), tables(other)
    for name in sorted(mine.keys() | theirs.keys()):
        if mine.get(name) != theirs.get(name):
            yield f"study: {name}"


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
    found = list(differences(*chosen.folders))
    compared = len(list(chosen.folders[0].glob("*/*/*/steps.jsonl")))
    print("\n".join(found) or f"equal: {compared} runs and the study's {len(tables(chosen.folders[0]))} tables")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
