"""Commands. Each imports what it needs when it is called, so that none waits for another's engines."""

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.ground.errors import UserError, lacks_room
from bench.ground.hub import hub_failure
from bench.ground.outlet import drop_output
from bench.ground.start import loading_later, wait_passively
from bench.models.quiet import quieten

Arguments = list[str]

CUT_SHORT = 141  # as a shell has it where SIGPIPE ends a command

USAGE = """usage: python -m bench COMMAND [--flags]

{commands}

python -m bench COMMAND --help lists a command's flags."""


def main(arguments: Sequence[str]) -> int:
    """Run a command; returns the exit code: 2 for a mistake of the user's, which is told in one line."""
    wait_passively()
    with loading_later("torch"):
        importlib.import_module("algorithms")  # which then name it without loading it
    try:
        if not arguments or arguments[0] in ("-h", "--help"):
            listed = "\n".join(f"  {name:<10}{command.__doc__}" for name, command in COMMANDS.items())
            print(USAGE.format(commands=listed))
            return 0 if arguments else 2
        if arguments[0] not in COMMANDS:
            from bench.ground.errors import nearest

            raise UserError(f"{arguments[0]}: unknown command; {nearest(arguments[0], COMMANDS)}")
        code = COMMANDS[arguments[0]](list(arguments[1:]))
        sys.stdout.flush()
        return code
    except UserError as error:
        return refuse(error)
    except BrokenPipeError:  # `| head` has seen enough
        drop_output()
        return CUT_SHORT
    except OSError as error:
        if not lacks_room(error):
            raise
        reason = error.strerror or str(error)
        return refuse(UserError(f"cannot write{at(error)}: {reason}; free some space or take --out"))


def at(error: OSError) -> str:
    """Where, as far as the error says."""
    return f" {error.filename}" if error.filename else ""


def refuse(error: UserError) -> int:
    """Say it, once if several processes meet it; returns the exit code."""
    if "WORLD_SIZE" in os.environ:
        from bench.ranks import first_to_tell

        if not first_to_tell():
            return 2
    print(f"error: {error}", file=sys.stderr)
    return 2


def run(arguments: Arguments) -> int:
    """Train one model on one task by one algorithm"""
    from bench.ground.orphans import end_with_parent
    from bench.settings.flags import parse, take, to_toml

    end_with_parent()
    without_hub()
    directory = take(arguments, "--resume")
    if directory is not None:
        from bench.ranks import joined
        from bench.session.run import resume

        extra = [a for a in arguments if a != "--quiet"]
        if extra:
            raise UserError(f"--resume goes on with the run's own settings; remove {' '.join(extra)}")
        quieten()
        with joined() as ranks:
            return ended(resume(Path(directory), quiet="--quiet" in arguments, ranks=ranks), ranks.size)
    printing = "--print-config" in arguments
    chosen = parse([a for a in arguments if a != "--print-config"])
    if printing:
        from bench.settings.resolve import resolve

        print(to_toml(resolve(chosen)))
        return 0
    from bench.ranks import joined
    from bench.session.run import start

    quieten()
    with joined() as ranks:
        return ended(start(chosen, ranks), ranks.size)


def ended(code: int, processes: int) -> int:
    """The exit code; a process that fails among others leaves at once, since they may wait for it in a collective."""
    if code and processes > 1:
        sys.stdout.flush()
        os._exit(code)
    return code


def without_hub() -> None:
    """Where the hub cannot be reached, say so to the libraries before they load: they would retry for a minute."""
    if "HF_HUB_OFFLINE" not in os.environ and hub_failure(timeout_s=3):
        os.environ["HF_HUB_OFFLINE"] = "1"


def show_list(arguments: Arguments) -> int:
    """List algorithms, tasks, embedded models, and recipes with what they change"""
    from bench.settings.listing import listing

    if arguments:
        raise UserError(f"list takes no flags; remove {' '.join(arguments)}")
    print("\n".join(listing()))
    return 0


def doctor(arguments: Arguments) -> int:
    """Look over this machine, or with --task NAME over a task's own problems"""
    if any(a == "--task" or a.startswith("--task=") for a in arguments):
        without_hub()
        from bench.audit import audit
        from bench.settings.flags import parse

        return audit(parse(arguments))
    from bench.machine.config import DoctorConfig
    from bench.machine.doctor import doctor as command
    from bench.settings.flags import flags

    return command(flags(DoctorConfig, arguments, prog="python -m bench doctor"))


def evaluate(arguments: Arguments) -> int:
    """Evaluate a model, a checkpoint or a run on held-out problems"""
    without_hub()
    from bench.session.eval_config import EvalCommand
    from bench.settings.flags import flags, long_names

    command = flags(EvalCommand, long_names(arguments), prog="python -m bench eval")
    from bench.session.eval import examine_model

    quieten()
    return examine_model(command)


def compare(arguments: Arguments) -> int:
    """Train several arms over seeds under one budget, and report"""
    from bench.settings.flags import flags
    from bench.study.config import CompareConfig

    config = flags(CompareConfig, arguments, prog="python -m bench compare")
    from bench.study.compare import compare as command

    return command(config)


def report(arguments: Arguments) -> int:
    """Tables, figures and one page from recorded runs"""
    from bench.report.config import ReportConfig
    from bench.settings.flags import flags

    config = flags(ReportConfig, arguments, prog="python -m bench report")
    from bench.report.command import report_command

    return report_command(config)


def plan(arguments: Arguments) -> int:
    """Memory, time and cost of a run on given GPUs, before renting them"""
    from bench.planner.config import PlanConfig
    from bench.settings.flags import flags, long_names, switched

    config = flags(PlanConfig, switched(long_names(arguments)), prog="python -m bench plan")
    from bench.planner.plan import plan as command

    return command(config)


def check(arguments: Arguments) -> int:
    """Whether a change made an algorithm worse: results, cost, accuracy"""
    from bench.gate.config import CheckConfig
    from bench.settings.flags import flags, overlay, read_toml, take

    without_hub()
    file = take(arguments, "--config")
    default = overlay(CheckConfig(), read_toml(Path(file)), file) if file else None
    config = flags(CheckConfig, arguments, prog="python -m bench check", default=default)
    from bench.gate.check import check as command

    return command(config)


def gradient(arguments: Arguments) -> int:
    """Variance and direction of methods' gradients at fixed weights, without training"""
    from bench.gradient.command import GradientConfig, gradient_command
    from bench.settings.flags import flags

    without_hub()
    quieten()
    return gradient_command(flags(GradientConfig, arguments, prog="python -m bench gradient"))


def pipeline(arguments: Arguments) -> int:
    """cold-start: rebuild an embedded model from nothing; r1: DeepSeek-R1's pipeline, stage by stage"""
    from bench.ground.errors import nearest
    from bench.settings.flags import flags

    name, rest = "".join(arguments[:1]), arguments[1:]
    if name not in ("cold-start", "r1"):
        raise UserError(f"pipeline {name}: {nearest(name, ['cold-start', 'r1'])}")
    if name == "r1":
        without_hub()
        from bench.pipeline.command import command as make
        from bench.pipeline.plans import R1, with_preset

        quieten()
        prog = "python -m bench pipeline r1"
        return make(flags(R1, rest, prog=prog, default=with_preset(flags(R1, rest, prog=prog))))
    from bench.pipeline.cold_start import ColdStart, command

    quieten()
    return command(flags(ColdStart, rest, prog="python -m bench pipeline cold-start"))


COMMANDS: dict[str, Callable[[Arguments], int]] = {
    "run": run,
    "compare": compare,
    "eval": evaluate,
    "report": report,
    "check": check,
    "plan": plan,
    "gradient": gradient,
    "pipeline": pipeline,
    "list": show_list,
    "doctor": doctor,
}
