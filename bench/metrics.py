"""What a step's rows say, by one definition for every algorithm."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from algorithms import credit, ops
from algorithms.core import Batch, Targets, required
from bench.batch import scored
from bench.rollout import Rollout
from tasks.behaviours import BEHAVIOURS, Exact, observed
from tasks.core import Task

Row = dict[str, Any]
MIN_GROUPS = 2  # on either side, for a spread
UNREAD = ("no-answer", "unparseable")  # errors of a completion in which no answer could be read


def rollout_metrics(rollouts: Sequence[Rollout], group_size: int) -> Row:
    """Of everything that was generated, whatever is trained on: rewards before any shaping, verdicts, lengths."""
    scores = scored(rollouts, 0)
    rewards, correct = scores.rewards, scores.correct.float()
    row: Row = {
        "reward/mean": float(rewards.mean()),
        "reward/std": float(rewards.std()) if len(rewards) > 1 else None,
        "reward/max": float(rewards.max()),
        "reward/correct_frac": float(correct.mean()),
        "prompt/length_mean": mean_of([len(r.prompt_ids) for r in rollouts]),
        "prompt/length_max": float(max(len(r.prompt_ids) for r in rollouts)),
        "prompt/repeated_frac": mean_of([r.occurrence > 0 for r in rollouts]),
        "completion/length_mean": float(scores.lengths.float().mean()),
        "completion/length_std": float(scores.lengths.float().std()) if len(rollouts) > 1 else None,
        "completion/length_max": float(scores.lengths.max()),
        "completion/truncated_frac": float(scores.truncated.float().mean()),
        "completion/format_frac": mean_of([r.score.format_ok for r in rollouts]),
        "completion/language_frac": mean_of([r.score.language for r in rollouts]),
        "verifier/parse_fail_frac": mean_of([r.score.error in UNREAD for r in rollouts]),
        "verifier/timeout_frac": mean_of([r.score.error == "timeout" for r in rollouts]),
        "verifier/error_frac": mean_of([r.score.error is not None for r in rollouts]),
    }
    row |= reward_parts(rollouts) | by_kind(rollouts)
    for rule, count in Counter(r.score.rule for r in rollouts if r.score.rule is not None).items():
        row[f"verifier/rule/{rule}"] = count / len(rollouts)
    if group_size > 1:
        rate = ops.group_mean(correct, scores.group)
        row |= {
            "reward/informative_frac": float(((rate > 0) & (rate < 1)).float().mean()),
            "reward/informative_predicted_frac": informative(float(correct.mean()), group_size),
            "reward/distinct_correct": distinct_correct(rollouts),
            "reward/solve_frac": float((rate > 0).float().mean()),
            "reward/frac_all_correct_groups": float((rate == 1).float().mean()),
            "reward/frac_all_wrong_groups": float((rate == 0).float().mean()),
            "reward/frac_zero_std_groups": float((ops.spread(rewards, scores.group, "population") == 0).float().mean()),
        }
    return row


def informative(rate: float, group_size: int) -> float:
    """Share of groups with right and wrong completions where all prompts are right at one rate: 1 - p^G - (1-p)^G."""
    return 1 - rate**group_size - (1 - rate) ** group_size


def distinct_correct(rollouts: Sequence[Rollout]) -> float | None:
    """Different right completions of a group, by their text, mean over the groups that have one."""
    found: dict[tuple[str, int], set[str]] = {}
    for r in rollouts:
        if r.score.correct:
            found.setdefault((r.problem.id, r.occurrence), set()).add(r.completion.text)
    return mean_of(len(texts) for texts in found.values())


def selection_metrics(generated: Sequence[Rollout], trained: Sequence[Rollout]) -> Row:
    """What is trained on against what was generated, where a method leaves groups out: the shift in lengths and in
    right answers, each with its z score over groups; absent where all of them are trained on.
    """
    kept = {(r.problem.id, r.occurrence) for r in trained}
    groups: dict[tuple[str, int], list[Rollout]] = {}
    for r in generated:
        groups.setdefault((r.problem.id, r.occurrence), []).append(r)
    if len(kept) == len(groups):
        return {}
    row: Row = {}
    measures: dict[str, Callable[[Rollout], float]] = {
        "length": lambda r: len(r.completion.token_ids),
        "correct": lambda r: r.score.correct,
    }
    for name, measure in measures.items():
        means = {key: sum(map(measure, group)) / len(group) for key, group in groups.items()}
        inside = [mean for key, mean in means.items() if key in kept]
        outside = [mean for key, mean in means.items() if key not in kept]
        row[f"selection/{name}_shift"] = sum(inside) / len(inside) - sum(means.values()) / len(means)
        row[f"selection/{name}_z"] = z_score(inside, outside)
    return row


def z_score(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Difference of two means over its standard error (Welch's); None where it has none."""
    if min(len(first), len(second)) < MIN_GROUPS:
        return None
    squared = statistics.variance(first) / len(first) + statistics.variance(second) / len(second)
    return (statistics.fmean(first) - statistics.fmean(second)) / squared**0.5 if squared > 0 else None


def reward_parts(rollouts: Sequence[Rollout]) -> Row:
    """What rules and a learned model each gave, before their weights; absent without a model."""
    scores = [r.model_reward for r in rollouts if r.model_reward is not None]
    if not scores:
        return {}
    return {
        "reward/rules_mean": mean_of([r.rules_reward for r in rollouts]),
        "reward/model_mean": mean_of(scores),
        "reward/model_std": float(torch.tensor(scores).std()) if len(scores) > 1 else None,
    }


def by_kind(rollouts: Sequence[Rollout]) -> Row:
    """Rewards by the kind of prompt, each part of them; nothing where the task has no kinds."""
    kinds = {r.problem.meta["kind"] for r in rollouts if "kind" in r.problem.meta}
    row: Row = {}
    for kind in sorted(kinds):
        mine = [r for r in rollouts if r.problem.meta.get("kind") == kind]
        row[f"reward/by_kind/{kind}"] = mean_of([r.score.reward for r in mine])
        row[f"reward/model_by_kind/{kind}"] = mean_of([r.model_reward for r in mine])
        row[f"reward/gold_by_kind/{kind}"] = mean_of([r.score.gold for r in mine])
    return row


def behaviour_metrics(task: Task, rollouts: Sequence[Rollout]) -> Row:
    """Signs of reasoning in right and in wrong completions, by completion and by 100 tokens: length adds to counts."""
    row: Row = {"behaviour/exact": float(isinstance(task, Exact))}
    for verdict, name in ((True, "right"), (False, "wrong")):
        group = [r for r in rollouts if r.score.correct is verdict]
        if not group:
            continue
        counts = [observed(task, r.problem, r.completion.text) for r in group]
        tokens = sum(len(r.completion.token_ids) for r in group)
        for behaviour in BEHAVIOURS:
            total = sum(count[behaviour] for count in counts)
            row[f"behaviour/{name}/{behaviour}"] = total / len(group)
            row[f"behaviour/{name}_per_100_tokens/{behaviour}"] = 100 * total / tokens
    return row


def batch_metrics(batch: Batch, kept: Sequence[Rollout]) -> Row:
    """Of what is trained on: how far the sampler is from the trainer, and how much top-p and top-k cut."""
    difference = batch.old_logprobs - batch.rollout_logprobs
    error = (batch.old_logprobs.exp() - batch.rollout_logprobs.exp()).abs()
    row: Row = {
        "rollout/mismatch_kl": token_mean(ops.kl(batch.rollout_logprobs, batch.old_logprobs, "k3"), batch.mask),
        "rollout/mismatch_max": float(difference.abs().max()),
        "rollout/prob_error_mean": token_mean(error, batch.mask),
        "rollout/prob_error_max": float(error[batch.mask].max()),
    }
    cut = [a - b for r in kept for a, b in zip(r.completion.sampling_logprobs, r.completion.logprobs, strict=True)]
    row["rollout/truncation_gap_mean"] = sum(cut) / len(cut)
    return row


def advantage_metrics(batch: Batch, targets: Targets) -> Row:
    """Whether credit is given by token: 0 where every token of a completion gets the same."""
    counts = batch.mask.sum(1)
    means = (targets.advantages * batch.mask).sum(1) / counts
    squares = ((targets.advantages - means[:, None]).square() * batch.mask).sum(1) / counts
    return {"actor/advantage_within_std": float(squares.sqrt().mean())}


def critic_metrics(batch: Batch, targets: Targets) -> Row:
    """How good the critic's values were before the update; absent without a critic."""
    if batch.values is None or targets.returns is None:
        return {}
    return error_by_position(batch) | {
        "critic/explained_variance": explained_variance(batch, targets),
        "critic/explained_beyond_position": explained_beyond_position(batch, targets),
        "critic/value_mean": token_mean(batch.values, batch.mask),
        "critic/return_mean": token_mean(targets.returns, batch.mask),
    }


def error_by_position(batch: Batch) -> Row:
    """Mean |value - Monte-Carlo return| by tenths of the completion: `critic/error_at/0.1` is its first tenth.

    The return is the trained reward that is still to come, undiscounted, without what a KL in the reward costs.
    """
    errors = (required(batch.values) - to_go(batch)).abs()
    steps = torch.arange(batch.mask.shape[1])
    tenth = (10 * steps / batch.lengths[:, None]).long()  # (B, T)
    row: Row = {}
    for i in range(10):
        here = batch.mask & (tenth == i)
        if here.any():
            row[f"critic/error_at/{(i + 1) / 10}"] = token_mean(errors, here)
    return row


def to_go(batch: Batch) -> Tensor:
    """(B, T) the reward from each token on."""
    return credit.paid(batch.rewards, batch.token_rewards, batch.mask).flip(1).cumsum(1).flip(1)


def explained_beyond_position(batch: Batch, targets: Targets) -> float | None:
    """1 - mean squared error over that of the mean return at each position: what a critic knows beside the place.

    Negative where the place alone tells more. None where positions explain all there is.
    """
    returns, values, mask = required(targets.returns), required(batch.values), batch.mask
    at_position = (returns * mask).sum(0) / mask.sum(0).clamp(min=1)
    left = float(((returns - at_position)[mask] ** 2).sum())
    return 1 - float(((returns - values)[mask] ** 2).sum()) / left if left > 0 else None


def token_mean(x: Tensor, mask: Tensor) -> float:
    """Mean over generated tokens."""
    return float(x[mask].mean())


def mean_of(values: Iterable[float | bool | None]) -> float | None:
    """Mean of what is known; None where nothing is."""
    known = [float(v) for v in values if v is not None]
    return sum(known) / len(known) if known else None


def explained_variance(batch: Batch, targets: Targets) -> float | None:
    """1 - Var(returns - values) / Var(returns) over generated tokens; None where the returns do not vary."""
    returns, values = required(targets.returns)[batch.mask], required(batch.values)[batch.mask]
    variance = float(returns.var())
    return 1 - float((returns - values).var()) / variance if variance > 0 else None
