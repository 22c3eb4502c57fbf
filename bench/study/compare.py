"""`bench compare`: plans a study, shows the plan, runs it, and reports."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.ground.errors import UserError
from bench.ground.lock import lock_folder
from bench.ground.tree import merge
from bench.report.command import Wanted, report
from bench.report.tables import Row, Table, text
from bench.study.announce import describe_study, time_needed
from bench.study.choose import open_executor
from bench.study.config import CompareConfig
from bench.study.equal import at_equal_cost, check_unit
from bench.study.file import parse_arm, parse_settings, parse_value, read_study
from bench.study.launch import STUDY_WRITER, Launcher, Outcome, split_ended
from bench.study.register import register
from bench.study.schedule import Planned, Study, schedule
from bench.study.sensitivity import tables
from bench.study.transfer import measure_transfer, transfer_table
from bench.study.tune import trials, tune, tuned_schedule


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
    config.check()
    check_unit(study, config.at_once)
    planned = schedule(study, folder / "runs")
    tried = trials(study, folder / "trials") if study.tuning.points else []
    say(describe_study(study, planned, folder))
    if tried:
        tuning = study.tuning
        say(f"tuning   {len(tried)} runs: {tuning.points} points an arm and place, {tuning.seeds} seeds, on validation")
    say(
        time_needed(
            [trial.run for trial in tried] + planned,
            folder,
            config.at_once,
        )
    )
    if config.dry_run:
        return 0
    live = not config.quiet and sys.stdout.isatty()
    with lock_folder(folder, STUDY_WRITER) as held, open_executor(config, folder, held) as executor:
        register(study, folder)
        try:
            outcomes, extra = execute(study, folder, Launcher(folder, executor, say, live=live))
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
