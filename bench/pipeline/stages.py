"""The stages of the R1 pipeline, each a folder that is named by all that it depends on.

    supervised   examples and a model         -> model     records as a run's, resumed from its checkpoint
    reinforced   a task, rewards and a model  -> model     a run of `python -m bench run`, resumed as one
    rejection    a task and a model           -> examples  resumed after the last problems asked
    judged       preference pairs and a model -> two learned rewards

A stage that stands is never made again: arms of an ablation share what they have in common, and a pipeline that was
stopped goes on where it was.
"""

import dataclasses
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from bench.config import EngineConfig, Sampling
from bench.ground.files import read_json, read_rows
from bench.ground.tree import Tree
from bench.pipeline import judges as learned
from bench.pipeline.examples import Example, split, write_data
from bench.pipeline.judges import READS, Judged
from bench.pipeline.measure import sampler
from bench.pipeline.methods import Imitation
from bench.pipeline.rejection import Ask, Rejection, in_words, kept, sampled
from bench.pipeline.reward_model import RewardTraining
from bench.pipeline.sizes import Sizes
from bench.pipeline.supervised import Fit, Trainee, encoded, fit
from bench.pipeline.workshop import Made, StageError, StoppedError
from bench.session.console import Interrupt
from bench.session.record import Recorder
from bench.session.run import resume, start
from bench.settings.flags import from_tree
from bench.settings.plugins import find_algorithm
from tasks import preferences
from tasks.core import Task


def supervised(folder: Path, location: str, examples: list[Example], settings: Fit, seed: int) -> Tree:
    """Supervised training on examples from the model at `location`."""
    train, held = split(examples)
    write_data(examples, folder / "data", {"start": Path(location).name, "seed": seed})
    trainee = Trainee(location, Imitation(), settings, EngineConfig(dtype="float32", train="torch", zero=0))
    recorder = Recorder(folder)
    with recorder.alone(), Interrupt() as interrupt:
        ended = fit(
            trainee,
            encoded(location, [e.texts for e in train]),
            encoded(location, [e.texts for e in held]),
            recorder,
            seed,
            lambda: interrupt.asked,
        )
        recorder.close({"status": "finished" if ended else "interrupted"})
    if ended is None:
        raise StoppedError
    rows = recorder.rows("evals")
    best = min(rows, key=lambda row: row["loss"])
    return {
        "num_train": len(train),
        "num_validation": len(held),
        "num_updates": len(recorder.rows("steps")),
        "validation_loss": {"first": rows[0]["loss"], "best": best["loss"], "at_update": best["step"]},
        "stopped_early": len(recorder.rows("steps")) < settings.num_updates,
    }


def reinforced(folder: Path, tree: Tree) -> Tree:
    """A run of reinforcement learning, begun, or gone on with where there is one."""
    runs = sorted((folder / "run").glob("*/config.json"))
    if not runs:
        code = start(from_tree({**tree, "out": folder / "run"}, "pipeline"))
    elif ended(runs[-1].parent) == "finished":
        code = 0
    else:
        code = resume(runs[-1].parent, quiet=True)
    (run,) = (path.parent for path in (folder / "run").glob("*/config.json"))
    if code == 130:
        raise StoppedError
    if code:
        raise StageError(f"{run} ended as '{ended(run)}'")
    steps = read_rows(run / "steps.jsonl")
    last = steps[-1]
    return {
        "run": run.name,
        "steps": len(steps),
        "samples_generated": last["data/samples_generated"],
        "updates": last["data/updates"],
        "reference_renewed": sum(row.get("actor/reference_renewed", 0.0) for row in steps),
        "memory_gib": {k: v for k, v in last.items() if k.startswith("memory/") and k.endswith("_gib")},
        "seconds": last["cost/device_s"],
    }


def ended(run: Path) -> str | None:
    """How a run ended; None where it has not."""
    summary = run / "summary.json"
    return str(read_json(summary).get("status")) if summary.exists() else None


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """What a rejection stage asks, and of whom."""

    location: str
    task: Task
    sampling: Sampling
    seed: int


def rejection(folder: Path, wanted: Sampled, settings: Rejection) -> Tree:
    """Several completions a problem, of which the right and readable ones become `kept.jsonl`.

    Raises:
        StageError: none survives; the pass rates are in the message.
    """
    problems = wanted.task.problems("train")[: settings.num_problems]
    ask = Ask(
        engine=sampler(wanted.location, problems, wanted.sampling.generation_budget),
        task=wanted.task,
        problems=problems,
        sampling=wanted.sampling,
        seed=wanted.seed,
        file=folder / "samples.jsonl",
    )
    with Interrupt() as interrupt:
        if not sampled(ask, settings, lambda: interrupt.asked):
            raise StoppedError
    found = kept(read_rows(folder / "samples.jsonl"), settings)
    if not found.kept:
        raise StageError(f"no sample survives. {in_words(found.facts)}")
    write_data(found.kept, folder / "data", {**found.facts, "sampled_from": Path(wanted.location).parent.name})
    return {**found.facts, "in_words": in_words(found.facts)}


def kept_examples(made: Made) -> list[Example]:
    """The examples that a rejection stage wrote."""
    return [Example(**row) for row in map(json.loads, (made.folder / "data" / "data.jsonl").read_text().splitlines())]


def judged(folder: Path, location: str, source: Path | None, settings: RewardTraining) -> Tree:
    """Both learned rewards, from the preference pairs."""
    pairs, held = (learned.pairs_of_task(source, part) for part in ("train", "validation"))
    whole, whole_held = ([row for pair in part for row in preferences.labelled(pair)] for part in (pairs, held))
    for name in READS:
        shutil.rmtree(folder / name, ignore_errors=True)
    helpful = learned.helpfulness(location, pairs, held, folder / "helpful", settings)
    harmful = learned.safety(location, whole, whole_held, folder / "harmful", settings)
    return {made.kind: {"mean": made.mean, "std": made.std, **made.facts} for made in (helpful, harmful)}


def judges_in(made: Made) -> dict[str, Judged]:
    """The learned rewards of a stage, by the kind of prompt that each is for."""
    facts = read_json(made.folder / "stage.json")["facts"]
    return {
        kind: Judged(
            kind=kind, path=made.folder / kind, mean=facts[kind]["mean"], std=facts[kind]["std"], facts=facts[kind]
        )
        for kind in READS
    }


def run_tree(method: str, sizes: Sizes, steps: int, temperature: float) -> Tree:
    """Settings of a run that a stage makes: what they do not give is a run's default. Stages are evaluated apart."""
    fields = {f.name for f in dataclasses.fields(find_algorithm(method))}
    tree: Tree = {
        "quiet": True,
        "eval": {"limit": 0, "num_samples": 0},
        "algo_name": method,
        "budget": f"steps={steps}",
        "samples_per_step": sizes.samples_per_step,
        "sampling": {"max_new_tokens": sizes.max_new_tokens, "temperature": temperature},
        "optimizer": {"lr": sizes.rl_lr},
        "critic": {"lr": sizes.critic_lr},
        "checkpoint_every": 4,
    }
    if "kl_coef" in fields and sizes.kl_coef:
        tree["algo"] = {"kl_coef": sizes.kl_coef}
        tree["reference_updates"] = sizes.reference_updates
    if sizes.micro_batch_tokens is not None:
        tree["engine"] = {"micro_batch_tokens": sizes.micro_batch_tokens}
    return tree
