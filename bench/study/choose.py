"""The executor that the settings ask for."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from bench.ground.moment import of_study
from bench.study.cluster import open_cluster
from bench.study.config import ExecutorConfig
from bench.study.execute import Executor, LocalProcesses


@contextmanager
def open_executor(config: ExecutorConfig, folder: Path, held: IO[str]) -> Generator[Executor]:
    """What the settings ask for, until the block ends.

    Raises:
        UserError: Ray is asked for and is not there.
    """
    if config.executor == "local":
        yield LocalProcesses(folder, held, config.jobs or 1)
        return
    with open_cluster(config, of_study(folder)) as cluster:
        yield cluster
