"""A run on a node of a cluster: its process, what it says, and its folder. Ray carries this module there.

A Ray actor rather than a task, since a task cannot be asked to save and end.
"""

import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.ground.lock import NAME as LOCK
from bench.ground.orphans import bound_to_me

UNTOUCHED = ("RAY_", "OMP_NUM_THREADS")  # of Ray's own environment, which a run is not to see


@dataclass(frozen=True, kw_only=True)
class Order:
    """All that a node must know of a run."""

    config: str  # TOML
    cwd: str  # where paths in the settings start
    out: str  # relative to it
    name: str | None  # of the run's folder below `out`, where it was begun
    shared: bool  # whether the node sees our paths
    folder: bytes | None = None  # of the run, where it was begun and the node does not see it
    links: tuple[tuple[str, str], ...] = ()  # a path in the settings, and the folder that Ray carried for it
    threads: str = "1"
    clock: dict[str, str] = field(default_factory=dict[str, str])  # environment that tells the study's time


@dataclass(frozen=True, kw_only=True)
class News:
    """What has come since the last question."""

    log: bytes
    folder: bytes | None  # the run's, at each new checkpoint and at its end
    code: int | None  # of the process, once it has ended
    seconds: float


class NodeRun:
    """The run's process; it ends with this one, however that ends."""

    def __init__(self, order: Order) -> None:
        self.order, self._start, self._read, self._seen = order, time.monotonic(), 0, ""
        self._home = Path(tempfile.mkdtemp(prefix="bench-run-"))
        below = order.cwd.lstrip("/")  # as deep as ours, so that ../ stays within
        self._cwd = Path(order.cwd) if order.shared else self._home / "tree" / below
        self._out = self._cwd / order.out
        if not order.shared:
            self._furnish()
        config, self._log = self._home / "run.toml", self._home / "log"
        config.write_text(order.config, encoding="utf-8")
        arguments = ["--config", str(config)] if order.name is None else ["--resume", str(Path(order.out, order.name))]
        environment = {key: value for key, value in os.environ.items() if not key.startswith(UNTOUCHED)}
        with self._log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench", "run", *arguments],
                cwd=self._cwd,
                env={**environment, "OMP_NUM_THREADS": order.threads, **order.clock, **bound_to_me()},
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def news(self) -> News:
        """What the process has said and written since the last call."""
        code = self._process.poll()
        with self._log.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        self._read += len(text)
        folder = None if self.order.shared else self._new_folder(ended=code is not None)
        return News(log=text, folder=folder, code=code, seconds=time.monotonic() - self._start)

    def stop(self) -> None:
        """Let it save and end."""
        self._process.send_signal(signal.SIGINT)

    def clear(self) -> None:
        """Nothing of the run stays on the node."""
        shutil.rmtree(self._home, ignore_errors=True)

    def _furnish(self) -> None:
        """Folders of data and models stand where the settings look for them, and the run's own where it was."""
        carried = Path.cwd()
        self._out.mkdir(parents=True, exist_ok=True)
        for path, name in self.order.links:
            here = self._cwd / path
            if not here.exists():
                here.parent.mkdir(parents=True, exist_ok=True)
                here.symlink_to(carried / name, target_is_directory=True)
        if self.order.name is not None and self.order.folder is not None:
            unpack(self.order.folder, self._out)

    def _new_folder(self, *, ended: bool) -> bytes | None:
        """The run's folder where there is a new checkpoint in it, or its end."""
        found = list(self._out.glob("*/config.json"))
        steps = sorted(path.name for path in self._out.glob("*/checkpoint/step-*[0-9]"))
        if not found or not (ended or (steps and steps[-1] != self._seen)):
            return None
        try:
            content = pack(found[0].parent)
        except OSError:  # the run has just dropped a file: the next call finds what took its place
            if ended:
                raise
            return None
        self._seen = steps[-1] if steps else ""
        return content


def pack(folder: Path) -> bytes:
    """A run's folder as a tar file: checkpoints first, so that no row is missing that they count."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(folder, folder.name, filter=lambda entry: None if Path(entry.name).name == LOCK else entry)
    return buffer.getvalue()


def unpack(content: bytes, out: Path) -> Path:
    """Put a run's folder below `out`, in place of the one that is there; it is never seen half-written."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".") as place:
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            tar.extractall(place, filter="data")
        (new,) = Path(place).iterdir()
        if (out / new.name).exists():
            (out / new.name).rename(Path(place) / "before")
        return new.rename(out / new.name)
