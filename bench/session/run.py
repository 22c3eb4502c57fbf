"""One run from settings to summary: drives the loop, records, evaluates, resumes."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from bench.ground.errors import UserError
from bench.ground.files import read_json, write_json
from bench.ground.moment import read_time, start_time
from bench.ground.sums import unseal, verify
from bench.ground.tree import Tree
from bench.loop import State, at_start
from bench.meter import is_out_of_memory
from bench.models.load import latest_checkpoint
from bench.ranks import ALONE, Ranks
from bench.session import checkpoint
from bench.session.checkpoint import Best
from bench.session.console import Display
from bench.session.drive import Session
from bench.session.loaded import Loaded, arm_name
from bench.session.record import Recorder
from bench.settings.flags import Chosen, from_tree
from bench.settings.resolve import resolve


def start(chosen: Chosen, ranks: Ranks = ALONE) -> int:
    """Run from the beginning; returns the exit code."""
    session, state = begun(chosen, ranks)
    return session.drive(state, Best())


def begun(chosen: Chosen, ranks: Ranks = ALONE) -> tuple[Session, State]:
    """A new run before its first step: everything loaded, its folder made."""
    chosen = resolve(chosen, ranks.size)
    loaded = loaded_parts(chosen, ranks.of_leader(start_time()), ranks)
    display = Display(quiet=chosen.config.quiet, silent=not ranks.leads)
    loaded.announce(display)
    recorder = Recorder.create(run_path(chosen), ranks)
    if ranks.leads:
        write_json(recorder.path / "config.json", loaded.tree)
        write_json(recorder.path / "provenance.json", loaded.provenance())
    return Session(loaded, recorder, display), at_start(chosen.config.algo, loaded.work)


def resume(path: Path, *, quiet: bool, ranks: Ranks = ALONE) -> int:
    """Go on from the last checkpoint of a run, exactly as if it had not been stopped.

    Raises:
        UserError: nothing to resume, a run that has ended or still goes, or a checkpoint of other settings.
    """
    if not (path / "config.json").exists():
        raise UserError(f"--resume {path}: no run directory: it has no config.json")
    recorder = Recorder(path, ranks)
    with recorder.alone():
        return go_on(recorder, quiet=quiet)


def go_on(recorder: Recorder, *, quiet: bool) -> int:
    """`resume`, with the folder held.

    Raises:
        UserError: as there.
    """
    path, ranks = recorder.path, recorder.ranks
    verify(path)
    tree = read_json(path / "config.json")
    summary = path / "summary.json"
    if summary.exists() and read_json(summary).get("status") != "interrupted":
        raise UserError(f"{path} has ended ({read_json(summary).get('status')}): there is nothing to resume")
    tree.pop("arm", None)  # follows from the rest
    chosen = from_tree(tree, str(path / "config.json"))
    chosen = replace(chosen, config=replace(chosen.config, quiet=quiet))
    origin = read_json(path / "provenance.json")
    time = read_time(str(origin.get("template_time") or origin["started_at"]), str(path / "provenance.json"))
    loaded = loaded_parts(chosen, time, ranks)
    refuse_changed(origin, loaded.provenance(), path)
    display = Display(quiet, silent=not ranks.leads)
    state, best = at_start(chosen.config.algo, loaded.work), Best()
    counts: dict[str, int] | None = None
    if (path / "checkpoint").is_dir() and any((path / "checkpoint").glob("step-*[0-9]")):
        state, best, counts = checkpoint.load_checkpoint(latest_checkpoint(path), loaded)
    recorder.rewind(counts)
    ranks.meet()  # all have read the summary
    if ranks.leads:
        unseal(path)
    summary.unlink(missing_ok=True)
    display.say(f"resuming {path} after step {state.step}")
    return Session(loaded, recorder, display).drive(state, best)


def refuse_changed(before: Tree, now: Tree, path: Path) -> None:
    """Hold the data and the models that were found now against the checksums of the run's start, as far as it has them.

    Raises:
        UserError: names what is another now.
    """
    parts = {f"the {split} data": ("data", split) for split in now["data"]}
    parts |= {f"the {name.replace('_', ' ')}": (name,) for name in ("model", "reward_model", "safety_model")}
    for name, keys in parts.items():
        old, new = before, now
        for key in keys:
            old, new = old.get(key) or {}, new.get(key) or {}
        for kind in ("sha256", "problems_sha256", "checksum"):
            if old.get(kind) and old[kind] != new.get(kind):
                where = new.get("origin") or new.get("location") or ""
                raise UserError(
                    f"{name} changed since {path.name} began ({where}: {kind} {str(new.get(kind))[:12]}, was "
                    f"{old[kind][:12]}): put back what it began with, or start a new run"
                )


def loaded_parts(chosen: Chosen, time: datetime, ranks: Ranks) -> Loaded:
    """The run's parts.

    Raises:
        UserError: what keeps them from being loaded, lack of memory among it.
    """
    try:
        return Loaded(chosen, ranks, time)
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise UserError("out of memory while loading the models: python -m bench plan says what fits") from error
        raise


def run_path(chosen: Chosen) -> Path:
    """`<utc>-<arm>-<task>-<model>-s<seed>` below `--out`."""
    config = chosen.config
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    parts = (now, arm_name(chosen), chosen.task_name, Path(config.model).name, f"s{config.seed}")
    return config.out / "-".join(part.replace("/", "-").replace(":", ".") for part in parts)
