"""The run directory: configuration, provenance, append-only rows, checkpoints, and the summary that closes it."""

import json
import math
import os
import shutil
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from bench.ground.errors import UserError, lacks_room
from bench.ground.files import read_rows, sync_folder, sync_path, write_json
from bench.ground.lock import lock_folder
from bench.ground.sums import seal
from bench.ranks import ALONE, Ranks

STREAMS = ("steps", "evals", "eval_problems", "completions")
SEALED = ("config.json", "provenance.json", "summary.json", *(f"{stream}.jsonl" for stream in STREAMS))
Row = Mapping[str, Any]


def finite(row: Row) -> dict[str, Any]:
    """A row without its missing figures: what is None or not finite is absent, never 0 (JSON has no NaN)."""
    return {k: v for k, v in row.items() if v is not None and not (isinstance(v, float) and not math.isfinite(v))}


class Recorder:
    """Writes one run directory. Rows are flushed as they are written; a checkpoint makes them durable.

    Of several ranks the first writes; the others put their part into checkpoints, and read.
    """

    def __init__(self, path: Path, ranks: Ranks = ALONE) -> None:
        self.path = path
        self.ranks = ranks
        self._files: dict[str, TextIO] = {}
        self._alone = False

    @staticmethod
    def create(path: Path, ranks: Ranks = ALONE) -> "Recorder":
        """Make the directory, where the first rank says.

        Raises:
            UserError: it exists, or cannot be written.
        """
        path = ranks.of_leader(path)
        if not ranks.leads:
            return Recorder(path, ranks)
        try:
            path.mkdir(parents=True)
        except FileExistsError as error:
            raise UserError(
                f"{path} exists: a run never overwrites another; use --resume {path} or another --out"
            ) from error
        except OSError as error:
            raise UserError(f"{path}: cannot be written: {error.strerror}") from error
        return Recorder(path, ranks)

    @contextmanager
    def alone(self) -> Generator[None]:
        """No other process writes this run while the block runs; within itself it is held already.

        Raises:
            UserError: another does.
        """
        if self._alone or not self.ranks.leads:
            yield
            return
        with lock_folder(self.path, "the run that writes it"):
            self._alone = True
            try:
                yield
            finally:
                self._alone = False

    def write(self, stream: str, row: Row) -> None:
        """Append one row to `<stream>.jsonl`."""
        if not self.ranks.leads:
            return
        if stream not in self._files:
            self._files[stream] = (self.path / f"{stream}.jsonl").open(
                "a",
                encoding="utf-8",
                errors="backslashreplace",  # half a character is an escape of JSON
            )
        file = self._files[stream]
        file.write(json.dumps(finite(row), ensure_ascii=False) + "\n")
        file.flush()

    def write_many(self, stream: str, rows: Iterable[Row]) -> None:
        """Append rows."""
        for row in rows:
            self.write(stream, row)

    def checkpoint(self, step: int, save: Callable[[Path], None], keep: str | None) -> None:
        """Write `checkpoint/step-<n>/` whole or not at all, then drop what is older, the folder named `keep` apart.

        Raises:
            OSError: there is no room for it; the one before it stands.
        """
        folder = self.path / "checkpoint"
        partial, final = folder / f"partial-{step:06d}", folder / f"step-{step:06d}"
        if self.ranks.leads:
            for leftover in (partial, final):
                shutil.rmtree(leftover, ignore_errors=True)
            partial.mkdir(parents=True)
        self.ranks.meet()
        try:
            save(partial)
        except Exception as error:
            shutil.rmtree(partial, ignore_errors=True)
            if lacks_room(error):  # each library has its own kind for a disk that is full
                raise OSError(f"checkpoint of step {step}: {str(error).splitlines()[0]}") from error
            raise
        self.ranks.meet()
        if self.ranks.leads:
            self._keep(partial, final, keep)
        self.ranks.meet()

    def _keep(self, partial: Path, final: Path, keep: str | None) -> None:
        """Put a complete checkpoint in the place of those before it."""
        folder = final.parent
        for file in self._files.values():
            os.fsync(file.fileno())
        seal(partial, [path for path in partial.rglob("*") if path.is_file()])
        for path in (*partial.rglob("*"), partial):
            sync_path(path)
        partial.replace(final)
        sync_folder(folder)
        for old in folder.iterdir():
            if old != final and old.name != keep:
                shutil.rmtree(old)

    def rewind(self, counts: Mapping[str, int] | None) -> None:
        """Drop the rows that were written after the checkpoint (all, without one), and a torn last one with them.

        Raises:
            UserError: a file has fewer rows than the checkpoint counted.
        """
        if not self.ranks.leads:
            return
        counts = counts or dict.fromkeys(STREAMS, 0)
        for stream in STREAMS:
            path = self.path / f"{stream}.jsonl"
            lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
            if len(lines) < counts[stream]:
                raise UserError(
                    f"{path}: {len(lines)} rows, but its checkpoint was made at {counts[stream]}; the file was changed"
                )
            if path.exists():
                with path.open("r+b") as file:
                    file.truncate(sum(len(line) + 1 for line in lines[: counts[stream]]))
                    os.fsync(file.fileno())

    def rows(self, stream: str) -> list[dict[str, Any]]:
        """What has been written to `<stream>.jsonl`."""
        self.flush()
        return read_rows(self.path / f"{stream}.jsonl")

    def counts(self) -> dict[str, int]:
        """Rows of each stream so far."""
        self.flush()
        paths = {stream: self.path / f"{stream}.jsonl" for stream in STREAMS}
        return {stream: path.read_bytes().count(b"\n") if path.exists() else 0 for stream, path in paths.items()}

    def flush(self) -> None:
        """Hand every row to the operating system."""
        for file in self._files.values():
            file.flush()

    def close(self, summary: Row) -> None:
        """Write the summary, whose presence means that the run has ended, and close the files."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()
        self._files = {}
        if self.ranks.leads:
            write_json(self.path / "summary.json", summary)
            seal(self.path, [path for path in self.path.glob("*.json*") if path.name in SEALED])
