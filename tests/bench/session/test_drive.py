"""How a run ends that the system stops: by what really happened."""

import errno
from pathlib import Path

import pytest

from bench.ranks import ALONE
from bench.session.drive import system_error
from bench.session.record import Recorder


def test_only_lack_of_room_asks_for_space() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "steps.jsonl")
    assert system_error(full, 3) == "cannot write: [Errno 28] No space left on device: 'steps.jsonl'; free some space"
    denied = PermissionError(errno.EACCES, "Permission denied", "steps.jsonl")
    assert system_error(denied, 3) == "step 3: PermissionError: [Errno 13] Permission denied: 'steps.jsonl'"


@pytest.mark.parametrize("error", [ImportError("No module named 'peft'"), TypeError("not a tensor")])
def test_a_checkpoint_that_fails_otherwise_says_so_and_leaves_nothing(error: Exception, tmp_path: Path) -> None:
    def save(_: Path) -> None:
        raise error

    with pytest.raises(type(error)) as told:
        Recorder(tmp_path, ALONE).checkpoint(2, save, None)
    assert told.value is error
    assert not list((tmp_path / "checkpoint").iterdir())
