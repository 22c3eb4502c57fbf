"""What a study is about to do, for people: its runs, what differs between arms, and the time it may take."""

from collections.abc import Sequence
from pathlib import Path

from tabulate import tabulate

from bench.ground.comparable import terms
from bench.ground.tree import flatten
from bench.study.board import minutes
from bench.study.launch import estimate_s, split_ended
from bench.study.schedule import Planned, Study, place_parts


def describe_study(study: Study, planned: Sequence[Planned], folder: Path) -> str:
    """What will be run, what differs between the arms, and what is equal."""
    _, to_do = split_ended(planned, folder / "runs")
    begun = sum(path is not None for _, path in to_do)
    sizes = {"arms": len(study.arms), "variants": len(study.variants), "tasks": len(study.tasks)}
    sizes |= {"models": len(study.models), "presets": len(study.presets), "seeds": study.seeds}
    shape = " x ".join(f"{size} {name}" for name, size in sizes.items() if size > 1 or name in ("arms", "seeds"))
    lines = [f"study    {study.name}: {study.question}" if study.question else f"study    {study.name}"]
    lines += [
        f"runs     {shape} = {len(planned)}; {len(planned) - len(to_do)} have ended, {begun} go on where they stopped"
    ]
    for place in dict.fromkeys(run.place for run in planned):
        group = {run.arm: run for run in planned if run.place == place}
        lines += [
            "",
            ", ".join(place_parts(place)),
            differing_settings(group),
            equal_settings(next(iter(group.values()))),
        ]
    return "\n".join([*lines, "", f"records  {folder}"])


def differing_settings(group: dict[str, Planned]) -> str:
    """The settings in which the arms differ, side by side."""
    flat = {arm: flatten(run.chosen.tree()) for arm, run in group.items()}
    names = sorted({name for config in flat.values() for name in config} - {"name", "seed", "out"})
    rows = [[name, *(config.get(name, "") for config in flat.values())] for name in names]
    differing = [row for row in rows if len(set(row[1:])) > 1]
    return tabulate(differing, headers=["", *flat], disable_numparse=True) if differing else "the arms do not differ"


def equal_settings(run: Planned) -> str:
    """What was checked to be equal, the part that people ask for."""
    part = terms(run.chosen.tree())
    shown = ("budget", "samples_per_step", "eval.every", "eval.limit", "eval.num_samples", "sampling.max_new_tokens")
    return "equal for all: " + ", ".join(f"{name} {part[name]}" for name in shown if name in part)


def time_needed(runs: Sequence[Planned], folder: Path, jobs: int | None) -> str:
    """The estimate, and what it rests on."""
    to_do = [
        run
        for part in ("runs", "trials")
        for run, _ in split_ended([r for r in runs if r.chosen.config.out.name == part], folder / part)[1]
    ]
    if not to_do:
        return "time     nothing left to run"
    records = [folder / "runs", folder / "trials", Path("results/runs"), *folder.parent.glob("*/runs")]
    seconds = estimate_s(to_do, records)
    if seconds is None:
        return "time     unknown until a run of each kind has finished here; each end of a run says what is left"
    if jobs is None:
        return f"time     about {minutes(seconds)} of device time for {len(to_do)} runs, by what such runs took here"
    return (
        f"time     about {minutes(seconds / jobs)} for {len(to_do)} runs, {jobs} at a time, by what such runs took here"
    )
