"""A checkpoint's content: all that changes while a run goes on, so that it can go on exactly."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError

import torch

from bench.ground.errors import UserError
from bench.ground.sums import verify
from bench.ground.tree import fingerprint
from bench.loop import State
from bench.session.loaded import Loaded
from bench.session.record import Recorder
from bench.settings.flags import overlay

CONTENT = {"fingerprint", "processes", "step", "position", "counters", "algo", "best", "counts", "past"}


@dataclass(kw_only=True)
class Best:
    """The best validation accuracy so far, and the step it was seen at; None before there is one."""

    accuracy: float | None = None
    step: int | None = None

    def is_beaten_by(self, accuracy: float) -> bool:
        """Whether this accuracy is the best now."""
        return self.accuracy is None or accuracy > self.accuracy


def save_checkpoint(recorder: Recorder, loaded: Loaded, state: State, best: Best) -> None:
    """Write the checkpoint of this step; the one before it is dropped when it stands."""
    counts = recorder.counts()

    def content(folder: Path) -> None:
        loaded.trainer.save_model(folder / "model")
        loaded.trainer.save_state(folder / "trainer")
        if loaded.ranks.leads:
            torch.save(
                {
                    "fingerprint": fingerprint(loaded.tree),
                    "processes": loaded.ranks.size,
                    "step": state.step,
                    "position": state.position,
                    "counters": state.counters,
                    "algo": dict(vars(state.algorithm)),
                    "best": vars(best),
                    "counts": counts,
                    "past": state.past,
                },
                folder / "state.pt",
            )

    recorder.checkpoint(state.step, content, keep=None if best.step is None else best_folder(best.step))


def best_folder(step: int) -> str:
    """Where the weights of the best validation are kept, beside the checkpoints."""
    return f"best-{step:06d}"


def load_checkpoint(folder: Path, loaded: Loaded) -> tuple[State, Best, dict[str, int]]:
    """A checkpoint's state, best and numbers of rows; the engine takes up its part.

    Raises:
        UserError: it is of other settings, or cannot be read.
    """
    with readable(folder):
        sealed = verify(folder)
        content = torch.load(folder / "state.pt", map_location=loaded.device, weights_only=True)
    if not isinstance(content, dict) or not set(content) >= CONTENT:
        raise UserError(f"{folder / 'state.pt'}: not the state of a run")
    if not sealed and loaded.ranks.leads:
        print(f"{folder} has no checksums (it is of an older version): a damaged file would not be noticed")
    if content["fingerprint"] != fingerprint(loaded.tree):
        raise UserError(f"{folder} is a checkpoint of other settings than {folder.parent.parent / 'config.json'}")
    if content["processes"] != loaded.ranks.size:
        raise UserError(
            f"{folder} was written by {content['processes']} processes, and here are {loaded.ranks.size}: "
            "resume with the launch that started the run"
        )
    with readable(folder):
        loaded.trainer.load_state(folder / "trainer")
    state = State(
        algorithm=overlay(loaded.config.algo, content["algo"], str(folder)),
        step=content["step"],
        position=content["position"],
        counters=content["counters"],
        past=[{name: tensor.cpu() for name, tensor in snapshot.items()} for snapshot in content["past"]],
    )
    known = {k: v for k, v in content["best"].items() if v is not None and v >= 0}  # older ones hold -1 for nothing
    return state, Best(**known), content["counts"]


@contextmanager
def readable(folder: Path) -> Generator[None]:
    """Tell what cannot be read of a checkpoint in one line.

    Raises:
        UserError: the block met a file that is missing, cut off or no checkpoint.
    """
    try:
        yield
    except (OSError, RuntimeError, EOFError, ValueError, LookupError, UnpicklingError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{folder}: the checkpoint cannot be read: {reason}") from error
