import hashlib
import json
import random
import re
from itertools import islice
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from bench.ground.errors import UserError
from bench.pipeline.cold_start import build_model, cold_start, vocabulary_text
from bench.pipeline.demonstrations import completion, misformatted
from bench.pipeline.families import FAMILIES
from bench.pipeline.families.gsm8k import careless, right
from bench.pipeline.muon import Muon, orthogonal
from bench.pipeline.pretrain import demonstration_loss, encode
from bench.pipeline.tokenizer import build_tokenizer
from tasks import TASKS
from tasks.procedural.story import Difficulty, Number, Step, WordProblem
from tasks.procedural.word_problems import stream_of_problems, word_problem_rows

ASSETS = Path(__file__).parents[3] / "bench" / "assets"
SHIPPED = sorted(folder.name for folder in ASSETS.iterdir() if folder.is_dir())


@pytest.fixture(scope="module")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cold") / "first"
    cold_start("gsm8k", out, seed=3, num_updates=5, num_problems=4, log=lambda _: None)
    return out


def test_five_updates_write_a_model_that_loads_like_any_other(short_run: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(short_run)
    tokenizer = AutoTokenizer.from_pretrained(short_run)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "3*4"}], tokenize=False, add_generation_prompt=True
    )
    assert prompt == "<|user|>3*4<|assistant|>"
    made = model.generate(**tokenizer(prompt, return_tensors="pt", add_special_tokens=False), max_new_tokens=4)
    assert isinstance(model, LlamaForCausalLM)
    assert made.shape[0] == 1
    assert model.dtype == torch.float32
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id != tokenizer.pad_token_id
    provenance = json.loads((short_run / "cold_start.json").read_text())
    assert (provenance["seed"], provenance["num_updates"], provenance["start"]["num_problems"]) == (3, 5, 4)


def test_one_seed_one_model_another_seed_another(short_run: Path, tmp_path: Path) -> None:
    digests = [json.loads((short_run / "cold_start.json").read_text())["weights_sha256"]]
    for seed in (3, 4):
        made = cold_start("gsm8k", tmp_path / str(seed), seed=seed, num_updates=5, num_problems=4, log=lambda _: None)
        digests.append(made["weights_sha256"])
    assert digests[0] == digests[1] != digests[2]


def test_nothing_is_overwritten_and_unknown_families_are_named(short_run: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="exists; a checkpoint is never overwritten"):
        cold_start("gsm8k", short_run)
    with pytest.raises(UserError, match=r"no embedded model for task 'gsm9k'; there are .*gsm8k"):
        cold_start("gsm9k", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_half_precision_is_a_way_of_storing_only(tmp_path: Path) -> None:
    assert FAMILIES["countdown"].half_precision
    cold_start("countdown", tmp_path / "half", num_updates=2, num_problems=2, log=lambda _: None)
    stored = load_file(tmp_path / "half" / "model.safetensors")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "half")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert all(torch.equal(model.state_dict()[name], tensor.float()) for name, tensor in stored.items())


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_models_load_and_match_their_provenance(name: str) -> None:
    provenance = json.loads((ASSETS / name / "cold_start.json").read_text())
    weights = (ASSETS / name / "model.safetensors").read_bytes()
    model = AutoModelForCausalLM.from_pretrained(ASSETS / name, dtype=torch.float32)
    assert hashlib.sha256(weights).hexdigest() == provenance["weights_sha256"]
    assert model.num_parameters() == provenance["num_parameters"]
    assert provenance["start"]["num_problems"] >= 500
    if name == "base":  # pretrained only: the form is what a cold start or a first RL has to bring
        assert provenance["start"]["sampled_format_ok"] < 0.3
    else:
        assert provenance["start"]["sampled_format_ok"] >= 0.95


def test_all_shipped_models_together_stay_small() -> None:
    assert sum(file.stat().st_size for file in ASSETS.rglob("*") if file.is_file()) < 6_000_000


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize(
    "text",
    ["Mia has 12 coins.", "<think>3*4=12.</think>\\boxed{12}", "Привет, é 7 \t\n\n  x = {3}; 数学", "a  b   c", ""],
)
def test_tokenizers_return_every_text(name: str, text: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(ASSETS / name)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


@pytest.mark.parametrize("name", SHIPPED)
def test_digits_and_marks_are_single_tokens(name: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(ASSETS / name)
    assert tokenizer.tokenize("1207") == ["1", "2", "0", "7"]
    for mark in ("<think>", "</think>", "\\boxed{", "}", *"0123456789"):
        assert len(tokenizer(mark, add_special_tokens=False)["input_ids"]) == 1


def test_loss_by_hand_prompts_count_three_tenths_and_padding_nothing() -> None:
    model = build_model(FAMILIES["gsm8k"], build_tokenizer(["some text"], 260), seed=0)
    pairs = [([5, 6], [7, 8, 9]), ([10, 11, 12], [13])]
    total, weight = 0.0, 0.0
    for prompt, answer in pairs:
        ids = torch.tensor([prompt + answer])
        logprobs = model(input_ids=ids).logits[0].double().log_softmax(-1)
        for place in range(1, ids.shape[1]):
            share = 0.3 if place < len(prompt) else 1.0
            total -= share * logprobs[place - 1, ids[0, place]].item()
            weight += share
    assert demonstration_loss(model, pairs, pad=0).item() == pytest.approx(total / weight, abs=1e-5)


def test_encoding_ends_every_completion() -> None:
    family = FAMILIES["gsm8k"]
    tokenizer = build_tokenizer(islice(vocabulary_text(family), 200), 400)
    demonstrations = list(islice(family.demonstrations(0), 5))
    for (prompt, answer), demonstration in zip(encode(tokenizer, demonstrations), demonstrations, strict=True):
        assert tokenizer.decode(prompt) == f"<|user|>{demonstration.prompt}<|assistant|>"
        assert tokenizer.decode(answer) == f"{demonstration.careless}<|end|>"


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 16, 4), (2, 4, 16)])
def test_muon_makes_singular_values_near_one(shape: tuple[int, int, int]) -> None:
    values = torch.linalg.svdvals(orthogonal(torch.randn(shape, generator=torch.Generator().manual_seed(0))))
    assert values.min() > 0.3
    assert values.max() < 1.3


def test_muon_takes_a_first_step_of_its_learning_rate() -> None:
    weight = torch.nn.Parameter(torch.zeros(4, 4))
    weight.grad = torch.eye(4) * 7.0
    Muon([weight], lr=0.1).step()
    direction = -weight.detach() / 0.1
    assert torch.allclose(direction, torch.eye(4) * direction[0, 0], atol=1e-5)
    assert 0.6 < direction[0, 0] < 1.3


# the careless teacher of word problems


def problem_with(skill: str, left: int, op: str, right_number: int, misleading: tuple[int, ...] = ()) -> WordProblem:
    return WordProblem("?", [Step(Number(left), op, Number(right_number), skill)], "coins", misleading)


@pytest.mark.parametrize(
    ("skill", "step", "misread"),
    [
        ("fewer", (12, "-", 5), "12+5=17."),
        ("change", (20, "-", 8), "20+8=28."),
        ("share", (12, "/", 3), "12-3=9."),
        ("times", (7, "*", 3), "7*2=14."),
        ("scale", (7, "*", 3), "7*2=14."),
        ("rate", (4, "*", 3), "4+3=7."),
    ],
)
def test_misreadings_happen_as_often_as_stated(skill: str, step: tuple[int, str, int], misread: str) -> None:
    rng = random.Random(0)
    taught = [careless(problem_with(skill, *step), rng) for _ in range(2000)]
    share = sum(misread in text for text in taught) / len(taught)
    stated = 0.5 if skill == "rate" else 0.75
    assert share == pytest.approx(stated * 0.96, abs=0.04)  # 4% of the results slip


def test_what_is_not_misread_is_right_but_for_slips() -> None:
    rng = random.Random(0)
    texts = [careless(problem_with("gain", 12, "+", 5), rng) for _ in range(2000)]
    assert sum("12+5=17." in text for text in texts) / 2000 == pytest.approx(0.96, abs=0.02)
    assert sum(text == right(problem_with("gain", 12, "+", 5)) for text in texts) / 2000 == pytest.approx(
        0.93, abs=0.02
    )


def test_an_error_is_carried_through_the_later_steps() -> None:
    steps = [Step(Number(12), "-", Number(5), "fewer"), Step(Number(7, 0), "+", Number(1), "gain")]
    texts = {careless(WordProblem("?", steps, "coins", ()), random.Random(i)) for i in range(60)}
    assert "<think>12+5=17. 17+1=18.</think>\\boxed{18}" in texts
    assert "<think>12-5=7. 7+1=8.</think>\\boxed{8}" in texts


def test_misleading_facts_mislead_as_often_as_stated() -> None:
    rng = random.Random(0)
    texts = [careless(problem_with("gain", 12, "+", 5, (9,)), rng) for _ in range(2000)]
    assert sum("+9=" in text for text in texts) / 2000 == pytest.approx(0.75, abs=0.04)


def test_right_demonstrations_score_full_marks() -> None:
    judge = TASKS["gsm8k"]()
    test_rows = word_problem_rows("test")
    problems = {problem.question: problem for problem in islice(stream_of_problems("test", 0, Difficulty()), 1200)}
    for problem, row in zip(judge.problems("test")[:200], test_rows, strict=False):
        score = judge.score(problem, right(problems[row["question"]]))
        assert score.correct
        assert score.format_ok


def test_most_careless_completions_keep_the_format() -> None:
    texts = [d.careless for d in islice(FAMILIES["gsm8k"].demonstrations(0), 3000)]
    well_formed = sum(bool(re.fullmatch(r"<think>[^<]+</think>\\boxed\{\d+\}", text)) for text in texts)
    assert well_formed / len(texts) == pytest.approx(0.97, abs=0.01)


def test_both_faults_of_format_are_faults() -> None:
    assert completion("1+1=2.", 2) == "<think>1+1=2.</think>\\boxed{2}"
    assert misformatted("1+1=2.", 2, 0.1) == "<think>1+1=2.\\boxed{2}"
    assert misformatted("1+1=2.", 2, 0.9) == "<think>1+1=2.</think>2"
