"""Standard output whose reader may leave: a closed pipe, a terminal that is gone, a full disk behind it."""

import os
import sys
from contextlib import suppress
from typing import TextIO


def drop_output() -> None:
    """From now on standard output leads nowhere, what is still buffered included."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


class Outlet:
    """A file that never fails: what cannot be written any more is dropped, for a run is worth more than its lines."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def write(self, text: str) -> int:
        """As a file does."""
        try:
            return self._file.write(text)
        except OSError:
            drop_output()
            return len(text)

    def flush(self) -> None:
        """As a file does."""
        try:
            self._file.flush()
        except OSError:
            drop_output()
