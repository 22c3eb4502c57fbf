"""Folders that hold half a model, another model or none: refused in one line, never filled up with random weights."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from bench.config import ASSETS
from bench.ground.errors import UserError
from bench.models.folder import read_model
from bench.models.load import load_model, load_tokenizer
from tests.bench.support import tiny_llama

Weights = dict[str, Tensor]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny_llama(tied=False).save_pretrained(tmp_path / "m")
    return tmp_path / "m"


def rewrite(folder: Path, change: Callable[[Weights], Weights]) -> None:
    file = folder / "model.safetensors"
    save_file({k: v.contiguous() for k, v in change(load_file(file)).items()}, file, metadata={"format": "pt"})


def prefixed(prefix: str) -> Callable[[Weights], Weights]:
    return lambda weights: {prefix + name: tensor for name, tensor in weights.items()}


def without(part: str) -> Callable[[Weights], Weights]:
    return lambda weights: {name: tensor for name, tensor in weights.items() if part not in name}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (prefixed("pretrained_model."), "value head"),
        (prefixed("_orig_mod."), "compiled"),
        (prefixed("module."), "data-parallel"),
        (prefixed("policy."), "would be random"),
        (without("lm_head"), "1 weights are not stored, lm_head.weight"),
        (without("layers.1."), "would be random"),
        (without("layers.0.mlp.up_proj"), "layers.0.mlp.up_proj.weight"),
    ],
)
def test_weights_that_would_be_random_are_refused(
    folder: Path, change: Callable[[Weights], Weights], says: str
) -> None:
    rewrite(folder, change)
    with pytest.raises(UserError, match=says) as caught:
        load_model(str(folder))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [("num_hidden_layers", 3, "would be random"), ("vocab_size", 48, "two models"), ("hidden_size", 24, "two models")],
)
def test_a_config_of_another_size_is_refused(folder: Path, setting: str, value: int, says: str) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {setting: value, "head_dim": 4}))
    with pytest.raises(UserError, match=says):
        load_model(str(folder))


def test_what_is_spare_does_no_harm_and_what_is_unused_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    want = load_model(str(folder)).state_dict()
    for name, told in (("v_head.summary.weight", False), ("model.layers.2.mlp.up_proj.weight", True)):
        rewrite(folder, lambda weights, name=name: weights | {name: torch.ones(2, 2)})  # type: ignore[misc]
        got = load_model(str(folder)).state_dict()
        assert all(torch.equal(got[key], want[key]) for key in want)
        assert ("not used" in capsys.readouterr().err) is told


def test_a_tied_head_need_not_be_stored(tmp_path: Path) -> None:
    model = tiny_llama()
    model.save_pretrained(tmp_path)
    assert "lm_head.weight" not in load_file(tmp_path / "model.safetensors")
    assert torch.equal(load_model(str(tmp_path)).get_output_embeddings().weight, model.get_input_embeddings().weight)  # type: ignore[union-attr]


def cut(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-64])


def pointer(folder: Path) -> None:
    (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")


def empty(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"")


def quantised(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "gptq"}}))


def settings(**changes: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | changes))

    return change


def of_type(dtype: torch.dtype) -> Callable[[Path], None]:
    return lambda folder: rewrite(folder, lambda weights: {name: w.to(dtype) for name, w in weights.items()})


def packed(folder: Path) -> None:
    rewrite(folder, lambda weights: {name.replace("proj.weight", "proj.qweight"): w for name, w in weights.items()})


def as_gguf(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model-Q4_K_M.gguf").write_bytes(b"GGUF")


def pickled(folder: Path, held: object = None, dtype: torch.dtype = torch.float16) -> Path:
    """The weights as a pickle, in half precision."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(held or {name: tensor.to(dtype) for name, tensor in weights.items()}, folder / "pytorch_model.bin")
    return folder / "pytorch_model.bin"


def half_a_pickle(folder: Path) -> None:
    file = pickled(folder)
    file.write_bytes(file.read_bytes()[:-500])


class Shouts:
    """What a pickle that runs code looks like."""

    def __reduce__(self) -> object:
        return print, ("RUN",)


def code_in_a_pickle(folder: Path) -> None:
    pickled(folder, {"a": Shouts()})


def in_parts(spoil: Callable[[Path], None]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        gone(folder)
        tiny_llama(tied=False).save_pretrained(folder, max_shard_size="4KB")
        spoil(sorted(folder.glob("*.safetensors"))[1])

    return change


def not_finite(folder: Path) -> None:
    rewrite(folder, lambda weights: weights | {"lm_head.weight": weights["lm_head.weight"] * float("nan")})


def of_another_kind(folder: Path) -> None:
    (folder / "config.json").write_text("[1]")


def foreign_code(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "of_its_own", "auto_map": {"AutoConfig": "a.B", "AutoModelForCausalLM": "a.C"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "a.py").write_text("raise SystemExit('run')")


def gone(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (cut, "half downloaded"),
        (pointer, "git lfs pull"),
        (empty, "is empty"),
        (quantised, "quantised .gptq."),
        (foreign_code, "never done here"),
        (gone, "cannot be loaded"),
        (settings(quantization_config={"load_in_4bit": True}), "quantised .by bitsandbytes."),
        (settings(quantization_config="awq"), "quantised .awq."),
        (settings(compression_config={"quant_method": "compressed-tensors"}), "quantised .compressed-tensors."),
        (of_type(torch.int8), "quantised .model.safetensors holds I8."),
        (of_type(torch.float8_e4m3fn), "quantised .model.safetensors holds F8_E4M3."),
        (packed, "stored quantised"),
        (as_gguf, "quantised .GGUF."),
        (half_a_pickle, "half downloaded"),
        (code_in_a_pickle, "not run here"),
        (in_parts(lambda file: file.unlink()), "No such file"),
        (in_parts(lambda file: file.write_text("version https://git-lfs.github.com/spec/v1")), "git lfs pull"),
        (not_finite, "not finite"),
        (of_another_kind, "an object of settings is expected"),
    ],
)
def test_a_folder_that_cannot_be_loaded_is_one_line(
    folder: Path, spoil: Callable[[Path], None], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(folder)
    with pytest.raises(UserError, match=says) as caught:
        load_model(str(folder))
    assert "\n" not in str(caught.value)
    assert "RUN" not in capsys.readouterr().out


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("stored", [pickled, of_type])
def test_half_precision_is_read_as_float32(folder: Path, dtype: torch.dtype, stored: object) -> None:
    want = load_model(str(folder)).state_dict()
    if stored is pickled:
        pickled(folder, dtype=dtype)
    else:
        of_type(dtype)(folder)
    settings(dtype=str(dtype).removeprefix("torch."))(folder)
    got = load_model(str(folder)).state_dict()
    assert all(torch.equal(got[name], want[name].to(dtype).float()) for name in want)


def test_code_of_a_known_model_s_folder_is_not_run_and_nothing_is_asked(folder: Path) -> None:
    settings(auto_map={"AutoConfig": "a.B", "AutoModelForCausalLM": "a.C"})(folder)
    (folder / "a.py").write_text("raise SystemExit('run')")
    assert type(load_model(str(folder))).__name__ == "LlamaForCausalLM"


def damaged(name: str, text: str | None) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        if text is not None:
            (folder / name).write_text(text)

    return change


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (
            damaged("tokenizer.json", "version https://git-lfs.github.com/spec/v1"),
            "tokenizer.json is a git-lfs pointer",
        ),
        (damaged("chat_template.jinja", "version https://git-lfs.github.com/spec/v1"), "is a git-lfs pointer"),
        (damaged("tokenizer.json", '{"model": '), "half downloaded"),
        (damaged("tokenizer.json", ""), "half downloaded"),
        (damaged("tokenizer.json", '{"model": {"type": "of its own"}}'), "cannot be loaded"),
        (damaged("tokenizer.json", None), "no tokenizer that can be read"),
        (damaged("tokenizer_config.json", '{"a":'), "half downloaded"),
        (
            damaged("tokenizer_config.json", '{"tokenizer_class": "T", "auto_map": {"AutoTokenizer": ["a.T", null]}}'),
            "never done here",
        ),
    ],
)
def test_a_tokenizer_that_cannot_be_loaded_is_one_line(
    tmp_path: Path, spoil: Callable[[Path], None], says: str
) -> None:
    shutil.copytree(ASSETS / "gsm8k", tmp_path / "t")
    spoil(tmp_path / "t")
    with pytest.raises(UserError, match=says) as caught:
        load_tokenizer(str(tmp_path / "t"))
    assert "\n" not in str(caught.value)


def test_a_fault_of_the_program_is_no_fault_of_the_folder(folder: Path) -> None:
    """What no folder can cause is not told as one's fault."""

    class Wrong:
        @staticmethod
        def from_pretrained(*_: object, **__: object) -> None:
            raise AssertionError("ours")

    with pytest.raises(AssertionError, match="ours"):
        read_model(Wrong, str(folder))
