"""Reads what is stored as a model, and refuses in one line what is stored in part, in pieces or in another form."""

import contextlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.ground.errors import UserError

LFS_POINTER = b"version https://git-lfs"
STORED = ("*.safetensors", "*.bin", "*.json", "*.model")
PREFIXES = {
    "pretrained_model.": "a save with a value head",
    "_orig_mod.": "a save of a compiled model",
    "module.": "a data-parallel save",
}
SPARE = re.compile(r"(^|\.)(v_head|value_head|score|rotary_emb|masked_bias|attn\.bias)(\.|$)")  # nothing is lost


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
    except Exception as error:  # whatever a folder can be wrong about: each library has its own classes for it
        if isinstance(error, MemoryError) or "memory" in str(error):
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
    with contextlib.suppress(OSError, ValueError):
        config: Any = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        method = (config.get("quantization_config") or {}).get("quant_method")
        if method:
            raise UnreadableError(
                flag, location, f"its weights are quantised ({method}); give the model they were made of"
            )


def reason_in_one_line(error: Exception) -> str:
    """One line for what a library says."""
    text = str(error).strip() or type(error).__name__
    if "trust_remote_code" in text:
        return "it needs code from its folder to be run (trust_remote_code), which is never done here"
    if type(error).__name__ == "SafetensorError":
        return f"its weights are damaged or half downloaded ({text.partition(chr(10))[0]}); download them again"
    return text.partition("\n")[0]


def _files(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        for pattern in STORED:
            yield from sorted(folder.glob(pattern))
