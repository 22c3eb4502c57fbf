"""Low-rank adapters (LoRA, arXiv:2106.09685) by peft: read from a folder, added to a model, merged into its weights."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from bench.config import LoraConfig
from bench.ground.errors import UserError, nearest
from bench.rollout import derive_seed

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TRAINED = "default"  # peft's name of the adapter being trained
ADAPTER_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
PREFIX = "base_model.model."  # of names in that file
PLAIN: dict[str, Any] = {"peft_type": "LORA", "bias": "none", "modules_to_save": None, "use_dora": False}


def settings_for(model: str, asked: LoraConfig) -> LoraConfig:
    """The settings asked for, or those of the adapter that `model` is: its folder, or a run that trained one.

    Raises:
        UserError: the adapter is more than plain LoRA, or of another rank than was asked for.
    """
    folder = Path(model).expanduser()
    checkpoints = sorted(folder.glob("checkpoint/step-*[0-9]/model"))
    file = (checkpoints[-1] if checkpoints else folder) / ADAPTER_FILE
    if not file.is_file():
        return asked
    stored: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    for key, plain in PLAIN.items():
        if (stored.get(key) or plain) != plain:
            raise UserError(f"--model {model}: its adapter has {key} {stored[key]}; only plain LoRA is trained")
    if asked.rank not in (0, stored["r"]):
        raise UserError(f"--lora.rank {asked.rank}: the adapter at --model {model} has {stored['r']}; leave it out")
    targets: str | list[str] = stored["target_modules"]
    names = [targets] if isinstance(targets, str) else sorted(targets)
    return LoraConfig(rank=stored["r"], alpha=stored["lora_alpha"], targets=tuple(names))


def is_adapted(model: nn.Module) -> bool:
    """Whether a model has adapters."""
    return bool(getattr(model, "peft_config", None))


def adapter_folder(location: str) -> Path | None:
    """The folder, if it holds an adapter."""
    return Path(location) if (Path(location) / ADAPTER_FILE).is_file() else None


def base_of(folder: Path) -> str:
    """Where the model is that the adapter was made for."""
    return json.loads((folder / ADAPTER_FILE).read_text(encoding="utf-8"))["base_model_name_or_path"]


def weights_at(location: str) -> str:
    """Where the whole weights are: an adapter's base model's place, or the location itself."""
    folder = adapter_folder(location)
    return location if folder is None else base_of(folder)


def prepare_adapters(model: "PreTrainedModel", lora: LoraConfig, dtype: str | None, seed: int) -> None:
    """Freeze the model and train adapters: those that it came with, or new ones, which change nothing yet.

    Frozen weights are held in the arithmetic's dtype, adapters in float32.

    Raises:
        UserError: a layer to adapt is not there, or cannot have adapters.
    """
    if not is_adapted(model):
        add_adapters(model, lora, seed)
    switch_adapters(model, on=True)
    refuse_tied(model)
    if dtype == "bfloat16":
        for parameter in model.parameters():
            if not parameter.requires_grad:
                parameter.data = parameter.data.bfloat16()


def add_adapters(model: "PreTrainedModel", lora: LoraConfig, seed: int) -> None:
    """Adapters that change nothing yet: the second factor of each is 0."""
    import peft  # pyright: ignore[reportMissingImports]

    refuse_unknown(model, lora.targets)
    settings = peft.LoraConfig(
        r=lora.rank,
        lora_alpha=cast("int", lora.alpha),
        target_modules=list(lora.targets) or "all-linear",
        base_model_name_or_path=model.name_or_path,
    )
    with torch.random.fork_rng([model.device] if model.device.type == "cuda" else []):
        torch.manual_seed(derive_seed(seed, "lora"))
        try:
            peft.inject_adapter_in_model(settings, model)
        except ValueError as error:
            raise UserError(f"--lora.targets {' '.join(lora.targets)}: {str(error).splitlines()[0]}") from error


def read_adapters(model: "PreTrainedModel", folder: Path) -> None:
    """Put a stored adapter on its base model, frozen."""
    import peft  # pyright: ignore[reportMissingImports]

    peft.PeftModel.from_pretrained(model, str(folder))


def save_adapters(model: "PreTrainedModel", folder: Path) -> None:
    """Write the adapter in peft's format."""
    import peft  # pyright: ignore[reportMissingImports]

    weights = peft.get_peft_model_state_dict(model, save_embedding_layers=False)
    folder.mkdir(parents=True, exist_ok=True)
    save_file({f"{PREFIX}{name}": weight.contiguous() for name, weight in weights.items()}, folder / WEIGHTS_FILE)
    cast("Any", model).peft_config[TRAINED].save_pretrained(folder)


def switch_adapters(model: nn.Module, *, on: bool) -> None:
    """Adapters on, and trained, or off."""
    for _, layer in adapted_layers(model):
        layer.enable_adapters(on)


def refuse_unknown(model: nn.Module, targets: Sequence[str]) -> None:
    """Refuse a name that matches nothing: peft passes over it as long as another one matches."""
    layers = {name.rpartition(".")[2] for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    names = [f".{name}" for name, _ in model.named_modules()]
    for target in targets:
        if not any(name.endswith(f".{target}") for name in names):
            raise UserError(f"--lora.targets {target}: the model has no such layer; {nearest(target, layers)}")


def refuse_tied(model: "PreTrainedModel") -> None:
    """Refuse an adapter on one of two tied layers: it could not be merged into the weight that they share."""
    adapted = {id(layer) for _, layer in adapted_layers(model)}
    both = (model.get_input_embeddings(), model.get_output_embeddings())
    if model.config.get_text_config().tie_word_embeddings and any(id(layer) in adapted for layer in both):
        raise UserError("--lora.targets: the model ties its embedding to its output layer, which adapters would untie")


def adapted_layers(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Layers with adapters, by the name that the base model gives them."""
    for name, module in model.named_modules():
        if hasattr(module, "lora_A") and hasattr(module, "base_layer"):
            yield name, module


def adapter_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Both factors of every adapter."""
    return [factor[TRAINED].weight for _, layer in adapted_layers(model) for factor in (layer.lora_A, layer.lora_B)]


def changes_nothing(model: nn.Module) -> bool:
    """Whether the adapter being trained leaves the base model's outputs as they are: every second factor is 0."""
    return not any(bool(layer.lora_B[TRAINED].weight.any()) for _, layer in adapted_layers(model))


@torch.no_grad()
def merged_weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Weights by the base model's names, one at a time, each with its adapter added; tied ones once."""
    layers = dict(adapted_layers(model))
    adapters = {id(p) for p in adapter_parameters(model)}
    for name, parameter in model.named_parameters():
        if id(parameter) in adapters:
            continue
        owner, _, part = name.partition(".base_layer.")
        weight = parameter.detach()
        if part == "weight":
            weight = weight + layers[owner].get_delta_weight(TRAINED)
        yield f"{owner}.{part}" if part else name, weight
