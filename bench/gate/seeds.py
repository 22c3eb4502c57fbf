"""One tree's runs over seeds: `python -m bench.gate.seeds STUDY.toml FOLDER COUNT JOBS`. What has ended is kept."""

import sys
from dataclasses import replace
from pathlib import Path

from bench.ground.lock import lock_folder
from bench.ground.orphans import end_with_parent
from bench.study.file import read_study
from bench.study.launch import STUDY_WRITER, Launcher, split_ended
from bench.study.schedule import schedule


def main(file: str, folder: Path, count: int, jobs: int) -> None:
    """Run what is missing of COUNT seeds; each run's own records say what became of it."""
    end_with_parent()
    planned = schedule(replace(read_study(file), seeds=count), folder / "runs")
    with lock_folder(folder, STUDY_WRITER) as held:
        Launcher(folder, held, jobs, lambda line: print(line, flush=True)).run(split_ended(planned, folder / "runs")[1])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
