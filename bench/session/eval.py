"""`bench eval`: a model, a checkpoint or a run on held-out problems of one task or several."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import torch

from bench.config import EvalConfig, RunConfig, Sampling
from bench.engines.build import rollout_engine
from bench.engines.modules import plain_logprobs
from bench.evaluate import describe, judge, problem_rows, summarise
from bench.ground.errors import UserError
from bench.ground.files import read_json, write_json
from bench.ground.moment import read_time, start_time
from bench.ground.sums import verify
from bench.ground.tree import Tree
from bench.machine.provenance import provenance
from bench.meter import Meter
from bench.models import templates
from bench.models.load import load_model, load_tokenizer, locate_model, pick_device, weights_for
from bench.models.lora import is_adapted
from bench.models.text import check_tokenizer, encode_prompt
from bench.proof import PROOF_PROBLEMS, long_prompts, prove_attention
from bench.rollout import RolloutEngine
from bench.session.console import Display
from bench.session.eval_config import EvalCommand
from bench.session.record import Recorder
from bench.settings.flags import from_tree, overlay
from bench.settings.plugins import find_task
from bench.settings.resolve import is_embedded, model_defaults, with_source
from tasks.core import DataError, Problem, Task


@dataclass(frozen=True, kw_only=True)
class Examined:
    """What is evaluated: tasks with their problems, and the engine that answers them."""

    tasks: dict[str, Task]
    problems: dict[str, Sequence[Problem]]
    engine: RolloutEngine
    location: str
    budget: int  # tokens of a completion
    device: torch.device


def examine_model(command: EvalCommand) -> int:
    """Evaluate, record, print; returns the exit code."""
    refuse_bad_evaluation(command)
    run = run_settings(command.model)
    names: tuple[str, ...] = command.task or ((run["task_name"],) if run else ("gsm8k",))
    if (command.data is not None or command.set) and len(names) > 1:
        raise UserError("--data and --set serve one task; for several set BENCH_DATA or use --source hub")
    meter, display = Meter(pick_device(command.engine.device)), Display(quiet=command.quiet)
    time = time_of(command.model) or start_time()
    templates.fix_time(time)
    with meter.phase("load"):
        examined = loaded_for(command, names, run, meter.device)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    recorder = Recorder.create(command.out / f"{stamp}-{Path(command.model).name}-{'-'.join(names)}".replace(":", "."))
    write_json(recorder.path / "config.json", command)
    data = {name: facts_of_data(task, command) for name, task in examined.tasks.items()}
    model = {"name": command.model, "location": examined.location}
    origin = {**provenance(examined.device), "template_time": time.isoformat(), "model": model, "data": data}
    write_json(recorder.path / "provenance.json", origin | meter.take())
    settings = EvalConfig(
        num_samples=command.num_samples, temperature=command.temperature, top_p=command.top_p, seed=command.seed
    )
    for name, task in examined.tasks.items():
        with meter.phase("evaluate"):
            verdicts = list(judge(examined.engine, task, examined.problems[name], settings, examined.budget))
        place = {"split": command.split, "task": name}
        summary = summarise(verdicts, command.num_samples)
        recorder.write("evals", place | summary | meter.take())
        recorder.write_many("eval_problems", (place | row for row in problem_rows(verdicts)))
        display.always(f"{name} {command.split}: {describe(summary)}")
    recorder.close({"status": "finished"})
    display.always(str(recorder.path))
    return 0


def refuse_bad_evaluation(command: EvalCommand) -> None:
    """Refuse what nothing can be sampled by.

    Raises:
        UserError: says which.
    """
    if not (command.temperature > 0 and math.isfinite(command.temperature)):
        raise UserError(f"--temperature {command.temperature}: must be a number above 0")
    if not 0 < command.top_p <= 1:
        raise UserError(f"--top-p {command.top_p}: must lie in (0, 1]")
    if command.max_new_tokens is not None and command.max_new_tokens <= 0:
        raise UserError(f"--max-new-tokens {command.max_new_tokens}: must be above 0")


def loaded_for(command: EvalCommand, names: Sequence[str], run: Tree | None, device: torch.device) -> Examined:
    """Tasks, problems and an engine that has been shown to compute what a plain forward pass does.

    Raises:
        UserError: data or a model that cannot be read, or one that this engine cannot sample.
    """
    tasks = {name: task_of(name, command, run) for name in names}
    try:
        problems = {name: task.problems(command.split)[: command.limit] for name, task in tasks.items()}
    except DataError as error:
        raise UserError(str(error)) from error
    budget = command.max_new_tokens or default_budget(command.model, run)
    location = locate_model(command.model, next(iter(names)))
    if run is not None:
        verify(Path(location).parent, "model/")
    model = cast("Any", load_model(location)).to(device)
    tokenizer = load_tokenizer(location)
    check_tokenizer(model, tokenizer, location)
    longest = max((len(encode_prompt(tokenizer, p.prompt)) for part in problems.values() for p in part), default=1)
    engine = rollout_engine(command.engine, model, tokenizer, location, longest=longest + budget)
    if is_adapted(model):
        engine.load_weights(weights_for(command.engine.rollout, model))
    prompts = [encode_prompt(tokenizer, p.prompt) for part in problems.values() for p in part[:PROOF_PROBLEMS]]
    if prompts:
        settled = replace(command.engine, micro_batch_tokens=1)  # row by row
        rows = long_prompts(prompts, model.config, longest + budget)
        prove_attention(engine, plain_logprobs(model, settled.dtype), rows, Sampling(), settled)
    return Examined(tasks=tasks, problems=problems, engine=engine, location=location, budget=budget, device=device)


def run_settings(model: str) -> dict[str, Any] | None:
    """The settings of a run directory; None for anything else."""
    path = Path(model) / "config.json"
    tree = read_json(path) if path.is_file() else {}
    return tree if "task_name" in tree else None


def time_of(model: str) -> datetime | None:
    """The time that the prompts of a run directory showed; None for anything else."""
    path = Path(model) / "provenance.json"
    text = read_json(path).get("template_time") if path.is_file() else None
    return None if text is None else read_time(str(text), str(path))


def task_of(name: str, command: EvalCommand, run: dict[str, Any] | None) -> Task:
    """The task as its run had it, or as `run` would make it, with this command's data."""
    if (
        run is not None
        and name == run["task_name"]
        and command.data is None
        and command.source == "auto"
        and not command.set
    ):
        return from_tree({k: v for k, v in run.items() if k != "arm"}, command.model).config.task
    task = overlay(find_task(name)(), dict(parse_assignment(text) for text in command.set), "--set")
    config = RunConfig(algo=cast("Any", None), task=task, data=command.data, source=command.source)
    ours = is_embedded(run["model"] if run else command.model)
    return with_source(config, ours=ours)


def parse_assignment(text: str) -> tuple[str, str]:
    """`SETTING=VALUE` in two.

    Raises:
        UserError: there is no `=`.
    """
    name, sign, value = text.partition("=")
    if not sign:
        raise UserError(f"--set {text}: expected SETTING=VALUE")
    return name, value


def default_budget(model: str, run: dict[str, Any] | None) -> int:
    """The run's own generation budget, or the one that a run of this model would have."""
    if run is not None:
        return int(run["sampling"]["max_new_tokens"])
    return model_defaults(model).max_new_tokens


def facts_of_data(task: Task, command: EvalCommand) -> dict[str, Any]:
    """Where a task's problems came from, where it says so."""
    describe_data = getattr(task, "provenance", None)
    return describe_data(command.split) if describe_data is not None else {}
