"""One run driven through its loop: records, evaluations, checkpoints, and how it ends."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from torch import Tensor

from bench.evaluate import describe, judge, problem_rows, summarise
from bench.gather import NoSignalError
from bench.ground.errors import lacks_room
from bench.ground.sums import SUMS, seal, verify
from bench.ground.tree import Tree
from bench.loop import State, train, used
from bench.meter import is_out_of_memory
from bench.models.load import load_model, weights_for
from bench.planner.remedy import advice
from bench.ranks import first_to_tell, lost_peer
from bench.rollout import EngineError, Rollout
from bench.scoring import ScoreError
from bench.session import checkpoint
from bench.session.checkpoint import Best, best_folder
from bench.session.console import Display, Interrupt, open_tracker, profile_of_steps
from bench.session.loaded import Loaded
from bench.session.record import Recorder
from bench.settings.resolve import hardware_of
from bench.stability import indices
from bench.train import DivergedError
from tasks.behaviours import observed
from tasks.core import Split

Weights = Iterator[tuple[str, Tensor]]
EXIT_CODES = {"finished": 0, "diverged": 1, "no-signal": 1, "interrupted": 130}


def out_of_memory(error: Exception, loaded: Loaded) -> str:
    """In which phase, for which model, and what to change."""
    place: list[str] = error.__notes__
    remedy = advice(loaded.config, loaded.work.shape, hardware_of(loaded.config, loaded.ranks.size), place)
    return f"out of memory in {' of '.join(reversed(place))}; {remedy}"


def system_error(error: OSError, step: int) -> str:
    """What the system refused; where it was room, what to do about it."""
    if lacks_room(error):
        return f"cannot write: {error}; free some space"
    return f"step {step}: {type(error).__name__}: {error}"


class Session:
    """Drives one run: the loop, its records, its evaluations."""

    def __init__(self, loaded: Loaded, recorder: Recorder, display: Display) -> None:
        self.loaded = loaded
        self.ranks = loaded.ranks
        self.config = loaded.config
        self.recorder = recorder
        self.display = display

    def drive(self, state: State, best: Best) -> int:
        """Loop to the end of the budget, or to what stops it; returns the exit code.

        Raises:
            UserError: another process writes this run.
            ScoreError: a reward gave nothing that can be learnt from; the run has not ended by it.
        """
        with self.recorder.alone():
            try:
                return self._drive(state, best)
            except ScoreError as error:
                raise ScoreError(f"step {state.step + 1}: {error}; mend it, then {self._how_to_go_on()}") from error

    def _drive(self, state: State, best: Best) -> int:
        recorder = self.recorder
        status, message, diverged_at = "finished", None, None
        with self.display, Interrupt() as interrupt:
            try:
                status = "interrupted" if self._loop(state, best, interrupt) else "finished"
            except DivergedError as error:
                diverged_at = state.step + 1
                status, message = "diverged", f"diverged in step {diverged_at}: {error}"
            except NoSignalError as error:
                status, message = "no-signal", f"step {state.step + 1}: {error}"
            except EngineError as error:
                return self._fail(f"step {state.step + 1}: {error}{self._log_of(error)}; {self._how_to_go_on()}")
            except OSError as error:
                return self._fail(f"{system_error(error, state.step + 1)}; {self._how_to_go_on()}")
            except RuntimeError as error:
                if is_out_of_memory(error):
                    return self._fail(f"step {state.step + 1}: {out_of_memory(error, self.loaded)}")
                if lost_peer(error):
                    return self._fail(f"step {state.step + 1}: another process has ended; {self._how_to_go_on()}")
                raise
        rows = recorder.rows("steps")
        recorder.close(
            {
                "status": status,
                "steps": state.step,
                "message": message,
                "seconds": state.counters["cost/device_s"],
                "checkpoint": self.config.eval.checkpoint,
                "best_step": best.step,
                "stability": indices(rows, diverged_at=diverged_at),
            }
        )
        if self.config.profile:
            self.display.always(profile_of_steps(rows))
        if message:
            self.display.always(message)
        self.display.always(str(recorder.path))
        return EXIT_CODES[status]

    def _fail(self, message: str) -> int:
        """One process tells it; the launcher then ends the others, which wait for this one."""
        if first_to_tell():
            self.display.alarm(message)
        return 1

    def _log_of(self, error: EngineError) -> str:
        """Keep what the engine's process wrote, if it has one, and say where."""
        if not error.log:
            return ""
        path = self.recorder.path / "engine.log"
        path.write_text(error.log, encoding="utf-8")
        return f"; what it wrote is in {path}"

    def _how_to_go_on(self) -> str:
        with_launch = ", by the same launch" if self.ranks.size > 1 else ""
        return f"go on from the last checkpoint{with_launch}: python -m bench run --resume {self.recorder.path}"

    def _loop(self, state: State, best: Best, interrupt: Interrupt) -> bool:
        """Returns whether it was interrupted."""
        config, recorder, budget = self.config, self.recorder, self.config.parsed_budget
        send = open_tracker(config.track if self.ranks.leads else "none", str(recorder.path), self.loaded.tree)
        if state.step == 0:
            self._evaluate(state, "test")
            self._validate(state, best)
        saved, stopped = state.step, False
        for step in train(self.loaded.parts(), state):
            recorder.write("steps", step.row)
            recorder.write_many("completions", self._examples(step.row["step"], step.rollouts))
            self.display.step(step.row, used(budget, state))
            send(step.row)
            if config.eval.every and state.step % config.eval.every == 0:
                self._validate(state, best)
            if state.step % config.checkpoint_every == 0:
                checkpoint.save_checkpoint(recorder, self.loaded, state, best)
                saved = state.step
            stopped = self.ranks.any(interrupt.asked)
            if stopped:
                break
        if saved < state.step:
            checkpoint.save_checkpoint(recorder, self.loaded, state, best)
        if not stopped:
            if config.eval.every and state.step % config.eval.every:
                self._validate(state, best)  # so that every curve reaches the end of its run
            if config.eval.checkpoint == "best" and best.step is not None:
                verify(recorder.path / "checkpoint" / best_folder(best.step))
                kept = load_model(str(recorder.path / "checkpoint" / best_folder(best.step)))
                kept = cast("Any", kept).to(self.loaded.device)
                self._evaluate(state, "test", weights_for(config.engine.rollout, kept))
            else:
                self._evaluate(state, "test")
        return stopped

    def _validate(self, state: State, best: Best) -> None:
        if not self.config.eval.every:
            return
        accuracy = self._evaluate(state, "validation")
        if self.config.eval.checkpoint == "best" and accuracy is not None and best.is_beaten_by(accuracy):
            best.accuracy, best.step = accuracy, state.step
            folder = self.recorder.path / "checkpoint" / best_folder(state.step)
            self.loaded.trainer.save_model(folder)
            self.ranks.meet()
            if self.ranks.leads:
                seal(folder, [file for file in folder.rglob("*") if file.is_file() and file.name != SUMS])
            self.ranks.meet()

    def _evaluate(self, state: State, split: Split, weights: Weights | None = None) -> float | None:
        """Judge the policy, or these weights; greedy accuracy, and None where the run does not look at this split."""
        loaded = self.loaded
        config = replace(self.config.eval, num_samples=self.config.eval.samples_on(split))
        if split not in loaded.data:
            return None
        with loaded.meter.phase("evaluate"):
            loaded.sampler.load_weights(weights or loaded.trainer.weights())
            problems = self.ranks.share(loaded.data[split])
            mine = list(judge(loaded.sampler, loaded.task, problems, config, self.config.sampling.generation_budget))
            verdicts = self.ranks.collect(mine)
            loaded.sampler.sleep()
        summary = summarise(verdicts, config.num_samples)
        place: Tree = {"step": state.step, "split": split, "task": loaded.chosen.task_name}
        self.recorder.write("evals", place | summary | state.counters | loaded.meter.take())
        self.recorder.write_many("eval_problems", (place | row for row in problem_rows(verdicts)))
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
                "rules_reward": r.rules_reward,
                "model_reward": r.model_reward,
                "correct": r.score.correct,
                "answer": r.score.answer,
                "error": r.score.error,
                "behaviours": dict(observed(self.config.task, r.problem, r.completion.text)),
            }
            for r in rollouts[: self.config.completions_per_step]
        ]
