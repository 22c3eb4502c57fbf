"""What a run shows while it goes: a live bar on a terminal, plain lines elsewhere, nothing when quiet."""

import importlib.util
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import FrameType, TracebackType
from typing import Any, Self, TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bench.ground.errors import UserError
from bench.ground.outlet import Outlet

Row = Mapping[str, Any]

SHOWN: tuple[tuple[str, str, str], ...] = (  # label, metric, format
    ("reward", "reward/mean", ".3f"),
    ("correct", "reward/correct_frac", ".1%"),
    ("signal", "reward/informative_frac", ".0%"),
    ("predicted", "reward/informative_predicted_frac", ".0%"),
    ("format", "completion/format_frac", ".1%"),
    ("length", "completion/length_mean", ".1f"),
    ("kl", "actor/kl", ".4f"),
    ("entropy", "actor/entropy", ".3f"),
    ("grad", "actor/grad_norm", ".2f"),
    ("tok/s", "perf/generated_tokens_per_s", ",.0f"),
    ("GiB", "memory/peak_gib/update", ".2f"),
    ("s", "time/step_s", ".2f"),
)


def describe_run(row: Row) -> str:
    """The figures of a step in one line; those that are missing are left out."""
    return "  ".join(f"{label} {row[name]:{form}}" for label, name, form in SHOWN if row.get(name) is not None)


def profile_of_steps(rows: Sequence[Row]) -> str:
    """Where the steps' time went, and how much of the machine's peak each phase reached."""
    total = sum(row["time/step_s"] for row in rows)
    lines = [f"{'phase':<12}{'s':>9}{'share':>8}  of the matrix-product rate"]
    names = ("rollout", "score", "logprobs", "update", "forward", "backward", "optimizer", "sync", "other")
    for name in names:
        kind = "profile" if name in ("forward", "backward", "optimizer") else "time"
        seconds = sum(row.get(f"{kind}/{name}_s", 0.0) for row in rows)
        rates = [(row[f"perf/mfu/{name}"], row[f"time/{name}_s"]) for row in rows if f"perf/mfu/{name}" in row]
        reached = f"{sum(r * s for r, s in rates) / seconds:>10.1%}" if rates else ""
        label = f"  {name}" if kind == "profile" else name
        lines.append(f"{label:<12}{seconds:>9.2f}{seconds / total:>8.1%}{reached}")
    return "\n".join(lines)


class Interrupt(AbstractContextManager["Interrupt"]):
    """Ctrl-C asks for an end after the current step; a second one ends at once.

    SIGTERM asks, too: a scheduler sends it before it takes a machine away, and a launcher to the processes whose peer
    has died, which then get to say so. So does SIGHUP, which comes when the terminal is closed; where it is ignored
    (nohup), it stays so.
    """

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> Self:
        asking = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            asking.append(signal.SIGHUP)
        self._previous = {number: signal.signal(number, self._ask) for number in asking}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True


class Display:
    """Progress of one run. `say` prints a line above it."""

    def __init__(self, quiet: bool, *, silent: bool = False, console: Console | None = None) -> None:
        self.quiet = quiet or silent
        self.silent = silent  # one of several processes, of which another speaks
        self.console = console or Console(file=cast("TextIO", Outlet(sys.stdout)), highlight=False, soft_wrap=True)
        self._bar: Progress | None = None
        self._start = time.perf_counter()

    def __enter__(self) -> Self:
        if not self.quiet and self.console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=20),
                TimeElapsedColumn(),
                TextColumn("left"),
            )
            self._bar = Progress(*columns, TimeRemainingColumn(), console=self.console, transient=True)
            self._task = self._bar.add_task("starting", total=1.0)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        """A line, unless quiet."""
        if not self.quiet:
            self.console.print(text, markup=False)

    def always(self, text: str) -> None:
        """A line that `--quiet` does not silence."""
        if not self.silent:
            self.console.print(text, markup=False)

    def alarm(self, text: str) -> None:
        """A line that even a silent one says: what ends the run."""
        self.console.print(text, markup=False)

    def step(self, row: Row, progress: float) -> None:
        """A step is done; `progress` is the share of the budget behind us."""
        if self._bar is not None:
            self._bar.update(self._task, completed=min(progress, 1.0), description=f"step {row['step']}")
        self.say(f"step {row['step']:>4}  {describe_run(row)}{self._left(progress) if self._bar is None else ''}")

    def _left(self, progress: float) -> str:
        elapsed = time.perf_counter() - self._start
        return f"  left {elapsed * (1 - progress) / progress:.0f} s" if 0 < progress < 1 else ""


def check_tracker(kind: str) -> None:
    """Refuse a tracker that is not there, before anything is written.

    Raises:
        UserError: it is not installed.
    """
    if kind != "none" and importlib.util.find_spec(kind) is None:
        raise UserError(f"--track {kind}: not installed; pip install {kind}")


def open_tracker(kind: str, path: str, config: Row) -> Callable[[Row], None]:
    """A function that sends a step's figures to TensorBoard or W&B, or to nobody."""
    if kind == "none":
        return track_nothing
    if kind == "tensorboard":
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(path)

        def send(row: Row) -> None:
            for key, value in row.items():
                if isinstance(value, int | float):
                    writer.add_scalar(key, value, row["step"])
            writer.flush()

        return send
    import wandb  # pyright: ignore[reportMissingImports]

    run = wandb.init(project="ppo-vs-grpo-bench", name=path.rpartition("/")[2], dir=path, config=dict(config))

    def log(row: Row) -> None:
        run.log(dict(row), step=row["step"])

    return log


def track_nothing(row: Row) -> None:
    """Nobody tracks this run."""
    del row
