"""A folder has one writer, on one machine or several, and a dead one holds nothing."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.ground import lock
from bench.ground.errors import UserError
from bench.ground.lock import lock_folder

FOREVER = 1000.0  # a test that waited this long would not pass
HOLD = """
import pathlib, sys
from bench.ground.lock import lock_folder
with lock_folder(pathlib.Path(sys.argv[1]), "it"):
    print("held", flush=True)
    input()
"""


def test_a_second_writer_is_told_who_holds_the_folder(tmp_path: Path) -> None:
    with (
        lock_folder(tmp_path, "another compare"),
        pytest.raises(UserError, match=rf"in use: another compare \(process {os.getpid()} on .*stop it first"),
        lock_folder(tmp_path, "another compare"),
    ):
        pass
    with lock_folder(tmp_path, "another compare", patience_s=FOREVER):
        pass


def test_what_a_writer_started_holds_the_folder_with_it(tmp_path: Path) -> None:
    with lock_folder(tmp_path, "it") as held:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[held.fileno()])
    with pytest.raises(UserError, match="in use"), lock_folder(tmp_path, "it"):
        pass
    child.communicate(b"\n")
    with lock_folder(tmp_path, "it", patience_s=FOREVER):
        pass


def test_a_writer_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    """Its name stands in the file, but the kernel knows better: nobody waits for it."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(UserError, match=f"process {holder.pid}"), lock_folder(tmp_path, "it"):
        pass
    holder.kill()
    holder.communicate()
    assert str(holder.pid) in (tmp_path / "lock").read_text()
    with lock_folder(tmp_path, "it", patience_s=FOREVER):
        pass


def test_a_writer_that_died_on_another_machine_is_watched_for_a_while(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lock").write_text(json.dumps({"machine": "m", "host": "node7", "process": 5, "beat": 3}))
    with lock_folder(tmp_path, "it", patience_s=0.05):
        assert "another machine" in capsys.readouterr().err


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_where_the_file_system_has_no_locks_the_beats_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, "no locks")

    monkeypatch.setattr(lock.fcntl, "flock", refuse)
    monkeypatch.setattr(lock, "BEAT_S", 0.01)
    with (
        lock_folder(tmp_path, "it"),
        pytest.raises(UserError, match=f"process {os.getpid()}"),
        lock_folder(tmp_path, "it", patience_s=FOREVER),
    ):
        pass
    assert not (tmp_path / "lock").read_text()
    with lock_folder(tmp_path, "it", patience_s=FOREVER):
        pass
