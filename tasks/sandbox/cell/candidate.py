"""Runs one untrusted program and answers calls. Whatever it sends is a claim about values, never a verdict."""

import json
import os
import socket
import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from .plain import Value, decode, encode


def functions(channel: socket.socket) -> None:
    """Loads a program, then evaluates what it is asked for until the other side hangs up.

    First line in: {"program": str, "calls": [expression, ...]}; later lines: {"name": str, "args": [...],
    "kwargs": {...}}. One line out for the loading and one for each call: {"value": ...}, or {"raised": class
    name, "message": str, "compiled": bool}.
    """
    lines = channel.makefile("r", encoding="utf-8", newline="\n")
    request = json.loads(lines.readline())
    module = ModuleType("candidate")
    sys.modules["candidate"] = module
    code = None
    try:
        code = compile(request["program"], "<candidate>", "exec", dont_inherit=True)
        exec(code, module.__dict__)
    except BaseException as error:
        _send(channel, _raised(error) | {"compiled": code is not None})
        return
    _send(channel, {"value": None})
    for call in request["calls"]:
        _answer(channel, partial(_evaluate, module, call))
    for line in lines:
        asked = json.loads(line)
        args, kwargs = decode(asked["args"]), {k: decode(v) for k, v in asked["kwargs"].items()}
        _answer(channel, partial(_apply, module, asked["name"], args, kwargs))


def script(channel: socket.socket, output: socket.socket) -> None:
    """Runs a program as a script, with `output` as its standard output.

    Line in: {"program": str, "stdin": str}. Line out when it has ended, as for the loading of functions.
    """
    request = json.loads(channel.makefile("r", encoding="utf-8", newline="\n").readline())
    given = os.open("/tmp", os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(given, request["stdin"].encode())
    os.lseek(given, 0, os.SEEK_SET)
    for fd, target in ((given, 0), (output.detach(), 1)):
        os.dup2(fd, target)
        os.close(fd)
    sys.stdin, sys.stdout = os.fdopen(0, encoding="utf-8"), os.fdopen(1, "w", encoding="utf-8")
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    reply: dict[str, Any] = {"value": None}
    try:
        exec(compile(request["program"], "<candidate>", "exec", dont_inherit=True), module.__dict__)
    except SystemExit as error:
        reply = {"value": None} if not error.code else _raised(error)
    except BaseException as error:
        reply = _raised(error)
    sys.stdout.close()
    _send(channel, reply)


def _evaluate(module: ModuleType, call: str) -> Value:
    return eval(compile(call, "<call>", "eval"), module.__dict__)


def _apply(module: ModuleType, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return getattr(module, name)(*args, **kwargs)


def _answer(channel: socket.socket, evaluate: Callable[[], Value]) -> None:
    try:
        reply = {"value": encode(evaluate())}
    except BaseException as error:  # SystemExit too: leaving is not passing
        reply = _raised(error)
    _send(channel, reply)


def _raised(error: BaseException) -> dict[str, Any]:
    try:
        message = str(error)[:200]
    except BaseException:  # the exception's class is the candidate's
        message = ""
    return {"raised": type(error).__name__, "message": message}


def _send(channel: socket.socket, reply: dict[str, Any]) -> None:
    channel.sendall(json.dumps(reply).encode() + b"\n")
