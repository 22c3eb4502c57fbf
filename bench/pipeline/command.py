"""`python -m bench pipeline r1`: arms over seeds, stage by stage, and their report."""

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from bench.ground.errors import UserError
from bench.ground.files import read_json, write_json
from bench.ground.tree import Tree, flatten, plain
from bench.machine.provenance import provenance
from bench.models.load import pick_device
from bench.pipeline.plans import R1, Plan, numbers, plans, with_preset
from bench.pipeline.r1 import Pipeline
from bench.pipeline.workshop import Made, StageError, StoppedError, Workshop
from bench.report.pipeline import write_report
from bench.session.console import Display
from tasks.core import DataError


def command(config: R1) -> int:
    """Make the stages and the report; returns the exit code: 1 where a stage came to nothing, 130 where stopped.

    Raises:
        UserError: settings, data or a stage's input that cannot be used; says what to do.
    """
    display = Display(config.quiet)
    pipeline = Pipeline(config)
    arms = plans(config, pipeline.sizes)
    announce(config, pipeline, arms, display.say)
    config.out.mkdir(parents=True, exist_ok=True)
    if not (config.out / "provenance.json").exists():
        write_json(config.out / "provenance.json", provenance(pick_device("auto")) | {"command": typed(config)})
    try:
        for seed in range(config.seeds):
            for arm in arms:
                shop = Workshop(
                    out=config.out, seed=seed, allowed=numbers(config.stages), say=display.say, again=typed(config)
                )
                record(config.out, arm, seed, pipeline.make(arm, shop))
    except DataError as error:
        raise UserError(str(error)) from error
    except StageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except StoppedError:
        print(f"stopped; go on by: {typed(config)}")
        return 130
    page = write_report(config.out)
    if not config.quiet:
        print(page.read_text())
    print(page)
    return 0


def announce(config: R1, pipeline: Pipeline, arms: list[Plan], say: Callable[[str], None]) -> None:
    """Say what will be done before doing it."""
    sizes = pipeline.sizes
    say(f"model    {config.model} ({pipeline.location}); every stage 1 and 3 starts from it")
    say(f"task     {config.task}, {config.algo}; general prompts by {config.general_algo or config.algo}")
    for arm in arms:
        left = ", ".join(map(str, sorted(arm.numbers)))
        rl = (2 in arm.numbers) * arm.sizes.first_steps + (4 in arm.numbers) * (
            arm.sizes.second_steps + arm.sizes.general_steps
        )
        say(f"arm      {arm.name}: stages {left}; {rl} steps of {sizes.samples_per_step} samples")
    say(f"seeds    {config.seeds}; everything is kept in {config.out}, and the same command goes on where it stopped")


def typed(config: R1) -> str:
    """The command with what was set otherwise than by default, `--stages` apart."""
    set_, default = flatten(plain(config)), flatten(plain(with_preset(config)))
    words: list[str] = []
    for name, value in set_.items():
        if value != default.get(name) and name not in ("stages", "quiet"):
            flag = f"--{name.replace('_', '-')}"
            words += [flag] if value == "true" else [flag, *(json.loads(value) if value[:1] == "[" else [value])]
    return shlex.join(["python", "-m", "bench", "pipeline", "r1", *map(str, words)])


def record(out: Path, arm: Plan, seed: int, made: list[Made]) -> None:
    """Add one arm of one seed to `arms.json`, in the place of what stood there of the same."""
    path = out / "arms.json"
    known: list[Tree] = read_json(path)["arms"] if path.exists() else []
    known = [row for row in known if (row["arm"], row["seed"]) != (arm.name, seed)]
    folders = [stage.folder.name for stage in made]
    row: Tree = {"arm": arm.name, "seed": seed, "stages": folders, "sizes": plain(arm.sizes)}
    write_json(path, {"arms": [*known, row]})
