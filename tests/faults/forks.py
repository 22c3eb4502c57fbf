"""Work in a copy of the tree, by forks that have the heavy imports behind them and none of our own modules."""

import os
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import transformers  # noqa: F401 - imported before the forks, once for all
from transformers import GPT2LMHeadModel, LlamaForCausalLM  # noqa: F401 - likewise

ROOT = Path(__file__).parents[2]
OURS = {"algorithms", "bench", "tasks", "tests", "docs"}


def forked(tree: Path, work: Callable[[], int], timeout_s: int, log: Path | None = None) -> int:
    """The exit code of `work`, which imports our modules afresh from the tree."""
    return os.waitstatus_to_exitcode(os.waitpid(spawned(tree, work, timeout_s, log), 0)[1])


def spawned(tree: Path, work: Callable[[], int], timeout_s: int, log: Path | None = None) -> int:
    """The same without waiting: its process id."""
    child = os.fork()
    if not child:
        signal.alarm(timeout_s)
        words = os.open(log or os.devnull, os.O_WRONLY | os.O_CREAT)
        os.dup2(words, 1)
        os.dup2(words, 2)
        os.chdir(tree)
        sys.path[:] = [str(tree), *(p for p in sys.path if Path(p or ".").resolve() != ROOT)]
        for name in [n for n in sys.modules if n.partition(".")[0] in OURS]:
            del sys.modules[name]
        sys.dont_write_bytecode = True
        code = 1
        try:
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    return child


def copy_tree(target: Path) -> None:
    """The tracked files as they are now."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\n")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
