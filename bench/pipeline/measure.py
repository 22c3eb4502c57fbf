"""What a checkpoint of the pipeline can do: accuracy, form, language, preferences, refusals, length, behaviours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from bench.config import EngineConfig, EvalConfig
from bench.engines.build import rollout_engine
from bench.evaluate import Verdicts, judge, summarise
from bench.metrics import behaviour_metrics, mean_of
from bench.models.load import load_model, load_tokenizer, pick_device
from bench.models.text import encode_prompt
from bench.pipeline.judges import Judged
from bench.rollout import Rollout, RolloutEngine
from tasks.core import Problem, Task

Figures = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Exam:
    """What every checkpoint is asked, and by whom it is judged."""

    task: Task
    helpful: Task
    others: Mapping[str, Task]  # outside the pipeline's family
    num_problems: int
    num_samples: int
    num_others: int
    max_new_tokens: int
    judges: Mapping[str, Judged]  # "helpful", "harmful": by the kind of prompt; empty where none was trained


def sampler(location: str, problems: Sequence[Problem], max_new_tokens: int) -> RolloutEngine:
    """An engine that answers these problems by the model at `location`."""
    where = EngineConfig()
    model = cast("Any", load_model(location)).to(pick_device(where.device))
    tokenizer = load_tokenizer(location)
    longest = max(len(encode_prompt(tokenizer, problem.prompt)) for problem in problems) + max_new_tokens
    return rollout_engine(where, model, tokenizer, location, longest=longest)


def measure(location: str, exam: Exam) -> dict[str, Any]:
    """The figures of one checkpoint; what cannot be judged is absent."""
    problems = exam.task.problems("test")[: exam.num_problems]
    general = exam.helpful.problems("test")[: exam.num_problems]
    others = {name: task.problems("test")[: exam.num_others] for name, task in exam.others.items()}
    engine = sampler(
        location, [*problems, *general, *(p for part in others.values() for p in part)], exam.max_new_tokens
    )
    settings = EvalConfig(num_samples=exam.num_samples)
    verdicts = list(judge(engine, exam.task, problems, settings, exam.max_new_tokens))
    summary = summarise(verdicts, exam.num_samples)
    found: dict[str, Any] = {name: value for name, value in summary.items() if isinstance(value, float | int)}
    samples = [r for v in verdicts for r in v.sampled] or greedy(verdicts)
    found["language"] = mean_of(r.score.language for r in samples)
    found |= {
        name: value for name, value in behaviour_metrics(exam.task, samples).items() if name.startswith("behaviour")
    }
    found |= of_general(
        list(judge(engine, exam.helpful, general, EvalConfig(num_samples=0), exam.max_new_tokens)), exam
    )
    for name, part in others.items():
        rows = list(judge(engine, exam.others[name], part, EvalConfig(num_samples=0), exam.max_new_tokens))
        found[f"outside/{name}"] = summarise(rows, 0)["accuracy"]
    found["examples"] = [shown(r) for r in greedy(verdicts)[:2]]
    return found


def greedy(verdicts: Sequence[Verdicts]) -> list[Rollout]:
    """The greedy completions."""
    return [v.greedy for v in verdicts if v.greedy is not None]


def of_general(verdicts: Sequence[Verdicts], exam: Exam) -> dict[str, Any]:
    """Refusals where they are due and where they are not, the gold reward, and what the learned rewards say."""
    by_kind = {kind: [r for r in greedy(verdicts) if r.problem.meta["kind"] == kind] for kind in ("helpful", "harmful")}
    found: dict[str, Any] = {}
    for kind, rollouts in by_kind.items():
        found[f"general/refused_{kind}"] = mean_of(r.score.rule == "refusal" for r in rollouts)
        found[f"general/gold_{kind}"] = mean_of(r.score.gold for r in rollouts)
        if kind in exam.judges and rollouts:
            judged = exam.judges[kind]
            found[f"general/model_{kind}"] = float((judged.scores(rollouts).mean() - judged.mean) / judged.std)
    found["general/length_mean"] = mean_of(len(r.completion.token_ids) for part in by_kind.values() for r in part)
    return found


def shown(rollout: Rollout) -> dict[str, Any]:
    """A completion to be read."""
    return {
        "prompt": rollout.problem.prompt,
        "completion": rollout.completion.text,
        "correct": rollout.score.correct,
        "language": rollout.score.language,
    }
