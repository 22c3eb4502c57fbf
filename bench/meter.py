"""Seconds and bytes by phase, and bytes by role. Synchronises the device, so that a phase pays for its own work."""

import os
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import psutil
import torch
from torch import Tensor

from bench.ground.words import GIB, Phase


class Driver(Protocol):
    """Who knows how much memory is really in use."""

    def reset(self) -> None:
        """A phase begins."""
        ...

    def peaks(self, phase: Phase) -> dict[str, int]:
        """Bytes at the worst moment since `reset`, by the metric's name."""
        ...


class CpuDriver:
    """Peak memory of this process and its children, in proportional set size (PSS), from the kernel.

    The kernel keeps the peak of the resident set and lets a process reset it; what PSS differs by (pages shared
    with others, and the children) is read once a phase, since that costs milliseconds, and added to each later peak.
    Where the peak cannot be reset (some containers), the figure is absent.
    """

    def __init__(self) -> None:
        self._difference: dict[Phase, int] = {}
        self._resettable = True

    def reset(self) -> None:
        """Forget the peak so far."""
        try:
            Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
        except OSError:
            self._resettable = False

    def peaks(self, phase: Phase) -> dict[str, int]:
        """`memory/peak_gib/<phase>`."""
        if not self._resettable:
            return {}
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
        peak, now = (int(status[key].split()[0]) * 1024 for key in ("VmHWM", "VmRSS"))
        if phase not in self._difference:
            self._difference[phase] = tree_pss() - now
        return {f"memory/peak_gib/{phase}": peak + self._difference[phase]}


class CudaDriver:
    """Memory of the whole device by its driver, and of torch's allocator by torch's counters, one beside the other."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def reset(self) -> None:
        """Forget the allocator's peaks, and give unused blocks back, so that the driver sees what the phase needs."""
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self.device)

    def peaks(self, phase: Phase) -> dict[str, int]:
        """The driver keeps no peak: the reserved peak is added to what the device holds outside the allocator."""
        free, total = torch.cuda.mem_get_info(self.device)
        reserved_peak = torch.cuda.max_memory_reserved(self.device)
        outside = total - free - torch.cuda.memory_reserved(self.device)
        return {
            f"memory/peak_gib/{phase}": outside + reserved_peak,
            f"memory/torch_peak_gib/{phase}": torch.cuda.max_memory_allocated(self.device),
        }


class Clock:
    """Seconds of named parts of the update, when asked for: it waits for the device, which costs a little."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.running = False
        self._seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Generator[None]:
        """Time of the block counts as `name`'s, if the clock runs and the block trains."""
        if not (self.running and torch.is_grad_enabled()):
            yield
            return
        synchronise(self.device)
        start = time.perf_counter()
        yield
        synchronise(self.device)
        self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - start

    def take(self) -> dict[str, float]:
        """`profile/<name>_s` since the last call."""
        seconds, self._seconds = self._seconds, {}
        return {f"profile/{name}_s": value for name, value in seconds.items()}


def is_out_of_memory(error: Exception) -> bool:
    """A GPU's allocator has a class for it, a CPU's only words."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


@contextmanager
def blamed_on(name: str) -> Generator[None]:
    """Where memory runs out in the block, the error notes this name: a model's, and outside it the phase's."""
    try:
        yield
    except RuntimeError as error:
        if is_out_of_memory(error):
            error.add_note(name)
        raise


def synchronise(device: torch.device) -> None:
    """Wait for what the device was given to do."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def tree_pss() -> int:
    """Proportional set size of this process and its descendants, in bytes."""
    pids = [os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))]
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
        except OSError:  # a child has ended meanwhile
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def storages(tensors: Iterable[Tensor]) -> dict[int, int]:
    """Bytes by address of what is behind these tensors: tied weights and views are there once."""
    return {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}


def storage_bytes(tensors: Iterable[Tensor]) -> int:
    """Their sum."""
    return sum(storages(tensors).values())


class Meter:
    """Accumulates what phases cost until `take` collects it, once a step."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.driver: Driver = CudaDriver(device) if device.type == "cuda" else CpuDriver()
        self._seconds: dict[str, float] = {}
        self._peaks: dict[str, int] = {}

    @contextmanager
    def phase(self, name: Phase) -> Generator[None]:
        """Time and memory of the block count as this phase's."""
        self.driver.reset()
        synchronise(self.device)
        start = time.perf_counter()
        try:
            with blamed_on(name):
                yield
        finally:
            synchronise(self.device)
            self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - start
            for key, value in self.driver.peaks(name).items():
                self._peaks[key] = max(value, self._peaks.get(key, 0))

    def take(self) -> dict[str, float]:
        """Metrics since the last call: `time/<phase>_s`, `memory/peak_gib/<phase>`."""
        metrics = {f"time/{name}_s": seconds for name, seconds in self._seconds.items()}
        metrics |= {name: value / GIB for name, value in self._peaks.items()}
        self._seconds, self._peaks = {}, {}
        return metrics
