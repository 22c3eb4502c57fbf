"""One tree's runs over seeds; what has ended is kept.

`python -m bench.gate.seeds STUDY.toml FOLDER COUNT JOBS [EXECUTOR]`, the last in JSON.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

from bench.ground.lock import lock_folder
from bench.ground.orphans import end_with_parent
from bench.study.choose import open_executor
from bench.study.config import ExecutorConfig
from bench.study.file import read_study
from bench.study.launch import STUDY_WRITER, Launcher, split_ended
from bench.study.schedule import schedule


def main(file: str, folder: Path, count: int, executor: ExecutorConfig) -> None:
    """Run what is missing of COUNT seeds; each run's own records say what became of it."""
    end_with_parent()
    planned = schedule(replace(read_study(file), seeds=count), folder / "runs")
    with lock_folder(folder, STUDY_WRITER) as held, open_executor(executor, folder, held) as opened:
        Launcher(folder, opened, lambda line: print(line, flush=True)).run(split_ended(planned, folder / "runs")[1])


if __name__ == "__main__":
    others = json.loads(sys.argv[5]) if sys.argv[5:] else {}
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), ExecutorConfig(jobs=int(sys.argv[4]) or None, **others))
