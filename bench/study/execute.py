"""Where a study's runs are carried out: each as the command that a user would type, here or on a cluster."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from bench.ground.moment import of_study
from bench.ground.orphans import bound_to_me
from bench.settings.flags import to_toml
from bench.study.schedule import Planned


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a run's process ended, and what it took, attempts that were lost included."""

    code: int
    device_s: float


class Executor(Protocol):
    """Carries out one run at a call, from several threads at once."""

    @property
    def jobs(self) -> int | None:
        """Calls at once; None: as many as there are runs, and the executor lets them wait."""
        ...

    def check(self, run: Planned) -> None:
        """Refuse a run that can never be carried out here.

        Raises:
            UserError: says what it lacks.
        """
        ...

    def execute(self, run: Planned, path: Path | None, log: Path) -> Ended:
        """Carry the run out, from its folder `path` where it was begun; what it says goes into the log."""
        ...

    def stop(self) -> None:
        """Let all running ones save and end."""
        ...


class LocalProcesses:
    """Processes of this machine, which share its cores and end with us."""

    def __init__(self, folder: Path, held: IO[str], jobs: int) -> None:
        self.folder, self.held, self._jobs, self._clock = folder, held, jobs, of_study(folder)
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def jobs(self) -> int | None:
        """Runs at once."""
        return self._jobs

    def check(self, run: Planned) -> None:
        """The run itself says what is wrong."""

    def execute(self, run: Planned, path: Path | None, log: Path) -> Ended:
        """As `Executor` has it."""
        start = time.monotonic()
        command = [sys.executable, "-m", "bench", "run", *self._arguments(run, path)]
        threads = str(max(1, (os.cpu_count() or 1) // self._jobs))
        with log.open("wb") as file:
            process = subprocess.Popen(
                command,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={"OMP_NUM_THREADS": threads, **os.environ, **self._clock, **bound_to_me()},
                start_new_session=True,  # Ctrl-C reaches it once, through us
                pass_fds=[self.held.fileno()],
            )
            self._processes.append(process)
            code = process.wait()
            self._processes.remove(process)
        return Ended(code=code, device_s=time.monotonic() - start)

    def stop(self) -> None:
        """As `Executor` has it."""
        for process in self._processes:
            process.send_signal(signal.SIGINT)

    def _arguments(self, run: Planned, path: Path | None) -> list[str]:
        if path is not None:
            return ["--resume", str(path)]
        file = self.folder / "configs" / f"{run.label}.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(to_toml(run.chosen), encoding="utf-8")
        return ["--config", str(file)]
