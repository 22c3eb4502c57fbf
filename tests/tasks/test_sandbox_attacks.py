"""What a program can see and do in the sandbox, and ways to fake a verdict: one attack a test, all of our own."""

import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest

from tasks.sandbox import Asserts, Check, Isolation, Limits, Sandbox, Tests, UnitTests, grade, open_sandbox
from tasks.sandbox.cell.plain import Value
from tasks.sandbox.run import Large
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


TOUCH = """
import os
FOUND = ["/"]
for top, folders, files in os.walk("/"):
    if top == "/":
        folders.remove("tmp")
    FOUND += [os.path.join(top, name) for name in (*folders, *files)]
def seen():
    return {p: (s.st_mode, s.st_uid, s.st_gid, s.st_nlink, s.st_atime_ns, s.st_mtime_ns, s.st_ctime_ns)
            for p in FOUND for s in (os.lstat(p),)}
def ways(p, mode):
    return {"mode": lambda: os.chmod(p, mode), "owner": lambda: os.chown(p, -1, -1), "times": lambda: os.utime(p),
            "attribute": lambda: os.setxattr(p, "user.probe", b"x")}
def more(p):
    return {"link": lambda: os.link(p, "/tmp/link"), "name": lambda: os.rename(p, p + "~"), "gone": lambda: os.rmdir(p),
            "size": lambda: os.close(os.open(p, os.O_RDWR | os.O_TRUNC)) or p == "/dev/null" and 1 / 0,
            "link's times": lambda: os.utime(p, follow_symlinks=False)}
def f():
    before, done = seen(), []
    tries = [(p, ways(p, before[p][0] & 0o7777)) for p in FOUND if os.path.exists(p)]
    tries += [(fd, ways(fd, 0o666)) for fd in (0, 1, 2)]
    tries += [(p, more(p)) for p in FOUND if not p.startswith(("/usr/lib/", "/usr/local/lib/"))] + [
        (p, more(p)) for p in FOUND[::97]]
    for target, kinds in tries:
        for kind, attempt in kinds.items():
            try:
                attempt()
                done.append((target, kind))
            except (OSError, ZeroDivisionError):
                pass
    after = seen()
    return done[:9], [p for p in FOUND if before[p] != after[p]][:9], len(FOUND)
"""


def test_nothing_outside_tmp_changes_in_any_attribute(sandbox: Sandbox) -> None:
    """The attempts keep each value as it is, so that a hole shows as a call that succeeded and harms nothing."""
    nodes = [Path("/dev") / name for name in ("null", "zero", "full", "random", "urandom", "tty")]
    before = [(n.stat().st_mode, n.stat().st_ctime_ns) for n in nodes]
    ran = open_sandbox(Limits(wall_s=60), isolation=sandbox.isolation).call(TOUCH, ["f()"])
    [(done, changed, count)] = ran.values
    assert done == []
    assert changed == []
    assert count > 500
    assert [(n.stat().st_mode, n.stat().st_ctime_ns) for n in nodes] == before, "nor did the machine's own nodes"


def test_there_is_one_device_and_no_terminal(sandbox: Sandbox) -> None:
    program = """
import os
def f():
    sink = open("/dev/null", "r+b", buffering=0)
    try:
        os.openpty()
        return "a terminal"
    except OSError:
        return os.listdir("/dev"), sink.write(b"x"), sink.read(), len(os.urandom(8))
"""
    assert ask(sandbox, program) == [(["null"], 1, b"", 8)]


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
    "asynchronous I/O": "call(libc.syscall, 206, 8, ctypes.byref(ctypes.c_ulong()))",
    "inotify": "call(libc.inotify_init)",
    "inotify with flags": "call(libc.inotify_init1, 0)",
    "fanotify": "call(libc.fanotify_init, 0x200, 0)",
    "syncfs": "call(libc.syncfs, 0)",
    "dumpable": "call(libc.prctl, 4, 1, 0, 0, 0)",
    "dumpable, high bits set": "call(libc.prctl, ctypes.c_ulong(2**32 + 4), 1, 0, 0, 0)",
    "core limit": "resource.setrlimit(resource.RLIMIT_CORE, (1, 1))",
    "lock": "fcntl.flock(os.open(os.__file__, os.O_RDONLY), fcntl.LOCK_EX)",
    "record lock": "fcntl.lockf(os.open(os.__file__, os.O_RDONLY), fcntl.LOCK_SH)",
    "lease": "fcntl.fcntl(os.open(os.__file__, os.O_RDONLY), 1024, fcntl.F_RDLCK)",
    "larger pipe": "fcntl.fcntl(os.pipe()[1], 1031, 2**20)",
    "abstract socket": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].bind('\\0left')",
    "semaphores": "call(libc.semget, 0, 1, 0o1600)",
    "message queue": "call(libc.msgget, 0, 0o1600)",
    "posix message queue": "call(libc.syscall, 240, b'x', 0o102, 0o600, None)",
    "key ring": "call(libc.syscall, 248, b'user', b'x', b'y', 1, -3)",
    "page cache": "call(libc.posix_fadvise64, 0, 0, 0, 4) and None or call(libc.syscall, 221, 0, 0, 0, 4)",
    "kernel log": "call(libc.klogctl, 10, 0, 0)",
    "remount": "call(libc.mount, None, b'/dev/null', None, 0x1020, None)",
    "device in /tmp": "os.mknod('/tmp/full', 0o20666, os.makedev(1, 7))",
    "its own root": "os.stat('/proc/self/root')",
    "its own descriptors": "os.chmod('/proc/self/fd/0', 0o666)",
    "many timers": "[call(libc.timer_create, 0, None, ctypes.byref(ctypes.c_void_p())) for _ in range(65)]",
    "x32 numbering": "call(libc.syscall, 0x40000000 + 39)",
}


@pytest.mark.parametrize("attack", REFUSED.values(), ids=REFUSED)
def test_it_is_refused(attack: str) -> None:
    program = """
import ctypes, fcntl, os, resource, socket, sys
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
    assert inodes < 1024
    [filled] = ask(sandbox, program, "fill()")
    assert filled <= 64 * 2**20


def test_a_sync_ends_the_program(sandbox: Sandbox) -> None:
    """The call reports no failure, so refusing it would let a program go on as if it had been made."""
    assert sandbox.call("import os\nos.sync()", []).error == "died"


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


LOOPS = {
    "zip": "for got, want in zip(map(candidate, [1, -4], [2, 9]), [3, 5]):\n        assert got == want",
    "all": "assert all(map(lambda a, b: candidate(a, b) == a + b, [1, 2], [3, 4]))",
    "iter": "for got in iter(lambda: candidate(1, 2), 3):\n        assert False",
    "next": "assert next((x for x in map(candidate, [1], [2])), 3) == 3",
    "getitem": "class S:\n        __getitem__ = lambda s, i: candidate(i, i + 1)\n    for got in S():\n        break",
    "hasattr": "class S:\n        x = property(lambda s: candidate(1, 2))\n    assert not hasattr(S(), 'x')",
}
RAISED = ["StopIteration", "StopAsyncIteration", "GeneratorExit", "IndexError", "AttributeError", "KeyboardInterrupt"]


@pytest.mark.parametrize("raised", [*RAISED, "SystemExit", "BaseException", "type('E', (StopIteration,), {})"])
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_an_exception_that_a_loop_swallows_fails(loop: str, raised: str) -> None:
    tests = Check(test=f"def check(candidate):\n    {loop}\n", entry_point="add")
    assert not grade(open_sandbox(Limits()), f"def add(a, b):\n    raise {raised}", tests).all_passed


def test_a_builtin_around_the_call_is_not_the_programs_word() -> None:
    """Evaluated in the program, `any` would swallow the StopIteration."""
    tests = Asserts(asserts=["assert any(map(add, [1], [2])) == False"])
    assert not grade(open_sandbox(Limits()), "def add(*_):\n    raise StopIteration", tests).all_passed
    tests = Asserts(asserts=["assert sum(10, 15) == 25"])
    assert grade(open_sandbox(Limits()), "def sum(a, b):\n    return a + b", tests).all_passed


def test_leaving_is_not_the_exception_that_a_test_waits_for() -> None:
    case = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n"
    tests = UnitTests(modules=[f"{case}        with self.assertRaises(Exception):\n            add(1, None)\n"])
    assert grade(open_sandbox(Limits()), ADD, tests).all_passed
    for leaving in ("raise SystemExit", "raise StopIteration", "import os; os._exit(0)", "return object()"):
        assert not grade(open_sandbox(Limits()), f"def add(a, b):\n    {leaving}", tests).all_passed


def test_what_a_program_says_about_its_error_is_one_short_line(sandbox: Sandbox) -> None:
    said = shout(b'{"raised": "' + b"<b>\\n\\ud800" * 9999 + b'", "message": ""}\n', "import time; time.sleep(9)")
    error = sandbox.call(said, ["f()"]).error
    assert error is not None
    assert len(error) <= 200
    assert error.isprintable()


def test_equal_hashes_cost_the_harness_nothing(sandbox: Sandbox) -> None:
    program = "def f(n):\n    return {i * (2**61 - 1) for i in range(n)}"
    assert sandbox.call(program, ["f(2)"]).values == [{0, 2**61 - 1}]
    [value] = sandbox.call(program, ["f(6000)"]).values
    assert isinstance(value, Large), "it was not decoded, so nothing of it was hashed here"
    assert sandbox.equal([(value, {1})]) == [False]
    big = Asserts(asserts=[f"assert f(3000) == {list(range(3000))}", f"assert f(2999) == {list(range(3000))}"])
    assert [f is None for f in grade(sandbox, "def f(n):\n    return list(range(n))", big).failures] == [True, False]


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
