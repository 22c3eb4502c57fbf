"""Damages one file of a study at a time and reads the study again: the right figures or one line, never other figures.

    python -m tests.campaigns.corruption [N] [SEED]

N trials (default 10,000): a bit is flipped, a file is cut short or deleted, drawn over every file of a small study's
runs, checkpoints included, and of its report's cache. Then what reads such a file reads it: the report's tables for the
records, the checksums that `run --resume` and `eval` hold every file against for a checkpoint, and each hundredth
checkpoint is really resumed. Right is: the figures of the undamaged study; those of the study without the damaged run,
which is then listed with its reason; or one line (`UserError`, exit code 2).
"""

import contextlib
import io
import os
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.cli import main as bench
from bench.ground.errors import UserError
from bench.ground.registration import registration_of
from bench.ground.runs import find_runs
from bench.ground.sums import SUMS, verify
from bench.report.comparison import comparisons_in
from bench.report.records import load
from bench.report.results import results
from bench.report.verdicts import arm_differences, judge_all
from tests.bench.small_runs import SMALL, rows

ARMS = ("grpo", "ppo")
RESUMED = 100  # every so many damaged checkpoints are resumed for real
ACCEPTED = {"right", "left out", "refused"}
Figures = tuple[str, ...]


def make_study(folder: Path) -> Path:
    """Two arms over three seeds, two steps each; the folder of the study."""
    settings = [flag.removeprefix("--") for flag in SMALL if flag != "--quiet"]
    pairs = [f"{name}={value}" for name, value in zip(settings[::2], settings[1::2], strict=True)]
    flags = ["--arms", *ARMS, "--seeds", "3", "--task", "gsm8k", "--budget", "steps=2", "--quiet"]
    with contextlib.redirect_stdout(io.StringIO()):
        assert bench(["compare", *flags, "--out", str(folder), "--set", *pairs]) == 0
    return next(folder.iterdir())


def figures_of(folder: Path, cache: Path) -> Figures:
    """Every figure of the tables that a reader judges by, but for the counts of runs and what is said of the lost."""
    folders = find_runs([folder])
    records, registration = load(folders, cache), registration_of(folders)
    found = comparisons_in(records, ARMS)
    tables = results(found), arm_differences(judge_all(found, records, None, registration), registration)
    frames = [table.data for table in tables]
    kept = [frame[sorted(c for c in frame.dropna(axis=1, how="all") if "runs" not in str(c))] for frame in frames]
    return tuple(re.sub(r" \(\w+: [^)]* without result\)", "", frame.to_csv()) for frame in kept)


@contextmanager
def damaged(file: Path, rng: random.Random) -> Generator[str]:
    """One file damaged for the length of the block; what was done to it."""
    content, times = file.read_bytes(), file.stat()
    kind = rng.choice(("flipped", "cut", "deleted")) if content else "deleted"
    place = rng.randrange(len(content)) if content else 0
    if kind == "deleted":
        file.unlink()
    else:
        flipped = content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :]
        file.write_bytes(flipped if kind == "flipped" else content[:place])
    try:
        yield f"{kind} at {place}"
    finally:
        file.write_bytes(content)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


@dataclass
class Study:
    """The study as it was made, and the answers that a damaged one may give."""

    folder: Path
    right: Figures
    without: dict[Path, Figures]  # run -> the figures of the others
    num_refused: int = 0

    def after_reading(self, file: Path, scratch: Path) -> str:
        """What a report makes of the study as it stands: `right`, `left out`, `refused`, or what is wrong."""
        shutil.copytree(scratch / "pristine", scratch / "cache", dirs_exist_ok=True)
        try:
            found = figures_of(self.folder, scratch / "cache")
        except UserError:
            return "refused"
        if found == self.right:
            return "right"
        allowed = (figures for run, figures in self.without.items() if run in file.parents)
        return "left out" if found in allowed else "OTHER FIGURES"

    def after_loading(self, checkpoint: Path, file: Path) -> str:
        """What resuming or evaluating makes of the checkpoint: both verify all that they read before they use it."""
        below = "model/" if file.parent.name == "model" else ""
        try:
            verify(checkpoint, below)
        except UserError:
            return "refused"
        unsealed = file.name == SUMS  # without it a checkpoint is one of an older version, which a reader is told
        return "right" if unsealed else "NOT NOTICED"


def resumed(run: Path) -> str:
    """What `run --resume` makes of a copy of this run, taken for one that was killed at its last checkpoint."""
    copy = run.parents[2] / "killed" / run.name
    shutil.copytree(run, copy)
    (copy / "summary.json").unlink()
    (copy / SUMS).unlink()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = bench(["run", "--resume", str(copy)])
    same = code == 0 and rows(copy) == rows(run)
    shutil.rmtree(copy.parent)
    return "refused" if code == 2 else "right" if same else "OTHER FIGURES"


def study_in(scratch: Path) -> Study:
    """A study and every answer that one of its runs may be missing from."""
    folder = make_study(scratch / "study") / "runs"
    cache = scratch / "cache"
    right = figures_of(folder, cache)
    shutil.copytree(cache, scratch / "pristine")
    without: dict[Path, Figures] = {}
    for run in find_runs([folder]):
        away = run.rename(scratch / "away")
        without[run] = figures_of(folder, scratch / "other cache")
        shutil.rmtree(scratch / "other cache")
        away.rename(run)
    return Study(folder=folder, right=right, without=without)


def trial(study: Study, rng: random.Random) -> tuple[str, str]:
    """One file damaged and read: its kind, and what came of it."""
    scratch = study.folder.parents[2]
    file = rng.choice([f for top in (study.folder, scratch / "cache") for f in sorted(top.rglob("*")) if f.is_file()])
    checkpoint = next((parent for parent in file.parents if parent.parent.name == "checkpoint"), None)
    with damaged(file, rng) as done:
        outcome = study.after_loading(checkpoint, file) if checkpoint else study.after_reading(file, scratch)
        if checkpoint and outcome == "refused":
            study.num_refused += 1
            if study.num_refused % RESUMED == 0:
                outcome = resumed(checkpoint.parents[1])
    if outcome not in ACCEPTED:
        print(f"{outcome}: {file.relative_to(scratch)} {done}", flush=True)
    return "checkpoint" if checkpoint else "cache" if file.suffix == ".parquet" else "record", outcome


def main(num_trials: int, seed: int) -> int:
    """Damage, read, count; 1 when any figure was another."""
    rng = random.Random(seed)
    counts: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        study = study_in(Path(scratch))
        for _ in range(num_trials):
            counts[trial(study, rng)] += 1
    for (kind, outcome), count in sorted(counts.items()):
        print(f"{kind:<12}{outcome:<16}{count:>7}")
    return int(any(outcome not in ACCEPTED for _, outcome in counts))


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    raise SystemExit(main(*(numbers + [10_000, 0][len(numbers) :])))
