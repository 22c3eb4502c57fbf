"""The processes of one run: which of them this is, and what they tell each other. One alone needs nothing of it.

Every rank holds all problems, rollouts and figures; generation, scoring, passes and updates are shared out. What a
rank does with its share depends on nothing but the share, so the records are those of one process, up to rounding.
"""

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

TIMEOUT = timedelta(minutes=30)  # the longest that one rank waits for another: then the run ends
T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """This process among `size`."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this one writes the records and speaks."""
        return self.rank == 0

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """Every `size`-th item: this rank's."""
        return items[self.rank :: self.size]

    def collect(self, mine: Sequence[T]) -> list[T]:
        """What all ranks made of their shares, in the order of the whole, on every rank."""
        if self.size == 1:
            return list(mine)
        parts = self._gather(list(mine))
        return [parts[i % self.size][i // self.size] for i in range(sum(map(len, parts)))]

    def sum(self, values: Mapping[str, float]) -> dict[str, float]:
        """Each value summed over the ranks, which all have the same names."""
        if self.size == 1:
            return dict(values)
        totals = self.total(torch.tensor(list(values.values()), dtype=torch.float64))
        return dict(zip(values, totals.tolist(), strict=True))

    def total(self, tensor: Tensor) -> Tensor:
        """Summed over the ranks, element by element."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def largest(self, values: Mapping[str, float]) -> dict[str, float]:
        """The largest value of any rank, by name."""
        found: dict[str, float] = {}
        for part in self._gather(dict(values)):
            found |= {name: max(value, found.get(name, value)) for name, value in part.items()}
        return found

    def any(self, flag: bool) -> bool:
        """Whether it holds on any rank."""
        return any(self._gather(flag))

    def of_leader(self, value: T) -> T:
        """The first rank's value."""
        return self._gather(value)[0]

    def meet(self) -> None:
        """Wait for all."""
        if self.size > 1:
            dist.barrier()

    def _gather(self, value: T) -> list[T]:
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values


ALONE = Ranks()


def launched_size() -> int:
    """Processes of the run, as its launcher says; 1 without one."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def joined() -> Generator[Ranks]:
    """This process's place in what torchrun or deepspeed launched.

    The group is left in order only where the block ends without an error: else another process may wait in it.
    """
    size = launched_size()
    if size == 1:
        yield ALONE
        return
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        backend = "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend, timeout=TIMEOUT)
    yield Ranks(dist.get_rank(), size)
    dist.destroy_process_group()


def lost_peer(error: Exception) -> bool:
    """Whether ranks could not talk, as when a process has ended; gloo has no class for it, only words."""
    return launched_size() > 1 and (isinstance(error, dist.DistError) or "gloo" in str(error).lower())


def first_to_tell() -> bool:
    """Whether no other process of the run has told its error yet. One error ends them all and is told once."""
    if launched_size() == 1:
        return True
    place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    try:
        store = dist.TCPStore(  # pyright: ignore[reportPrivateImportUsage]
            *place, is_master=False, timeout=timedelta(seconds=5)
        )
        return store.add("bench/errors", 1) == 1
    except RuntimeError:  # the process that held the store has ended
        return True
