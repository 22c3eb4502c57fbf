"""Hardware by name: what its devices can do, how they are joined, and the settings that suit them."""

import re
import shutil
import subprocess
import tomllib
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from bench.ground.errors import UserError, nearest
from bench.ground.words import GIB

FOLDER = Path(__file__).parent / "presets"
AUTO = "auto"
NETWORK_GB_PER_S = 50.0  # 400 Gb/s for each device

Dtype = Literal["float32", "bfloat16", "float16"]


@dataclass(frozen=True, kw_only=True)
class Device:
    """One processor or GPU. A rate that is not known is None, and no time is then predicted."""

    name: str
    match: str
    """Pattern of the name that the driver reports."""
    memory_gib: float
    context_gib: float = 1.0
    """Held by the process before any tensor."""
    bandwidth_gb_per_s: float | None = None
    peak_tflops: dict[str, float] | None = None
    link_gb_per_s: float | None = None
    """To another device of its node, one direction."""
    host_link_gb_per_s: float | None = None
    """To the host's memory."""


@dataclass(frozen=True, kw_only=True)
class Efficiency:
    """Shares of the data sheet's rates that each kind of work reaches: stated assumptions, which `--validate` tests."""

    prefill: float = 0.5
    decode_compute: float = 0.4
    decode_bandwidth: float = 0.6
    forward: float = 0.45
    update: float = 0.4
    link: float = 0.7
    hf_layer_s: float = 0.8e-3
    """Seconds a decoding pass spends in each layer beside its work: launching kernels one by one."""
    vllm_layer_s: float = 0.03e-3
    """The same with the kernels recorded beforehand."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A configuration of devices, and the settings that a run takes there unless told otherwise."""

    name: str
    device: Device
    description: str = ""
    nodes: int = 1
    devices_per_node: int = 1
    dtype: Dtype = "bfloat16"
    train_engine: Literal["torch", "deepspeed"] = "deepspeed"
    rollout_engine: Literal["hf", "vllm"] = "vllm"
    zero_stage: int = 0
    micro_batch_tokens: int = 8192
    rollout_devices: int = 0
    """Devices that only generate; 0: every device generates and trains in turn."""
    host_memory_gib: float | None = None
    """Of one node, for off-loaded states."""
    network_gb_per_s: float | None = None
    """For each device, to another node, one direction."""
    efficiency: Efficiency = field(default_factory=Efficiency)

    @property
    def num_devices(self) -> int:
        return self.nodes * self.devices_per_node


def preset_names() -> list[str]:
    """Every preset, by number of devices."""
    names = [path.stem for path in FOLDER.glob("*.toml") if path.stem != "devices"]
    return sorted(names, key=lambda name: (load_preset(name).num_devices, load_preset(name).device.memory_gib))


@cache
def load_preset(name: str) -> Preset:
    """The preset of this name; `auto` is the largest one that this machine can serve.

    Raises:
        UserError: no such preset; names the nearest.
    """
    if name == AUTO:
        return detect_preset()
    path = FOLDER / f"{name}.toml"
    if name == "devices" or not path.is_file():
        raise UserError(f"unknown preset {name!r}: {nearest(name, preset_names())}")
    table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    device = devices()[table.pop("device")]
    efficiency = Efficiency(**table.pop("efficiency", {}))
    return Preset(name=name, device=device, efficiency=efficiency, **table)


@cache
def devices() -> dict[str, Device]:
    """Every device that is known, by name."""
    tables = tomllib.loads((FOLDER / "devices.toml").read_text(encoding="utf-8"))
    return {name: Device(name=name, **table) for name, table in tables.items()}


def parse_gpus(spec: str, memory_gb: float | None = None) -> Preset:
    """`4xA100-80GB`, `2x8xH100-80GB` (nodes x devices) or a preset's name, as a configuration.

    A count that a preset has takes that preset's settings. A device that is not known needs `memory_gb`, and then only
    its memory is planned.

    Raises:
        UserError: not a specification, no devices, or an unknown device (names the nearest).
    """
    if spec in preset_names():
        return load_preset(spec)
    found = re.fullmatch(r"(?:(\d+)x)?(\d+)x([A-Za-z][\w.-]*)", spec)
    if not found:
        raise UserError(f"--gpus {spec}: expected COUNTxDEVICE or NODESxCOUNTxDEVICE, such as 4xA100-80GB")
    nodes, count, name = int(found[1] or 1), int(found[2]), found[3]
    if nodes * count == 0:
        raise UserError(f"--gpus {spec}: a plan needs at least one device")
    device = _device(name, memory_gb)
    known = [load_preset(known_name) for known_name in preset_names()]
    same = [p for p in known if (p.device, p.nodes, p.devices_per_node) == (device, nodes, count)]
    if same:
        return replace(same[0], name=spec)
    like = next((p for p in reversed(known) if p.device.name == device.name), load_preset("8xH100-80GB"))
    alone = nodes * count == 1
    return replace(
        like,
        name=spec,
        description=f"{nodes * count} x {device.name}",
        device=device,
        nodes=nodes,
        devices_per_node=count,
        rollout_devices=0,
        train_engine="torch" if alone else "deepspeed",
        rollout_engine="hf" if alone else "vllm",
        zero_stage=0 if alone else 3,
        network_gb_per_s=like.network_gb_per_s or NETWORK_GB_PER_S,
    )


def detect_preset(*, alone: bool = False) -> Preset:
    """The largest preset whose devices are here (of one device, if `alone`); `cpu` where there is no GPU.

    GPUs that no preset knows are described by what their driver says: their memory, and no rates.
    """
    found = installed_gpus()
    if not found:
        return load_preset("cpu")
    known = [load_preset(name) for name in preset_names()]
    serving = [p for p in known if p.nodes == 1 and not (alone and p.num_devices > 1) and _present(p, found)]
    if serving:
        return serving[-1]
    name, memory_gib = found[0]
    device = Device(name=name, match=re.escape(name), memory_gib=memory_gib)
    return replace(
        load_preset("1xH200"), name=f"1x{name}", description=f"1 x {name}", device=device, micro_batch_tokens=8192
    )


def preset_for_run(name: str, *, cpu: bool, processes: int = 1) -> Preset:
    """The preset that a run takes, which has a process on every device.

    Raises:
        UserError: unknown, of another number of devices, or not here; in one line. `cpu`: no GPU is to be used.
    """
    if name == AUTO:
        return load_preset("cpu") if cpu else detect_for(processes)
    preset = load_preset(name)
    if preset.rollout_devices:
        raise UserError(f"--preset {name} keeps devices for generation alone, which only plan knows: choose another")
    if preset.num_devices != processes and preset.device.name != "cpu":
        nodes = f"--nnodes {preset.nodes} " if preset.nodes > 1 else ""
        launcher = f"torchrun {nodes}--nproc_per_node {preset.devices_per_node}" if preset.num_devices > 1 else "python"
        have = f"{preset.num_devices} devices and the run {processes} processes"
        raise UserError(f"--preset {name} has {have}: start it by {launcher} -m bench run")
    if preset.device.name != "cpu" and (cpu or not _present(preset, installed_gpus())):
        here = ", ".join(gpu for gpu, _ in installed_gpus()) or "no GPU"
        used = f"{here}, which torch does not see" if cpu and installed_gpus() else here
        needed = f"{preset.devices_per_node} x {preset.device.name}"
        raise UserError(f"--preset {name} needs {needed}, and here is {used}: use --preset auto")
    return preset


def detect_for(processes: int) -> Preset:
    """The preset of so many of the GPUs that are here: a named one, or one in its likeness."""
    one = detect_preset(alone=True)
    if processes == 1:
        return one
    if one.device.name in devices():
        return parse_gpus(f"{processes}x{one.device.name}")
    return replace(
        one,
        name=f"{processes}x{one.device.name}",
        devices_per_node=processes,
        train_engine="deepspeed",
        zero_stage=3,
        network_gb_per_s=NETWORK_GB_PER_S,
    )


def installed_gpus() -> list[tuple[str, float]]:
    """Name and memory in GiB of this machine's GPUs, from the driver's own tool."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    lines = [line.rpartition(",") for line in done.stdout.splitlines() if "," in line]
    return [(name.strip(), float(mib) / 1024) for name, _, mib in lines] if done.returncode == 0 else []


def _present(preset: Preset, gpus: list[tuple[str, float]]) -> bool:
    return sum(bool(re.search(preset.device.match, name)) for name, _ in gpus) >= preset.devices_per_node


def _device(name: str, memory_gb: float | None) -> Device:
    known = {key.lower(): device for key, device in devices().items()}
    device = known.get(name.lower()) or known.get(f"{name.lower()}-80gb")
    if device is not None:
        return device if memory_gb is None else replace(device, memory_gib=memory_gb * 1e9 / GIB)
    if memory_gb is None:
        raise UserError(f"unknown device {name!r}, which takes --memory-gb; {nearest(name, devices())}")
    return Device(name=name, match=re.escape(name), memory_gib=memory_gb * 1e9 / GIB)
