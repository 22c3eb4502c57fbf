"""Which errors lack of room explains, and no others."""

import errno
import os
from pathlib import Path

import pytest
import torch

from bench.ground.errors import lacks_room


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG])
def test_lack_of_room_is_known_by_number_and_by_words(number: int) -> None:
    assert lacks_room(OSError(number, os.strerror(number)))
    assert lacks_room(RuntimeError(f"I/O error: {os.strerror(number)} (os error {number})"))


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(errno.EACCES, "Permission denied", "steps.jsonl"),
        FileNotFoundError(errno.ENOENT, "No such file or directory", "libcudart.so"),
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        OSError("libcublas.so: cannot open shared object file"),
        ModuleNotFoundError("No module named 'peft'"),
    ],
)
def test_what_else_goes_wrong_is_not_put_down_to_room(error: Exception) -> None:
    assert not lacks_room(error)


def test_torch_says_so_in_its_own_words() -> None:
    """/dev/full takes no byte."""
    with pytest.raises(RuntimeError) as told:
        torch.save(torch.zeros(2**20), Path("/dev/full"))
    assert lacks_room(told.value)
