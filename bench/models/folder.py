"""Reads what is stored as a model, and refuses in one line what is stored in part, in pieces or in another form."""

import errno
import json
import pickle
import re
import struct
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError

from bench.ground.errors import UserError
from bench.meter import is_out_of_memory

HEADER_BYTES = 100_000_000  # the format's own limit
LFS_POINTER = b"version https://git-lfs"
STORED = ("*.safetensors", "*.bin", "*.json", "*.model", "*.jinja")
DAMAGED = (SafetensorError, pickle.UnpicklingError, EOFError)
FAILURES = (  # what a folder's contents make the libraries raise; the tokenizers' own library has no class for its own
    *DAMAGED,
    *(OSError, ValueError, RuntimeError, ImportError, LookupError, TypeError, AttributeError, ArithmeticError),
    StrictDataclassError,
)
PACKED = re.compile(r"\.(qweight|qzeros|absmax|weight_packed|weight_scale(_inv)?|quant_state\.\w+|SCB)$")
NUMBERS = {"F64", "F32", "F16", "BF16"}  # safetensors' names of what weights are when they are not quantised
PREFIXES = {
    "pretrained_model.": "a save with a value head",
    "_orig_mod.": "a save of a compiled model",
    "module.": "a data-parallel save",
}
SPARE = re.compile(r"(^|\.)(v_head|value_head|score|rotary_emb|masked_bias|attn\.bias)(\.|$)")  # nothing is lost


QUANTISED = "its weights are quantised ({}); give the model that they were made of"


class UnreadableError(UserError):
    """What is at this place cannot be loaded."""

    def __init__(self, flag: str, location: str, why: str) -> None:
        super().__init__(f"{flag} {location}: cannot be loaded: {why}")


def read_model(cls: Any, location: str, flag: str = "--model", **settings: Any) -> Any:  # noqa: ANN401
    """`cls.from_pretrained`, which runs no code from the folder and asks nothing.

    Raises:
        UserError: it cannot be loaded.
    """
    check_folder(location, flag)
    try:
        return cls.from_pretrained(location, trust_remote_code=False, **settings)
    except Exception as error:
        if is_out_of_memory(error) or not (isinstance(error, FAILURES) or type(error) is Exception):
            raise
        raise UnreadableError(flag, location, reason_in_one_line(error)) from error


def read_weights(cls: Any, location: str, flag: str = "--model", fresh: str = "", **settings: Any) -> Any:  # noqa: ANN401
    """A model all of whose weights are stored; `fresh` begins the names of those that are to be made anew.

    Raises:
        UserError: it cannot be loaded, or some of its weights would be random.
    """
    model, report = read_model(
        cls, location, flag, output_loading_info=True, ignore_mismatched_sizes=True, **settings
    )  # sizes that differ are reported, and refused here
    check_report(report, location, flag, fresh)
    return model


def check_report(report: Mapping[str, Any], location: str, flag: str, fresh: str = "") -> None:
    """Refuse random weights; tell of stored ones that are not used.

    Raises:
        UserError: a weight is missing, or of another size.
    """
    missing = sorted(name for name in report["missing_keys"] if not (fresh and name.startswith(fresh)))
    odd = sorted(report["mismatched_keys"])
    unused = sorted(name for name in report["unexpected_keys"] if not SPARE.search(name))
    if odd:
        name, stored, wanted = odd[0]
        sizes = f"{name} is stored as {tuple(stored)}, and config.json makes it {tuple(wanted)}"
        raise UnreadableError(flag, location, f"{sizes} ({len(odd)} such): config and weights are of two models")
    if missing:
        what = f"{len(missing)} weights are not stored, {missing[0]} the first, and would be random"
        raise UnreadableError(flag, location, f"{what}{mend_of_names(unused)}")
    if report.get("error_msgs"):
        raise UnreadableError(flag, location, str(report["error_msgs"][0]).strip().partition("\n")[0])
    if unused:
        print(f"{flag} {location}: {len(unused)} stored weights not used, {unused[0]} the first", file=sys.stderr)


def mend_of_names(unused: list[str]) -> str:
    """What to do about stored names that no weight has, where it is known."""
    if any(PACKED.search(name) for name in unused):
        return "; they are stored quantised: give the model that they were made of"
    for prefix, kind in PREFIXES.items():
        if any(name.startswith(prefix) or f".{prefix}" in name for name in unused):
            return f"; names with '{prefix}' are of {kind}: save the model itself, or take '{prefix}' out of them"
    return f"; stored without a place: {unused[0]}" if unused else "; is the download complete?"


def check_folder(location: str, flag: str) -> None:
    """Refuse, before a library trips over it, what can be seen from a folder's files.

    Raises:
        UserError: a file is a git-lfs pointer or empty, or the weights are quantised.
    """
    folder = Path(location)
    for file in _files(folder):
        with file.open("rb") as stream:
            head = stream.read(len(LFS_POINTER))
        if head == LFS_POINTER:
            raise UnreadableError(flag, location, f"{file.name} is a git-lfs pointer; run git lfs pull there")
        if not head and file.suffix != ".json":
            raise UnreadableError(flag, location, f"{file.name} is empty; download it again")
    for file in folder.glob("*.safetensors"):
        odd = sorted({kind for name, kind in _kinds(file) if name.endswith("weight")} - NUMBERS)
        if odd:
            raise UnreadableError(flag, location, QUANTISED.format(f"{file.name} holds {odd[0]}"))
    method = quantisation(folder)
    if method:
        raise UnreadableError(flag, location, QUANTISED.format(method))


def quantisation(folder: Path) -> str:
    """How a folder says that its weights are quantised; empty where it does not.

    Raises:
        UserError: its config.json is no object.
    """
    file = folder / "config.json"
    try:
        config: Any = json.loads(file.read_bytes()) if file.is_file() else {}
    except ValueError:
        return ""  # the library says it
    if not isinstance(config, dict):
        raise UserError(f"{file}: an object of settings is expected")
    settings = config.get("quantization_config") or config.get("compression_config")
    if settings:
        return str(settings.get("quant_method") or "by bitsandbytes") if isinstance(settings, dict) else str(settings)
    held = {path.suffix for path in folder.iterdir()} if file.is_file() else set[str]()
    return "GGUF" if ".gguf" in held and not held & {".safetensors", ".bin"} else ""


def reason_in_one_line(error: Exception) -> str:
    """One line for what a library says."""
    text = str(error).strip() or type(error).__name__
    if "trust_remote_code" in text:
        return "it needs code from its folder to be run (trust_remote_code), which is never done here"
    if "scaled_dot_product_attention" in text:
        return "its attention is not torch's scaled_dot_product_attention, the only one that models are run with here"
    if "instantiate the backend tokenizer" in text:
        return "it has no tokenizer that can be read here (tokenizer.json)"
    first = text.partition("\n")[0].rstrip(": ")
    if "Weights only load failed" in text:
        return "its weights are a pickle of more than tensors, which is not run here; save them as safetensors"
    if isinstance(error, DAMAGED) or "PytorchStreamReader" in text or getattr(error, "errno", None) == errno.EINVAL:
        return f"its weights are damaged or half downloaded ({first}); download them again"
    if isinstance(error, json.JSONDecodeError):
        return f"a JSON file of it is damaged or half downloaded ({first}); download it again"
    return first


def _kinds(file: Path) -> Iterator[tuple[str, str]]:
    """Names and types of what a safetensors file holds, by its header; nothing where that is damaged."""
    try:
        with file.open("rb") as stream:
            (size,) = struct.unpack("<Q", stream.read(8))
            header: dict[str, dict[str, str]] = json.loads(stream.read(min(size, HEADER_BYTES)))
            yield from [(name, facts["dtype"]) for name, facts in header.items() if name != "__metadata__"]
    except (struct.error, ValueError, AttributeError, LookupError, TypeError):
        return  # the library says what is wrong with it


def _files(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        for pattern in STORED:
            yield from (file for file in sorted(folder.glob(pattern)) if file.is_file())
