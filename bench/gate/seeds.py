"""One tree's runs over seeds: `python -m bench.gate.seeds STUDY.toml FOLDER COUNT JOBS`. What has ended is kept."""

import sys
from dataclasses import replace
from pathlib import Path

from bench.ground.orphans import end_with_parent
from bench.study.launch import Launcher, lock, split
from bench.study.schedule import read, schedule


def main(file: str, folder: Path, count: int, jobs: int) -> None:
    """Run what is missing of COUNT seeds; each run's own records say what became of it."""
    planned = schedule(replace(read(file), seeds=count), folder / "runs")
    with lock(folder) as held:
        Launcher(folder, held, jobs, lambda line: print(line, flush=True)).run(split(planned, folder / "runs")[1])


if __name__ == "__main__":
    end_with_parent()
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
