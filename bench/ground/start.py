"""What a process settles before torch loads: how its threads wait, and that torch loads only where it is used."""

import importlib
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

# A thread that waits for the others' parts gives its core away. Spinning, the libraries' own choice, saves
# microseconds on an idle machine; beside a busy neighbour each wait lasts as long as a time slice.
PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}  # GNU's OpenMP and LLVM's
WAITING = (*PASSIVE, "GOMP_SPINCOUNT")


def wait_passively() -> None:
    """Threads wait passively here and in processes that this one starts, unless the user has said how they wait."""
    if not how_threads_wait():
        os.environ.update(PASSIVE)


def how_threads_wait() -> dict[str, str]:
    """What the environment says of how threads wait."""
    return {name: os.environ[name] for name in WAITING if name in os.environ}


class Later(ModuleType):
    """A module that is imported when something of it is first used."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the module holds
        found = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, found)
        return found


@contextmanager
def loading_later(name: str) -> Generator[None]:
    """Modules imported meanwhile get a `Later` of this name, where it is not loaded yet; others never see it."""
    if name in sys.modules:
        yield
        return
    later = sys.modules[name] = Later(name)
    try:
        yield
    finally:
        if sys.modules.get(name) is later:
            del sys.modules[name]
