# ruff: noqa: ANN401 - the peers are untyped
"""The peers' own functions, unmodified, imported where `make oracles` has put them.

OpenRLHF's package imports need flash-attn, so its modules are loaded past the package `__init__`s. What TRL computes
in the middle of a method is run from that method's own source.
"""

import importlib
import inspect
import sys
import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2] / ".venv-oracles"
present = (ROOT / ".ready").is_file() and Path(sys.prefix).resolve() == ROOT.resolve()


def verl() -> Any:
    """`verl.trainer.ppo.core_algos`."""
    _behind(ROOT / "peers" / "verl")
    return importlib.import_module("verl.trainer.ppo.core_algos")


def verl_actor_config(**settings: Any) -> Any:
    """The settings object of verl's policy losses."""
    _behind(ROOT / "peers" / "verl")
    config = importlib.import_module("verl.workers.config").ActorConfig
    return config(strategy="fsdp", rollout_n=2, ppo_micro_batch_size_per_gpu=4, **settings)


def openrlhf(module: str) -> Any:
    """A module of OpenRLHF: `models.loss`, `models.utils`, `trainer.ppo_utils.experience_maker`, ..."""
    path = ROOT / "peers" / "openrlhf"
    _behind(path)
    for package in ("", "models", "trainer", "trainer/ppo_utils", "trainer/ray", "utils"):
        name = ".".join(["openrlhf", *filter(None, package.split("/"))])
        if name not in sys.modules:
            stub = types.ModuleType(name)
            stub.__path__ = [str(path / "openrlhf" / package)]
            sys.modules[name] = stub
    launcher = types.ModuleType("openrlhf.trainer.ray.launcher")
    launcher.RayActorGroup = object  # type: ignore[attr-defined]
    sys.modules.setdefault(launcher.__name__, launcher)
    sys.modules["deepspeed"] = types.ModuleType("deepspeed")
    try:
        return importlib.import_module(f"openrlhf.{module}")
    finally:
        del sys.modules["deepspeed"]  # transformers would take it for the real one


def run_between(function: Callable[..., Any], start: str, end: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run the lines of `function` from the one that holds `start` up to the one that holds `end`, on `names`."""
    lines = inspect.getsource(function).splitlines()
    first = next(i for i, line in enumerate(lines) if start in line)
    last = next(i for i, line in enumerate(lines) if i > first and end in line)
    scope = dict(vars(sys.modules[function.__module__])) | names
    exec(textwrap.dedent("\n".join(lines[first:last])), scope)
    return scope


def _behind(path: Path) -> None:
    if str(path) not in sys.path:
        sys.path.append(str(path))
