"""A learned reward: how it is read, how it is mixed, and that four roles train with it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import LlamaForSequenceClassification

from bench.cli import main
from bench.config import EngineConfig, RewardModelConfig, Sampling
from bench.engines.hf import HFRollout
from bench.engines.reward import ClassifierReward, padding
from bench.ground.errors import UserError
from bench.ground.words import GIB
from bench.metrics import reward_parts, rollout_metrics
from bench.models import flops
from bench.models.load import load_model, load_tokenizer
from bench.models.shape import ModelShape
from bench.pipeline.reward_model import (
    Pair,
    RewardTraining,
    pair_accuracy,
    pair_loss,
    pairs_of,
    train_reward_model,
)
from bench.ranks import ALONE
from bench.reward import Conversation, Route, rewarded, routed
from bench.rollout import Rollout, generate, score
from bench.settings.flags import parse
from bench.settings.resolve import resolve
from bench.work import scoring_work
from tasks import TASKS
from tests.bench.pipeline.classifiers import GSM8K, classifier
from tests.bench.small_runs import SMALL, rows, run
from tests.bench.support import rollout

TALKS: list[Conversation] = [("What is 1 + 2?", "It is 3."), ("Why?", "Because it is so, and always was."), ("a", "")]


class Fixed:
    """Scores from a list."""

    shape = None

    def __init__(self, scores: Sequence[float]) -> None:
        self.scores = torch.tensor(scores)
        self.seen: list[Conversation] = []

    def score(self, conversations: Sequence[Conversation]) -> Tensor:
        self.seen += conversations
        return self.scores

    def memory(self) -> int:
        return 0

    def take_lengths(self) -> list[int]:
        return []


def engine(location: str, micro_batch_tokens: int = 1000) -> ClassifierReward:
    return ClassifierReward(location, torch.device("cpu"), "float32", micro_batch_tokens)


# --- the mixture


@pytest.mark.parametrize(
    ("config", "rewards"),
    [
        (RewardModelConfig(path="x"), [2.0, -1.0, 0.5]),  # the model alone
        (RewardModelConfig(path="x", rules_weight=1.0, weight=0.5), [2.1, -0.5, 1.25]),
        (RewardModelConfig(path="x", rules_weight=2.0, weight=1.0, mean=0.5, std=0.5), [2.2 + 3.0, 0.0 - 3.0, 2.0]),
        (RewardModelConfig(path="x", rules_weight=1.0, weight=0.0), [1.1, 0.0, 1.0]),  # rules alone
    ],
)
def test_rewards_by_hand(config: RewardModelConfig, rewards: list[float]) -> None:
    rules = [1.1, 0.0, 1.0]
    made = [rollout(f"p{i}", reward=r, correct=r > 0.5) for i, r in enumerate(rules)]
    scorer = Fixed([2.0, -1.0, 0.5])
    mixed = rewarded(made, Route(scorer, config))
    assert [r.score.reward for r in mixed] == pytest.approx(rewards)
    assert [r.score.correct for r in mixed] == [True, False, True]  # the task's verdict stands
    assert scorer.seen == [("q", "t")] * 3
    parts = reward_parts(mixed)
    assert parts["reward/rules_mean"] == pytest.approx(0.7)
    assert parts["reward/model_mean"] == pytest.approx(0.5)
    assert parts["reward/model_std"] == pytest.approx(1.5)
    assert reward_parts(made) == {}


def asked(kind: str | None, text: str, reward: float) -> Rollout:
    plain = rollout(reward=reward)
    problem = replace(plain.problem, meta={} if kind is None else {"kind": kind})
    return replace(plain, problem=problem, completion=replace(plain.completion, text=text))


def test_each_kind_of_prompt_has_its_own_reward_and_its_parts_are_kept() -> None:
    """A problem keeps its rules; helpful summaries and whole harmful completions go each to its model."""
    made = [
        asked("reasoning", "<think>a</think>1", 1.1),
        asked("helpful", "<think>b</think>Dear Mia.", 0.1),
        asked("harmful", "<think>c</think>No.", 0.05),
        asked("helpful", "Hello.", 0.0),
        asked(None, "d", 0.7),
    ]
    helpful, harmful = Fixed([2.0, -1.0]), Fixed([4.0])
    config = RewardModelConfig(path="x", rules_weight=1.0, mean=1.0, std=2.0, kinds=("helpful",), reads="summary")
    routes = [
        Route(helpful, config),
        Route(harmful, RewardModelConfig(path="y", weight=0.5, kinds=("harmful",))),
    ]
    judged = routed(made, routes)
    assert [r.score.reward for r in judged] == pytest.approx([1.1, 0.1 + 0.5, 2.0, 0.0 - 1.0, 0.7])
    assert [r.model_reward for r in judged] == [None, 2.0, 4.0, -1.0, None]
    assert [r.rules_reward for r in judged] == [None, 0.1, 0.05, 0.0, None]
    assert helpful.seen == [("q", "Dear Mia."), ("q", "Hello.")]
    assert harmful.seen == [("q", "<think>c</think>No.")]
    row = rollout_metrics(judged, 1)
    assert row["reward/by_kind/helpful"] == pytest.approx(-0.2)
    assert row["reward/model_by_kind/helpful"] == pytest.approx(0.5)
    assert row["reward/model_by_kind/reasoning"] is None


def test_two_models_for_one_kind_are_refused() -> None:
    both = ["--reward-model", "a", "--safety-model", "b"]
    with pytest.raises(UserError, match="would judge the same prompts"):
        resolve(parse(both))
    with pytest.raises(UserError, match="would judge the same prompts"):
        resolve(parse([*both, "--reward-model.kinds", "x", "y", "--safety-model.kinds", "y"]))
    resolve(parse([*both, "--reward-model.kinds", "x", "--safety-model.kinds", "y"]))
    with pytest.raises(UserError, match="give --safety-model PATH"):
        resolve(parse(["--safety-model.weight", "2"]))


# --- how a text is read


def test_a_score_is_the_classifiers_own_and_depends_on_no_other_row(tmp_path: Path) -> None:
    location = classifier(tmp_path)
    model, tokenizer = LlamaForSequenceClassification.from_pretrained(location).eval(), load_tokenizer(location)
    expected: list[float] = []
    for prompt, completion in TALKS:
        text = f"<|user|>{prompt}<|assistant|>{completion}<|end|>"
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        expected.append(model(input_ids=ids).logits.item())
    assert max(expected) - min(expected) > 0.01
    for micro_batch_tokens in (1, 60, 1000):  # one by one, some, all at once
        assert engine(location, micro_batch_tokens).score(TALKS).tolist() == pytest.approx(expected, abs=1e-5)


def test_a_classifier_without_padding_is_given_the_tokenizers_where_that_ends_no_text(tmp_path: Path) -> None:
    location = classifier(tmp_path, pad=None)
    scorer = engine(location)
    assert scorer.pad == load_tokenizer(location).pad_token_id
    one_by_one = torch.cat([engine(location).score([talk]) for talk in TALKS])
    assert torch.allclose(scorer.score(TALKS), one_by_one, atol=1e-5)
    scorer.model.config.pad_token_id = None
    scorer.tokenizer.pad_token = scorer.tokenizer.eos_token  # as many tokenizers have it
    assert padding(scorer.model, scorer.tokenizer) is None
    scorer.pad = None
    assert torch.allclose(scorer.score(TALKS), one_by_one, atol=1e-5)


def test_without_a_template_the_texts_follow_each_other(tmp_path: Path) -> None:
    scorer = engine(classifier(tmp_path))
    scorer.tokenizer.chat_template = None
    assert scorer.encode(("ab", "c")) == scorer.tokenizer("abc")["input_ids"]


def test_memory_and_work_are_counted(tmp_path: Path) -> None:
    scorer = engine(classifier(tmp_path))
    scorer.score(TALKS)
    shape = ModelShape.from_config(scorer.model.config)
    lengths = [len(scorer.encode(talk)) for talk in TALKS]
    assert scoring_work([Route(scorer, RewardModelConfig(path="x"))], ALONE) == {
        "reward_model": flops.forward_flops(shape, lengths, [0] * 3, head=1)
    }
    assert scoring_work([Route(scorer, RewardModelConfig(path="x"))], ALONE) == {"reward_model": 0}
    assert scoring_work([], ALONE) == {}
    parameters = sum(p.numel() for p in scorer.model.parameters())
    assert scorer.memory() == 4 * parameters + shape.rotary_bytes


def test_a_text_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"takes 64 tokens, .* lower --sampling.max-new-tokens"):
        engine(classifier(tmp_path)).score([("word " * 100, "x")])


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--reward-model", GSM8K], "a LlamaForCausalLM is no sequence classifier"),
        (["--reward-model", "./nowhere"], "--reward-model ./nowhere: cannot be loaded"),
        (["--reward-model.weight", "0.5"], "give --reward-model PATH"),
        (["--reward-model", "x", "--reward-model.std", "0"], "--reward-model.std 0.0: must be above 0"),
    ],
)
def test_a_wrong_reward_model_is_one_line(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["run", *SMALL, *flags, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_classifier_of_several_labels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="it has 3 labels; a reward model has one"):
        engine(classifier(tmp_path, labels=3))


# --- training one


def test_the_loss_by_hand() -> None:
    """-log sigmoid(2 - 1) = 0.3133 and -log sigmoid(0 - 1) = 1.3133."""
    assert float(pair_loss(torch.tensor([[2.0, 1.0], [0.0, 1.0]]))) == pytest.approx((0.3133 + 1.3133) / 2, abs=1e-4)


def test_pairs_are_right_against_wrong_of_one_problem() -> None:
    made = [rollout(p, correct=c) for p, c in (("a", True), ("a", False), ("a", True), ("b", True), ("c", False))]
    assert pairs_of(made) == [Pair(prompt="q", better="t", worse="t")]


def sampled_pairs(count: int, num_problems: int) -> list[Pair]:
    """Pairs of the embedded model's own completions."""
    task = TASKS["gsm8k"]()
    model = HFRollout(load_model(GSM8K), load_tokenizer(GSM8K), EngineConfig())
    problems = task.problems("train")[:num_problems]
    return pairs_of(score(task, generate(model, problems, count, Sampling(max_new_tokens=64), ("pairs",))))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reward model of the embedded model's size, trained for a few updates on its right and wrong completions."""
    folder = tmp_path_factory.mktemp("reward")
    losses = train_reward_model(GSM8K, sampled_pairs(4, 120), folder, RewardTraining(batch_size=32, num_epochs=4))
    assert sum(losses[-3:]) < sum(losses[:3])
    return folder


def test_it_learns_what_is_plain_to_see(tmp_path: Path) -> None:
    """The better completion of these pairs ends in a full stop; unseen ones are told apart by it."""
    pairs = [Pair(prompt=f"What is {i}?", better=f"It is {i}.", worse=f"It is {i}") for i in range(64)]
    train_reward_model(GSM8K, pairs[:48], tmp_path, RewardTraining(batch_size=16, num_epochs=4))
    assert pair_accuracy(engine(str(tmp_path)), pairs[48:]) == 1.0


def test_ppo_with_four_roles_and_grpo_with_three(trained: Path, tmp_path: Path) -> None:
    mixed = ["--reward-model", str(trained), "--reward-model.rules-weight", "1.0", "--reward-model.weight", "0.5"]
    same = ["--budget", "steps=1", *mixed, "--completions-per-step", "16"]
    ppo = run(tmp_path, "--algo", "ppo", "--algo.kl-coef", "0.05", *same)
    grpo = run(tmp_path, "--algo", "grpo", "--algo.group-size", "4", *same)
    models = {"policy", "reference", "critic", "reward_model"}
    for path, roles in ((ppo, models), (grpo, models - {"critic"})):
        row = json.loads((path / "steps.jsonl").read_text())
        assert {role for role in models if f"memory/{role}_gib" in row} == roles
        assert row["memory/reward_model_gib"] == engine(str(trained)).memory() / GIB
        assert row["time/reward_model_s"] > 0
        assert row["perf/mfu/reward_model"] > 0
        examples = rows(path, "completions")
        assert all(e["reward"] == pytest.approx(e["rules_reward"] + 0.5 * e["model_reward"]) for e in examples)
        assert row["reward/mean"] == pytest.approx(row["reward/rules_mean"] + 0.5 * row["reward/model_mean"], abs=1e-5)
        assert row["reward/correct_frac"] == sum(e["correct"] for e in examples) / 16
