"""Folders that hold half a model, another model or none: refused in one line, never filled up with random weights."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from bench.ground.errors import UserError
from bench.models.load import load_model
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
    ],
)
def test_a_folder_that_cannot_be_loaded_is_one_line(folder: Path, spoil: Callable[[Path], None], says: str) -> None:
    spoil(folder)
    with pytest.raises(UserError, match=says) as caught:
        load_model(str(folder))
    assert "\n" not in str(caught.value)
