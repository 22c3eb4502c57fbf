"""One tree's training steps, one at a time on request: `python -m bench.gate.worker SETTINGS.toml`, told over stdin.

Each line on stdin asks for one step; each line on stdout is what that step cost, as JSON. Learning rates are 0, so
that every step does the whole work and no two trees drift apart: both generate the same tokens unless sampling changed.

Seconds are those of the wall less those in which the process was ready to run and waited for a core (Linux tells,
/proc/self/schedstat): what the step would have taken on a machine of its own. With one thread this is exact.
"""

import json
import os
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from bench.ground.words import Phase
from bench.loop import Parts, State, at_start, one_step
from bench.meter import CpuDriver, Meter
from bench.session.loaded import Loaded
from bench.settings.flags import Chosen, parse
from bench.settings.resolve import resolve

Cost = dict[str, Any]
TICK = 1e-6  # seconds: a phase that did nothing but wait still took some
COUNTED = {"generated": "data/tokens_generated", "trained": "data/tokens_trained"}


def waited_s() -> float:
    """Seconds so far that this thread was ready and had no core; 0 where the kernel does not tell."""
    try:
        return int(Path("/proc/self/schedstat").read_text(encoding="utf-8").split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


class ResidentPeaks(CpuDriver):
    """The peak of this process's resident set alone: what other processes share with it would add noise."""

    def peaks(self, phase: Phase) -> dict[str, int]:
        """`memory/peak_gib/<phase>`; absent where the kernel does not let a process reset its peak."""
        if not self._resettable:
            return {}
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
        return {f"memory/peak_gib/{phase}": int(status["VmHWM"].split()[0]) * 1024}


class PatientMeter(Meter):
    """A meter that also knows how long each phase waited for a core."""

    def __init__(self, meter: Meter) -> None:
        super().__init__(meter.device)
        if isinstance(self.driver, CpuDriver):
            self.driver = ResidentPeaks()
        self.waits: dict[str, float] = {}

    @contextmanager
    def phase(self, name: Phase) -> Generator[None]:
        """Time, memory and waiting of the block count as this phase's."""
        before = waited_s()
        with super().phase(name):
            yield
        self.waits[name] = self.waits.get(name, 0.0) + waited_s() - before


def still(chosen: Chosen) -> Chosen:
    """The settings with learning rates of 0."""
    config = chosen.config
    return replace(
        chosen,
        config=replace(config, optimizer=replace(config.optimizer, lr=0.0), critic=replace(config.critic, lr=0.0)),
    )


def costs(parts: Parts, meter: PatientMeter, state: State) -> Iterator[Cost]:
    """What each step cost: seconds by phase, tokens, bytes by role and by phase."""
    while True:
        before = dict(state.counters)
        start, waiting = time.perf_counter(), waited_s()
        row = one_step(parts, state, 0.0).row
        whole, whole_wait = time.perf_counter() - start, waited_s() - waiting
        wall = {name: row[f"time/{name}_s"] for name in meter.waits} | {"step": whole}
        waits = meter.waits | {"step": whole_wait}
        yield {
            "wall_s": wall,
            "own_s": {name: max(seconds - waits[name], TICK) for name, seconds in wall.items()},
            "tokens": {k: row[f"data/tokens_{k}"] - before[f"data/tokens_{k}"] for k in ("generated", "trained")},
            "memory": {k.removeprefix("memory/"): v for k, v in row.items() if k.startswith("memory/")},
        }
        meter.waits = {}


def serve(path: str, requests: TextIO, replies: TextIO) -> None:
    """Load, say so, then one step for each line."""
    loaded = Loaded(still(resolve(parse(["--config", path]))))
    meter = PatientMeter(loaded.meter)
    parts = replace(loaded.parts(), meter=meter)
    steps = costs(parts, meter, at_start(loaded.config.algo, parts.work))
    print(json.dumps({"ready": True}), file=replies, flush=True)
    for _ in requests:
        print(json.dumps(next(steps)), file=replies, flush=True)


if __name__ == "__main__":
    mine = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever libraries print must not come between the replies
    serve(sys.argv[1], sys.stdin, mine)
