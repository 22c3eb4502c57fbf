"""How long a report takes on many runs, and how much memory: `python -m tests.campaigns.report_scale [RUNS] [STEPS]`.

Four arms of synthetic runs. Prints the seconds of a first report, of one from the cache, and the peak memory of each.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.factory import make_run

ARMS = ("ppo", "grpo", "dr_grpo", "dapo")
TIMED = """
import resource, sys, time
from pathlib import Path
from bench.report.command import report
start, cpu = time.perf_counter(), time.process_time()
report([Path(sys.argv[1])], Path(sys.argv[2]))
gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(f"{time.perf_counter() - start:.1f} s ({time.process_time() - cpu:.1f} s of CPU), peak {gib:.2f} GiB")
"""


def make(root: Path, runs: int, steps: int) -> None:
    """A few runs in full; the others are copies under another seed."""
    for arm in ARMS:
        first = make_run(root, arm, 0, steps=steps, problems=500, columns=20)
        config = json.loads((first / "config.json").read_text())
        for seed in range(1, runs // len(ARMS)):
            path = Path(shutil.copytree(first, first.with_name(first.name.replace("-s0", f"-s{seed}"))))
            (path / "config.json").write_text(json.dumps(config | {"seed": seed}))


def main(runs: int = 1000, steps: int = 1000) -> None:
    """Make the runs, report on them twice."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make(root / "runs", runs, steps)
        size = sum(path.stat().st_size for path in (root / "runs").rglob("*") if path.is_file())
        print(f"{runs} runs of {steps} steps, {size / 2**30:.2f} GiB of records")
        for name in ("first report", "from the cache"):
            command = [sys.executable, "-c", TIMED, str(root / "runs"), str(root / "out")]
            print(name, subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
