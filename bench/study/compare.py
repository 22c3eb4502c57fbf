"""`bench compare`: plans a study, shows the plan, runs it, and reports."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import tyro

from bench.ground.errors import UserError
from bench.ground.lock import lock_folder
from bench.ground.tree import merge
from bench.report.command import Wanted, report
from bench.report.tables import Row, Table, text
from bench.study.announce import describe_study, time_needed
from bench.study.equal import at_equal_cost, check_unit
from bench.study.file import parse_arm, parse_settings, parse_value, read_study
from bench.study.launch import STUDY_WRITER, Launcher, Outcome, split_ended
from bench.study.register import register
from bench.study.schedule import Planned, Study, schedule
from bench.study.sensitivity import tables
from bench.study.transfer import measure_transfer, transfer_table
from bench.study.tune import trials, tune, tuned_schedule


@dataclass(frozen=True, kw_only=True)
class CompareConfig:
    """Run a study and report on it. What is given here goes over the study's file."""

    study: str = "default"
    """A study file, or the name of a ready one."""
    algos: tuple[str, ...] = ()
    """Algorithms to compare, each with its defaults."""
    arms: tuple[str, ...] = ()
    """Arms to compare: ALGO or NAME=ALGO[@RECIPE][,SETTING=VALUE...]."""
    task: Annotated[tuple[str, ...], tyro.conf.arg(aliases=["--tasks"])] = ()
    """Tasks, each a comparison of its own."""
    model: Annotated[tuple[str, ...], tyro.conf.arg(aliases=["--models"])] = ()
    """Models, each a comparison of its own."""
    preset: Annotated[tuple[str, ...], tyro.conf.arg(aliases=["--presets"])] = ()
    """Hardware presets, each a comparison of its own."""
    data: Path | None = None
    """Data in the official format, as for `run`."""
    seeds: int | None = None
    """Runs of each arm in each place."""
    budget: str | None = None
    """What each run may use, as for `run`; equal for all arms."""
    set: tuple[str, ...] = ()
    """Settings of every run, SETTING=VALUE, such as eval.every=4."""
    reference: str | None = None
    """Arm that the others are compared with. None: every two arms."""
    tune: int | None = None
    """Points of each arm's space to try before the study, on validation. None: what the study's file says."""
    tune_seeds: int | None = None
    """Runs at each point that --tune tries. None: what the study's file says."""
    space: tuple[str, ...] = ()
    """Space of every arm for --tune: SETTING=V1,V2,..."""
    equal: Literal["flops", "tokens", "seconds", "samples", "updates"] | None = None
    """Unit of cost in which all runs get the same: as much as a pilot run of the first arm uses under the budget."""
    jobs: int = 1
    """Runs at once; they share the processor's cores."""
    out: Path = Path("results/studies")
    """Folder in which the study's own folder is made."""
    name: str | None = None
    """Name of the study and its folder. None: that of the file."""
    dry_run: bool = False
    """Show the plan and stop."""
    quiet: bool = False
    """Print the closing table only."""


def compare(config: CompareConfig) -> int:
    """Plan, run, report; returns 0, or 1 when a run failed, or 130 when interrupted.

    Raises:
        UserError: a wrong setting, or an unfair comparison.
    """

    def say(line: str) -> None:
        if not config.quiet:
            print(line, flush=True)

    study = study_of(config)
    folder = config.out / study.name
    if config.jobs < 1:
        raise UserError(f"--jobs {config.jobs}: must be at least 1")
    check_unit(study, config.jobs)
    planned = schedule(study, folder / "runs")
    tried = trials(study, folder / "trials") if study.tuning.points else []
    say(describe_study(study, planned, folder))
    if tried:
        tuning = study.tuning
        say(f"tuning   {len(tried)} runs: {tuning.points} points an arm and place, {tuning.seeds} seeds, on validation")
    say(time_needed([trial.run for trial in tried] + planned, folder, config.jobs))
    if config.dry_run:
        return 0
    with lock_folder(folder, STUDY_WRITER) as held:
        register(study, folder)
        try:
            outcomes, extra = execute(study, folder, Launcher(folder, held, config.jobs, say))
        except KeyboardInterrupt:
            print(f"interrupted; the same command goes on from here ({folder})")
            return 130
    return close_study(study, outcomes, folder, extra)


def execute(study: Study, folder: Path, launcher: Launcher) -> tuple[list[Outcome], list[Table]]:
    """Find equal budgets, tune, run, test on other tasks; the runs' outcomes, and the tables that only a study has."""
    extra: list[Table] = []
    trial_runs = partial(carry_out, runs=folder / "trials", launcher=launcher)
    study = at_equal_cost(study, folder / "trials", trial_runs)
    if study.equal is not None:
        launcher.say(f"equal    {study.equal}: " + ", ".join(f"{t} {s.get('budget')}" for t, s in study.tasks.items()))
    planned = schedule(study, folder / "runs")
    if study.tuning.points:
        found = tune(study, trials(study, folder / "trials"), folder / "trials", trial_runs)
        extra += tables(found)
        planned = tuned_schedule(study, found.best, folder / "runs")
    outcomes = carry_out(planned, folder / "runs", launcher)
    if study.transfer:
        measure_transfer(outcomes, study.transfer, folder / "transfer", launcher.say)
        extra.append(transfer_table(outcomes, folder / "transfer"))
    return outcomes, extra


def study_of(config: CompareConfig) -> Study:
    """The file's study with the flags over it.

    Raises:
        UserError: a flag that cannot be read.
    """
    study = read_study(config.study)
    arms = [parse_arm(text) for text in (*config.algos, *config.arms)] or list(study.arms)
    if config.space:
        space = {
            name: [parse_value(v) for v in values.split(",")]
            for name, _, values in (given.partition("=") for given in config.space)
        }
        arms = [replace(arm, space=space) for arm in arms]
    settings = merge(study.settings, parse_settings(config.set, "--set"))
    given = {"budget": config.budget, "data": None if config.data is None else str(config.data)}
    settings |= {key: value for key, value in given.items() if value is not None}
    tuning = {"points": config.tune, "seeds": config.tune_seeds}
    return replace(
        study,
        name=config.name or ("-".join(arm.name for arm in arms) if config.study == "default" else study.name),
        arms=arms,
        tasks={name: study.tasks.get(name, {}) for name in config.task} or study.tasks,
        models=config.model or study.models,
        presets=config.preset or study.presets,
        seeds=study.seeds if config.seeds is None else config.seeds,
        settings=settings,
        tuning=replace(study.tuning, **{name: value for name, value in tuning.items() if value is not None}),
        equal=config.equal or study.equal,
        primary=study.primary if not (config.algos or config.arms) else (),
        reference=config.reference or (None if config.algos or config.arms else study.reference),
    )


def carry_out(planned: Sequence[Planned], runs: Path, launcher: Launcher) -> list[Outcome]:
    """Run what has not ended yet; outcomes of everything, in the order of the plan."""
    ended, to_do = split_ended(planned, runs)
    found = {outcome.run.label: outcome for outcome in [*ended, *launcher.run(to_do)]}
    return [found[run.label] for run in planned]


def close_study(study: Study, outcomes: Sequence[Outcome], folder: Path, extra: Sequence[Table]) -> int:
    """Report on the planned runs, and say what failed."""
    lost = [outcome for outcome in outcomes if outcome.status not in ("finished", "diverged", "no-signal")]
    rows: list[Row] = [
        {"run": text(o.run.label), "status": text(o.status), "message": text(o.message)} for o in lost if o.path is None
    ]
    if rows:
        note = "They ended before they could record anything; the reason is their log's last line."
        extra = [Table(name="unrecorded", title="Planned runs without records", note=note, rows=rows), *extra]
    paths = [outcome.path for outcome in outcomes if outcome.path is not None]
    for outcome in lost:
        print(f"failed   {outcome.run.label}: {outcome.message}")
    if not paths:
        raise UserError("no run left any record")
    arms = [arm.name for arm in study.arms]
    wanted = Wanted(title=study.name, question=study.question, reference=study.reference, arms=arms, extra=extra)
    page = report(paths, folder / "report", wanted)
    print((page.parent / "summary.md").read_text(encoding="utf-8"))
    print(page)
    return 1 if lost else 0
