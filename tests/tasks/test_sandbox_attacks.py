"""What a program can see and do in the sandbox, and ways to fake a verdict: one attack a test, all of our own."""

import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest

from tasks.sandbox import Asserts, Check, Isolation, Limits, Sandbox, Tests, UnitTests, grade, open_sandbox
from tasks.sandbox.cell.plain import Value
from tests.tasks.sandboxing import ADD, needs_sandbox

pytestmark = needs_sandbox
ISOLATIONS: tuple[Isolation, ...] = ("fork", "process")


@pytest.fixture(params=ISOLATIONS)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    return open_sandbox(Limits(wall_s=5), isolation=request.param)


def ask(sandbox: Sandbox, program: str, *calls: str) -> Sequence[Value]:
    ran = sandbox.call(program, calls or ["f()"])
    assert ran.error is None, ran
    return ran.values


# What it can see


def test_only_tmp_can_be_written(sandbox: Sandbox) -> None:
    program = """
import os
def f():
    written = []
    for folder, _, _ in os.walk("/"):
        try:
            open(os.path.join(folder, "probe"), "w").close()
            written.append(folder)
        except OSError:
            pass
    return written
"""
    assert ask(sandbox, program) == [["/tmp"]]
    assert not Path("/tmp/probe").exists(), "and it is a /tmp of its own"


def test_it_sees_no_secret_no_process_and_none_of_our_files(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    (tmp_path / "file").write_text("x")
    hidden = [str(tmp_path / "file"), __file__, "/etc/passwd", "/proc", "/sys", "/home"]
    program = f"""
import os, sys
def f():
    seen = [path for path in {hidden!r} if os.path.exists(path)]
    return seen, sorted(os.environ), os.getpid(), os.getppid()
"""
    expected = ["CUDA_VISIBLE_DEVICES", "HOME", "LANG", "PATH", "PWD", "PYTHONHASHSEED"]
    assert ask(sandbox, program) == [([], expected, 2, 1)]


def test_it_sees_neither_packages_nor_a_gpu(sandbox: Sandbox) -> None:
    paths = [p for p in sys.path if p] + [f"{sysconfig.get_path('stdlib')}/site-packages"]
    program = f"""
import os, sys
sys.path += {paths!r}
def f():
    found = []
    for name in ("torch", "numpy", "pip", "pytest", "tasks"):
        try:
            __import__(name)
            found.append(name)
        except ImportError:
            pass
    return found, [d for d in os.listdir("/dev") if d.startswith(("nvidia", "dri", "kfd", "sd", "vd", "mem"))]
"""
    assert ask(sandbox, program) == [([], [])]


def test_it_holds_no_file_descriptor_but_its_own(sandbox: Sandbox) -> None:
    program = """
import os
def f():
    found = []
    for fd in range(1024):
        try:
            found.append((fd, os.fstat(fd).st_mode & 0o170000))
        except OSError:
            pass
    return found
"""
    [found] = ask(sandbox, program)
    character, sock = 0o020000, 0o140000
    assert [kind for _, kind in found] == [character] * 3 + [sock], found


# What it can do

REFUSED = {
    "fork": "os.fork()",
    "thread": "__import__('_thread').start_new_thread(print, ())",
    "exec": "os.execv('/usr/bin/true', ['true'])",
    "spawn": "os.posix_spawn(sys.executable, ['python'], {})",
    "socket": "socket.socket(socket.AF_INET)",
    "unix socket": "socket.socket(socket.AF_UNIX)",
    "vsock": "socket.socket(40, socket.SOCK_STREAM)",
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "memfd": "os.memfd_create('x')",
    "shmget": "call(libc.shmget, 0, 4096, 0o1600)",
    "posix shared memory": "open('/dev/shm/x', 'w')",
    "ptrace": "call(libc.ptrace, 16, 1, 0, 0)",
    "unshare": "call(libc.unshare, 0x10000000)",
    "mount": "call(libc.mount, b'tmpfs', b'/usr', b'tmpfs', 0, None)",
    "umount": "call(libc.umount2, b'/cell', 2)",
    "chroot": "os.chroot('/tmp')",
    "setuid": "os.setuid(1)",
    "mknod": "os.mknod('/tmp/null', 0o20666, os.makedev(1, 3))",
    "raise a limit": "resource.setrlimit(resource.RLIMIT_AS, (2**40, 2**40))",
    "bpf": "call(libc.syscall, 321, 0, 0, 0)",
    "io_uring": "call(libc.syscall, 425, 1, 0)",
    "x32 numbering": "call(libc.syscall, 0x40000000 + 39)",
}


@pytest.mark.parametrize("attack", REFUSED.values(), ids=REFUSED)
def test_it_is_refused(attack: str) -> None:
    program = """
import ctypes, os, resource, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(function, *args):
    if function(*args) == -1:
        raise OSError(ctypes.get_errno(), "refused")
def f(attack):
    try:
        eval(attack)
    except (OSError, RuntimeError, ValueError):
        return "refused"
    return "done"
"""
    ran = open_sandbox(Limits()).call(program, [f"f({attack!r})"])
    assert list(ran.values) == ["refused"] or ran.error == "died", ran


def test_it_has_no_capability(sandbox: Sandbox) -> None:
    program = """
import ctypes, struct
def f():
    sets = ctypes.create_string_buffer(24)
    assert ctypes.CDLL(None).capget(struct.pack("Ii", 0x20080522, 0), sets) == 0
    return sets.raw.hex()
"""
    assert ask(sandbox, program) == ["00" * 24]


def test_its_files_and_memory_are_limited(sandbox: Sandbox) -> None:
    program = """
import os
def fill():
    total = 0
    try:
        for n in range(1000):
            with open(f"/tmp/{n}", "wb") as file:
                for _ in range(16):
                    total += file.write(bytes(2**20))
    except OSError:
        return total
def inodes():
    try:
        for n in range(5000):
            open(f"/tmp/small{n}", "w").close()
    except OSError:
        return n
def memory():
    try:
        return len(bytearray(600 * 2**20))
    except MemoryError:
        return "refused"
"""
    inodes, memory = ask(sandbox, program, "inodes()", "memory()")
    assert memory == "refused"
    if sandbox.isolation == "fork":
        assert inodes < 1024
    [filled] = ask(sandbox, program, "fill()")
    assert filled <= 64 * 2**20


# Faking a verdict

SECRET = Asserts(asserts=["assert add(40213, 8127) == 48340", "assert add(40213, 1) == 40214"])
SECRET_CHECK = Check(test="def check(candidate):\n    assert candidate(40213, 8127) == 48340", entry_point="add")
CASE = """
import unittest
class T(unittest.TestCase):
    def test_a(self):
        self.assertEqual(add(40213, 8127), 48340)
"""
SECRET_UNITS = UnitTests(modules=[CASE])


def shout(said: bytes, then: str = "os._exit(0)") -> str:
    """A program that writes to every file descriptor it may hold."""
    loop = f"for fd in range(3, 64):\n    try:\n        os.write(fd, {said!r})\n    except OSError:\n        pass\n"
    return f"import os\n{loop}{then}\n"


CHEATS = {
    "equal to all": "class E:\n    __eq__ = lambda s, o: True\n    __hash__ = None\ndef add(a, b):\n    return E()",
    "equal list": "class E(list):\n    __eq__ = lambda s, o: True\ndef add(a, b):\n    return E()",
    "nan": "def add(a, b):\n    return float('nan')",
    "patched builtins": "import builtins\nbuiltins.all = lambda *a: True\ndef add(a, b):\n    return None",
    "patched encoder": """
import sys
for module in list(sys.modules.values()):
    if hasattr(module, "encode") and hasattr(module, "decode") and "plain" in module.__name__:
        module.encode = lambda value: {"passed": True}
    if "candidate" in module.__name__ and hasattr(module, "_send"):
        module._send = lambda channel, reply: channel.sendall(b'{"value": true}\\n' * 9)
def add(a, b):
    return None
""",
    "answers ahead": shout(b'{"value": null}\n{"value": true}\n' * 20, "def add(a, b):\n    return None"),
    "verdicts ahead": shout(b'{"failure": null}\n{"done": 3, "calls": 3}\n' * 20, "def add(a, b):\n    return None"),
    "deep answer": shout(b"[" * 100000 + b"\n"),
    "no utf-8": shout(b"\xff\xfe\n"),
    "unhashable set": shout(b'{"value": null}\n{"value": {"set": [[1]]}}\n' * 9),
    "leaves": "def add(a, b):\n    raise SystemExit(0)",
    "interrupts": "def add(a, b):\n    raise KeyboardInterrupt",
    "skips": "import unittest\ndef add(a, b):\n    raise unittest.SkipTest('x')",
    "false assertion": "class AssertionError(Exception): pass\ndef add(a, b):\n    raise AssertionError",
    "own check": "def check(candidate): pass\ndef add(a, b):\n    return None",
    "own name": "class add:\n    def __init__(self, a, b): pass\n    def __eq__(self, other): return True",
    "the value in a frame": """
import sys
def add(a, b):
    frame, seen = sys._getframe(), []
    while frame:
        seen += [repr(frame.f_locals)[:100000], repr(frame.f_code.co_consts), repr(frame.f_globals)[:100000]]
        frame = frame.f_back
    return a + b if any(str(a + b) in text for text in seen) else None
""",
    "the value on the heap": """
import gc
def add(a, b):
    seen = [repr(o)[:2000] for o in gc.get_objects() if type(o) in (list, dict, tuple, set)]
    return a + b if any(str(a + b) in text for text in seen) else None
""",
}


@pytest.mark.parametrize("tests", [SECRET, SECRET_CHECK, SECRET_UNITS], ids=["asserts", "check", "unittest"])
@pytest.mark.parametrize("cheat", CHEATS.values(), ids=CHEATS)
def test_a_cheat_does_not_pass(cheat: str, tests: Tests) -> None:
    verdict = grade(open_sandbox(Limits(wall_s=5)), cheat, tests)
    assert verdict.passed == 0, verdict
    assert grade(open_sandbox(Limits(wall_s=5)), ADD, tests).all_passed, "and the next program is judged as ever"


def test_a_helper_of_the_checker_is_the_prompts_own() -> None:
    """HumanEval/32 checks a root with `poly` of its prompt; a program that redefines it must not set its own bar."""
    prelude = 'def twice(x):\n    return 2 * x\n\ndef half(x):\n    """The y with twice(y) == x."""\n'
    tests = Check(
        test="def check(candidate):\n    assert twice(candidate(10)) == 10", entry_point="half", prelude=prelude
    )
    sandbox = open_sandbox(Limits())
    assert grade(sandbox, "def half(x):\n    return x // 2", tests).all_passed
    assert not grade(sandbox, "def twice(x):\n    return 10\ndef half(x):\n    return 0", tests).all_passed


def test_exceptions_cross_by_name() -> None:
    units = UnitTests(
        modules=[
            "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n"
            "        with self.assertRaisesRegex(ValueError, 'bad'):\n            f(0)\n"
        ]
    )
    sandbox = open_sandbox(Limits())
    assert grade(sandbox, "def f(x):\n    raise ValueError('bad')", units).all_passed
    assert not grade(sandbox, "def f(x):\n    raise KeyError('bad')", units).all_passed
    assert not grade(
        sandbox, "class ValueError2(Exception): pass\ndef f(x):\n    raise ValueError2('bad')", units
    ).all_passed


def test_what_ran_unprotected_is_still_judged_from_outside() -> None:
    """Without a sandbox nothing is protected; a verdict still needs right answers."""
    sandbox = open_sandbox(Limits(), isolation="none")
    assert grade(sandbox, ADD, SECRET).all_passed
    assert not grade(sandbox, "import os\nos._exit(0)", SECRET).all_passed
    assert not grade(sandbox, CHEATS["equal to all"], SECRET_CHECK).all_passed
    assert grade(sandbox, ADD, SECRET_UNITS).all_passed
