"""Tokenizers as people have them, each kind built small: prompts go in and completions come out as they were meant."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from bench.cli import main
from bench.config import ASSETS, EngineConfig, Sampling
from bench.engines.hf import HFRollout
from bench.ground.errors import UserError
from bench.models.load import load_tokenizer
from bench.models.text import check_tokenizer, decode_completion, encode_prompt, end_of_turn, eos_ids
from tests.bench.support import tiny_llama

SPECIAL = ["<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>"]
TEXT = ["def f(x):\n    return x + 1\n", "    if x:\n        return 'é'\n", "the answer is 12, or so"]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PROGRAM = "def f(x):\n"
BODY = "    return x + 1\n"


def sentencepiece(strip: bool = True) -> Tokenizer:
    """Spaces as ▁, bytes as a fallback, one space in front of every text, which the decoder takes off again."""
    bytes_ = [f"<0x{i:02X}>" for i in range(256)]
    alphabet = sorted({c for text in TEXT for c in text.replace(" ", "▁") if c != "\n"})
    merges = [("▁", "▁"), ("▁▁", "▁▁")]
    words = [*SPECIAL, *bytes_, *alphabet, *("".join(pair) for pair in merges)]
    built = Tokenizer(
        models.BPE(
            {word: i for i, word in enumerate(dict.fromkeys(words))}, merges, unk_token="<unk>", byte_fallback=True
        )
    )
    built.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])  # type: ignore[assignment]
    ends = [decoders.Strip(" ", 1, 0)] if strip else []
    built.decoder = decoders.Sequence(  # type: ignore[assignment]
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *ends]
    )
    return built


def metaspace() -> Tokenizer:
    """T5's and XLM's way of the same."""
    built = Tokenizer(models.BPE(unk_token="<unk>"))
    built.pre_tokenizer = pre_tokenizers.Metaspace()  # type: ignore[assignment]
    built.decoder = decoders.Metaspace()  # type: ignore[assignment]
    built.train_from_iterator([*TEXT, "\n"], trainers.BpeTrainer(vocab_size=200, special_tokens=SPECIAL))
    return built


def byte_level() -> Tokenizer:
    """GPT-2's kind."""
    built = Tokenizer(models.BPE())
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    built.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    built.train_from_iterator(
        TEXT, trainers.BpeTrainer(vocab_size=300, special_tokens=SPECIAL, initial_alphabet=alphabet)
    )
    return built


def wrapped(built: Tokenizer, template: str | None = None, **settings: Any) -> PreTrainedTokenizerFast:  # noqa: ANN401
    for token in SPECIAL:
        built.add_special_tokens([token])
    made = PreTrainedTokenizerFast(tokenizer_object=built, **{"eos_token": "</s>", "unk_token": "<unk>"} | settings)
    made.chat_template = template
    return made


def ending(built: Tokenizer, pattern: str) -> Tokenizer:
    """Put the special tokens of the pattern around a text."""
    built.post_processor = processors.TemplateProcessing(  # type: ignore[assignment]
        single=pattern, special_tokens=[(token, built.token_to_id(token)) for token in ("<s>", "</s>")]
    )
    return built


KINDS = {"sentencepiece": sentencepiece, "metaspace": metaspace, "byte level": byte_level}


@pytest.mark.parametrize("kind", ["sentencepiece", "metaspace"])
def test_a_continuation_keeps_its_first_space(kind: str) -> None:
    """Prompt and right completion, tokenized as one text: what the completion adds is the difference."""
    tokenizer = wrapped(KINDS[kind]())
    ids = tokenizer(PROGRAM + BODY, add_special_tokens=False)["input_ids"]
    prompt = tokenizer(PROGRAM, add_special_tokens=False)["input_ids"]
    assert ids[: len(prompt)] == prompt
    text = decode_completion(tokenizer, prompt, ids[len(prompt) :])  # type: ignore[arg-type, index]
    assert text.rstrip("\n") == BODY.rstrip("\n")


def test_the_library_alone_would_lose_a_space_of_the_indent() -> None:
    tokenizer = wrapped(sentencepiece())
    prompt = tokenizer(PROGRAM)["input_ids"]
    ids = tokenizer(PROGRAM + BODY)["input_ids"][len(prompt) :]  # type: ignore[arg-type, index]
    plain = str(tokenizer.decode(ids))
    assert plain == BODY[1:]  # what the library gives: one space short
    assert decode_completion(tokenizer, prompt, ids) == BODY  # type: ignore[arg-type]


@given(prompt=st.text("dex+ 1\n", min_size=1), text=st.text("dex+ 1\né", min_size=1))
@settings(max_examples=60, deadline=None)
def test_completions_of_any_text_come_out_whole(prompt: str, text: str) -> None:
    """Prompt's and completion's ids behind one another, however the text was cut; byte-level ones as before."""
    for tokenizer in SAME:
        head = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        both = tokenizer(prompt + text, add_special_tokens=False)["input_ids"]
        if both[: len(head)] == head:  # type: ignore[index, arg-type]
            assert decode_completion(tokenizer, head, both[len(head) :]) == text  # type: ignore[arg-type, index]


SAME = [wrapped(sentencepiece()), wrapped(byte_level()), load_tokenizer(str(ASSETS / "gsm8k"))]


@pytest.mark.parametrize("kind", ["sentencepiece", "byte level"])
@pytest.mark.parametrize(("pattern", "front"), [("$A </s>", []), ("<s> $A </s>", ["<s>"]), ("<s> $A", ["<s>"])])
def test_an_end_token_that_the_tokenizer_appends_is_left_out(kind: str, pattern: str, front: list[str]) -> None:
    tokenizer = wrapped(ending(KINDS[kind](), pattern), bos_token="<s>")
    bare = tokenizer("def f", add_special_tokens=False)["input_ids"]
    assert encode_prompt(tokenizer, "def f") == [*tokenizer.convert_tokens_to_ids(front), *bare]  # type: ignore[misc]
    written = encode_prompt(tokenizer, "def</s>")
    assert tokenizer.convert_ids_to_tokens(written[-1]) == "</s>"  # the text's own stays, once
    assert written.count(tokenizer.eos_token_id) == 1


def test_a_first_token_that_is_the_end_token_too_stays() -> None:
    tokenizer = wrapped(ending(byte_level(), "</s> $A"))
    assert encode_prompt(tokenizer, "x")[0] == tokenizer.eos_token_id
    assert encode_prompt(tokenizer, "") == [tokenizer.eos_token_id]


def test_more_tokens_than_embeddings_is_one_line_and_spare_ones_are_none() -> None:
    tokenizer = wrapped(byte_level())
    size = len(tokenizer)
    check_tokenizer(tiny_llama(vocab=size), tokenizer, "m")
    check_tokenizer(tiny_llama(vocab=size + 64), tokenizer, "m")  # padded to a round number
    with pytest.raises(UserError, match=r"--model m: its tokenizer has 3 tokens, .* beyond the model's \d+ embeddings"):
        check_tokenizer(tiny_llama(vocab=size - 3), tokenizer, "m")
    tokenizer.add_special_tokens({"pad_token": "<pad>"})
    check_tokenizer(tiny_llama(vocab=size), tokenizer, "m")  # nothing is ever padded with it


@pytest.mark.parametrize(
    ("template", "says"),
    [
        (
            "{% if messages[0].role != 'system' %}{{ raise_exception('a system message is needed') }}{% endif %}",
            "needed",
        ),
        ("{{ messages[0].content", "fails on a user message"),
        ("{{ messages[0].content.parts[0].text }}", "fails on a user message"),
        ("{{ messages[1].content + 1 }}", "fails on a user message"),
        ("{{ 1 // 0 }}", "fails on a user message"),
    ],
)
def test_a_template_that_raises_is_one_line(template: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        encode_prompt(wrapped(byte_level(), template), "What is 2 + 2?")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("end", ["<|im_end|>", "</s>"])
def test_turns_that_end_with_a_token_that_ends_nothing_are_told(end: str, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = wrapped(byte_level(), CHATML, eos_token=end)
    model = tiny_llama(vocab=len(tokenizer))
    assert end_of_turn(tokenizer) == tokenizer.convert_tokens_to_ids("<|im_end|>")
    check_tokenizer(model, tokenizer, "m")
    told = capsys.readouterr().err
    assert ("ends a turn with '<|im_end|>', which ends no completion here" in told) is (end == "</s>")
    model.generation_config.eos_token_id = [1, end_of_turn(tokenizer)]  # type: ignore[union-attr]
    check_tokenizer(model, tokenizer, "m")
    assert end_of_turn(tokenizer) in eos_ids(model, tokenizer)
    assert capsys.readouterr().err == ""


def test_a_template_for_prompts_alone_says_nothing_about_turns(capsys: pytest.CaptureFixture[str]) -> None:
    for template in (
        None,
        "{{ messages[0].content }}",
        "{% if messages|length > 1 %}{{ raise_exception('x') }}{% endif %}",
    ):
        tokenizer = wrapped(byte_level(), template)
        check_tokenizer(tiny_llama(vocab=len(tokenizer)), tokenizer, "m")
    for task in ("gsm8k", "countdown"):
        assert end_of_turn(load_tokenizer(str(ASSETS / task))) is not None
    assert capsys.readouterr().err == ""


def saved(folder: Path, template: str | None, **tokenizer: Any) -> str:  # noqa: ANN401
    made = wrapped(byte_level(), template, **tokenizer)
    made.save_pretrained(folder)
    tiny_llama(vocab=len(made)).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("command", ["run", "eval"])
def test_a_command_with_a_template_that_raises_writes_nothing(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = saved(tmp_path / "m", "{{ raise_exception('only with a system message') }}")
    flags = ["--task", "gsm8k", "--source", "procedural", "--model", model, "--out", str(tmp_path / "out")]
    capsys.readouterr()
    assert main([command, *flags]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: the model's chat template fails on a user message")
    assert "(only with a system message)" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_template_that_fails_on_no_text_trains(tmp_path: Path) -> None:
    """It looks at the message's first letter, which an empty one has not."""
    model = saved(
        tmp_path / "m", "{{ messages[0].content[0] }}{{ raise_exception('empty') if not messages[0].content }}"
    )
    flags = ["run", "--algo", "grpo", "--source", "procedural", "--model", model, "--samples-per-step", "8", "--quiet"]
    flags += ["--budget", "steps=1", "--eval.limit", "0", "--sampling.max-new-tokens", "4"]
    assert main([*flags, "--max-prompt-tokens", "100", "--out", str(tmp_path / "out")]) == 0


def test_the_sampler_gives_the_text_behind_its_prompt() -> None:
    tokenizer = wrapped(sentencepiece())
    model = tiny_llama(vocab=len(tokenizer))
    prompt = tokenizer(PROGRAM)["input_ids"]
    rollout = HFRollout(model, tokenizer, EngineConfig(device="cpu"))
    (group,) = rollout.generate([prompt], [list(range(30))], Sampling(max_new_tokens=6))  # type: ignore[list-item]
    for done in group:
        ids = done.token_ids[:-1] if done.finish_reason == "stop" else done.token_ids
        assert done.text == decode_completion(tokenizer, prompt, ids)  # type: ignore[arg-type]
    first = {tokenizer.convert_ids_to_tokens(done.token_ids[0]): done.text for done in group}
    assert all(text.startswith(" ") for token, text in first.items() if token.startswith("▁"))  # type: ignore[union-attr]
