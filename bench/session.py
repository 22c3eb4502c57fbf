"""One run from settings to summary: builds the parts, drives the loop, records, evaluates, resumes."""

import signal
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, Self, cast

import torch

from bench.config import Budget, RunConfig, UserError
from bench.console import Display, check_tracker, profile, tracker
from bench.engines.hf import HFRollout
from bench.engines.torch_train import TorchEngine
from bench.evaluate import describe, judge, problem_rows, summarise
from bench.meter import Meter
from bench.models import latest_checkpoint, load_model, load_tokenizer, locate, named_weights, pick_device
from bench.plugins import RewardedTask, imported
from bench.record import Recorder, provenance, read_json, write_json
from bench.rollout import Rollout
from bench.run import NoSignalError, Parts, State, train, used
from bench.settings import Chosen, Tree, fingerprint, from_tree, is_embedded, overlay, resolve
from bench.shape import ModelShape
from bench.stability import indices
from bench.train import DivergedError
from bench.work import Work, measured_peak
from tasks.core import DataError, Problem, Split, Task

EXIT_CODES = {"finished": 0, "diverged": 1, "no-signal": 1, "interrupted": 130}


class Interrupt(AbstractContextManager["Interrupt"]):
    """Ctrl-C asks for an end after the current step; a second one ends at once."""

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> Self:
        self._previous = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *error: object) -> None:
        signal.signal(signal.SIGINT, self._previous)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@dataclass(kw_only=True)
class Best:
    """The best validation accuracy so far, and the step it was seen at."""

    accuracy: float = -1.0
    step: int = -1


def start(chosen: Chosen) -> int:
    """Run from the beginning; returns the exit code."""
    chosen = resolve(chosen)
    session = Session(chosen)
    session.announce()
    path = run_path(chosen)
    recorder = Recorder.create(path)
    write_json(path / "config.json", session.tree)
    write_json(path / "provenance.json", session.provenance())
    return session.drive(recorder, State(algorithm=chosen.config.algo), Best())


def resume(path: Path, *, quiet: bool) -> int:
    """Go on from the last checkpoint of a run, exactly as if it had not been stopped.

    Raises:
        UserError: nothing to resume, a run that has ended, or a checkpoint of other settings.
    """
    tree = read_json(path / "config.json")
    summary = path / "summary.json"
    if summary.exists() and read_json(summary).get("status") != "interrupted":
        raise UserError(f"{path} has ended ({read_json(summary)['status']}): there is nothing to resume")
    del tree["arm"]  # follows from the rest
    chosen = from_tree(tree, str(path / "config.json"))
    chosen = replace(chosen, config=replace(chosen.config, quiet=quiet))
    session = Session(chosen)
    recorder = Recorder(path)
    state, best = State(algorithm=chosen.config.algo), Best()
    counts: dict[str, int] | None = None
    if (path / "checkpoint").is_dir() and any((path / "checkpoint").glob("step-*[0-9]")):
        state, best, counts = session.load(latest_checkpoint(path))
    recorder.rewind(counts)
    summary.unlink(missing_ok=True)
    session.display.say(f"resuming {path} after step {state.step}")
    return session.drive(recorder, state, best)


def run_path(chosen: Chosen) -> Path:
    """`<utc>-<arm>-<task>-<model>-s<seed>` below `--out`."""
    config = chosen.config
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    parts = (now, arm_name(chosen), chosen.task_name, Path(config.model).name, f"s{config.seed}")
    return config.out / "-".join(part.replace("/", "-").replace(":", ".") for part in parts)


def arm_name(chosen: Chosen) -> str:
    """The name in tables: the algorithm's unless given."""
    return chosen.config.name or chosen.algo_name


def within(problems: Sequence[Problem], limit: int | None) -> Sequence[Problem]:
    """The first `limit` problems, or all."""
    return problems if limit is None else problems[:limit]


class Session:
    """The parts of a run, loaded; nothing is written before they are all there."""

    def __init__(self, chosen: Chosen) -> None:
        config = chosen.config
        self.chosen = chosen
        self.display = Display(quiet=config.quiet)
        self.tree: Tree = {"arm": arm_name(chosen), **chosen.tree()}
        check_tracker(config.track)
        self.task = self._task()
        self.data = self._load_data()
        self.location = locate(config.model, chosen.task_name)
        self.device = pick_device(config.engine.device)
        self.meter = Meter(self.device)
        with self.meter.phase("load"):
            self.tokenizer = load_tokenizer(self.location)
            self.model = cast("Any", load_model(self.location)).to(self.device)
            self.rollout = HFRollout(self.model, self.tokenizer, config.engine)
            self.trainer = TorchEngine(
                self.model,
                self.tokenizer,
                needs=config.algo.needs,
                temperature=config.sampling.temperature,
                engine=config.engine,
                optimizer=config.optimizer,
                critic=config.critic,
            )
        self.load_cost = self.meter.take()
        self.trainer.clock.running = config.profile
        self.work = Work(self._shape(), measured_peak(self.device, config.engine.dtype))
        self.num_dropped = self._drop_long_prompts()

    @property
    def config(self) -> RunConfig:
        """The resolved settings."""
        return self.chosen.config

    def announce(self) -> None:
        """Say what will be done before doing it."""
        config, say = self.config, self.display.say
        if is_embedded(config.model):
            say("model    our small embedded one (--model takes another); what it shows need not hold for a large one")
        size = sum(p.numel() for p in self.model.parameters())
        say(f"         {config.model}: {size / 1e6:.2f}M parameters, {config.engine.dtype} on {self.device}")
        say(f"hardware preset {config.preset}")
        for split, problems in self.data.items():
            facts = self._provenance_of(split)
            origin = f" from {facts['origin']}, sha256 {facts['sha256'][:12]}" if facts else ""
            excluded = f", {facts['num_excluded']} unusable rows left out" if facts.get("num_excluded") else ""
            say(f"data     {self.chosen.task_name} {split}: {len(problems)} problems{origin}{excluded}")
        if self.num_dropped:
            say(f"         {self.num_dropped} problems dropped: prompts over {config.max_prompt_tokens} tokens")
        algo = config.algo
        models = [role for role in self.trainer.memory() if role in ("policy", "critic", "reference")]
        say(
            f"method   {self.chosen.algo_name}: {config.samples_per_step // algo.group_size} prompts x "
            f"{algo.group_size} a step, {algo.num_epochs * algo.num_minibatches} updates, lr {config.optimizer.lr:g}; "
            f"models in memory: {', '.join(models)}"
        )
        say(f"budget   {config.budget}, seed {config.seed}")

    def drive(self, recorder: Recorder, state: State, best: Best) -> int:
        """Loop to the end of the budget, or to what stops it; returns the exit code."""
        parts = Parts(
            config=self.config,
            task=self.task,
            problems=self.data["train"],
            rollout=self.rollout,
            trainer=self.trainer,
            meter=self.meter,
            work=self.work,
        )
        status, message, diverged_at = "finished", None, None
        with self.display, Interrupt() as interrupt:
            try:
                self._loop(recorder, parts, state, best, interrupt)
                status = "interrupted" if interrupt.asked else "finished"
            except DivergedError as error:
                diverged_at = state.step + 1
                status, message = "diverged", f"diverged in step {diverged_at}: {error}"
            except NoSignalError as error:
                status, message = "no-signal", f"step {state.step + 1}: {error}"
            except OSError as error:
                self.display.always(f"cannot write: {error}; free some space, then run --resume {recorder.path}")
                return 1
        rows = recorder.rows("steps")
        recorder.close(
            {
                "status": status,
                "steps": state.step,
                "message": message,
                "seconds": state.counters.get("cost/device_s", 0.0),
                "checkpoint": self.config.eval.checkpoint,
                "best_step": best.step if best.step >= 0 else None,
                "stability": indices(rows, diverged_at=diverged_at),
            }
        )
        if self.config.profile:
            self.display.always(profile(rows))
        if message:
            self.display.always(message)
        self.display.always(str(recorder.path))
        return EXIT_CODES[status]

    def _loop(self, recorder: Recorder, parts: Parts, state: State, best: Best, interrupt: Interrupt) -> None:
        config, budget = self.config, Budget.parse(self.config.budget)
        send = tracker(config.track, str(recorder.path), self.tree)
        if state.step == 0:
            self._evaluate(recorder, state, "test")
            self._validate(recorder, state, best)
        saved = state.step
        for step in train(parts, state):
            recorder.write("steps", step.row)
            recorder.write_many("completions", self._examples(step.row["step"], step.rollouts))
            self.display.step(step.row, used(budget, state))
            send(step.row)
            if config.eval.every and state.step % config.eval.every == 0:
                self._validate(recorder, state, best)
            if state.step % config.checkpoint_every == 0:
                self._checkpoint(recorder, state, best)
                saved = state.step
            if interrupt.asked:
                break
        if saved < state.step:
            self._checkpoint(recorder, state, best)
        if not interrupt.asked:
            if config.eval.checkpoint == "best":
                kept = load_model(str(recorder.path / "checkpoint" / f"best-{best.step:06d}"))
                self.rollout.load_weights(named_weights(cast("Any", kept).to(self.device)))
            self._evaluate(recorder, state, "test")

    def _validate(self, recorder: Recorder, state: State, best: Best) -> None:
        if not self.config.eval.every:
            return
        accuracy = self._evaluate(recorder, state, "validation")
        if self.config.eval.checkpoint == "best" and accuracy > best.accuracy:
            best.accuracy, best.step = accuracy, state.step
            folder = recorder.path / "checkpoint" / f"best-{state.step:06d}"
            self.trainer.save_model(folder)

    def _evaluate(self, recorder: Recorder, state: State, split: Split) -> float:
        config = self.config.eval
        if split not in self.data:
            return -1.0
        with self.meter.phase("evaluate"):
            verdicts = list(judge(self.rollout, self.task, self.data[split], config, self.config.sampling.budget))
        summary = summarise(verdicts, config.num_samples)
        place: Tree = {"step": state.step, "split": split, "task": self.chosen.task_name}
        recorder.write("evals", place | summary | state.counters | self.meter.take())
        recorder.write_many("eval_problems", (place | row for row in problem_rows(verdicts)))
        self.display.say(f"step {state.step:>4}  {split}: {describe(summary)}")
        return summary["accuracy"]

    def _examples(self, step: int, rollouts: Sequence[Rollout]) -> list[Tree]:
        """The first completions of a step, to be read by people."""
        return [
            {
                "step": step,
                "problem": r.problem.id,
                "prompt": r.problem.prompt,
                "completion": r.completion.text,
                "finish_reason": r.completion.finish_reason,
                "reference": r.problem.reference,
                "reward": r.score.reward,
                "correct": r.score.correct,
                "answer": r.score.answer,
                "error": r.score.error,
            }
            for r in rollouts[: self.config.completions_per_step]
        ]

    def _checkpoint(self, recorder: Recorder, state: State, best: Best) -> None:
        counts = recorder.counts()

        def save(folder: Path) -> None:
            self.trainer.save_model(folder / "model")
            content = {
                "fingerprint": fingerprint(self.tree),
                "step": state.step,
                "position": state.position,
                "counters": state.counters,
                "algo": dict(vars(state.algorithm)),
                "best": vars(best),
                "counts": counts,
                "trainer": self.trainer.state(),
            }
            torch.save(content, folder / "state.pt")

        recorder.checkpoint(state.step, save, keep=f"best-{best.step:06d}")

    def load(self, folder: Path) -> tuple[State, Best, dict[str, int]]:
        """A checkpoint's content, the engine's part taken up.

        Raises:
            UserError: it is of other settings, or cannot be read.
        """
        try:
            content = torch.load(folder / "state.pt", map_location=self.device, weights_only=True)
        except (OSError, RuntimeError, EOFError, ValueError) as error:
            raise UserError(f"{folder}: the checkpoint cannot be read: {str(error).splitlines()[0]}") from error
        if content["fingerprint"] != fingerprint(self.tree):
            raise UserError(f"{folder} is a checkpoint of other settings than {folder.parent.parent / 'config.json'}")
        self.trainer.load_state(content["trainer"])
        state = State(
            algorithm=overlay(self.config.algo, content["algo"], str(folder)),
            step=content["step"],
            position=content["position"],
            counters=content["counters"],
        )
        return state, Best(**content["best"]), content["counts"]

    def provenance(self) -> Tree:
        """What stands behind the run's figures."""
        return {
            **provenance(self.device),
            "model": {"name": self.config.model, "location": self.location, "parameters": self.model.num_parameters()},
            "data": {split: self._provenance_of(split) for split in self.data},
            "num_dropped_prompts": self.num_dropped,
            "preset": self.config.preset,
            "peak_flops_per_s": self.work.peak_per_s,
            "load": self.load_cost,
        }

    def _provenance_of(self, split: str) -> Tree:
        describe = getattr(self.config.task, "provenance", None)
        return describe(split) if describe is not None else {}

    def _task(self) -> Task:
        if self.config.reward is None:
            return self.config.task
        return RewardedTask(self.config.task, imported(self.config.reward, "--reward"))

    def _load_data(self) -> dict[Split, Sequence[Problem]]:
        evaluation = self.config.eval
        try:
            data: dict[Split, Sequence[Problem]] = {"train": self.task.problems("train")}
            if evaluation.every:
                data["validation"] = within(self.task.problems("validation"), evaluation.validation_limit)
            if evaluation.limit != 0:
                data["test"] = within(self.task.problems("test"), evaluation.limit)
        except DataError as error:
            raise UserError(str(error)) from error
        for split, problems in data.items():
            if not problems:
                raise UserError(f"{self.chosen.task_name}: no {split} problems")
        return data

    def _drop_long_prompts(self) -> int:
        """Refuse or drop prompts over the limit. A prompt has at most as many tokens as bytes, so few are encoded."""
        config = self.config
        room = config.max_prompt_tokens
        positions = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        if positions is not None:
            room = min(room, positions - config.sampling.budget)
        overhead = len(self.rollout.encode(""))
        if room <= overhead:
            raise UserError(
                f"--sampling.max-new-tokens {config.sampling.budget} leaves no room for a prompt: "
                f"the model takes {positions} tokens in all"
            )
        num_dropped = 0
        for split, problems in self.data.items():
            kept: list[Problem] = []
            for problem in problems:
                if len(problem.prompt.encode()) + overhead <= room or len(self.rollout.encode(problem.prompt)) <= room:
                    kept.append(problem)
                elif config.long_prompts == "refuse":
                    raise UserError(
                        f"{problem.id}: its prompt is over {room} tokens; raise --max-prompt-tokens (up to what the "
                        "model takes beside --sampling.max-new-tokens), or use --long-prompts drop"
                    )
            num_dropped += len(problems) - len(kept)
            if not kept:
                raise UserError(f"every {split} prompt is over {room} tokens")
            self.data[split] = kept
        return num_dropped

    def _shape(self) -> ModelShape | None:
        """Sizes to count work by; None for an architecture whose work is not counted."""
        try:
            return ModelShape.from_config(self.model.config)
        except ValueError:
            return None
