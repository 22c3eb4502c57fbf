"""The base that a change is held against: a folder, or a commit of the repository that we are in."""

import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from bench.ground.errors import UserError


@contextmanager
def base_tree(base: str) -> Generator[Path]:
    """The folder that corresponds to this one at the base; a commit is checked out beside it while the block lasts.

    Raises:
        UserError: neither a folder nor a commit that is here.
    """
    if Path(base).is_dir():
        yield Path(base).resolve()
        return
    root = git("rev-parse", "--show-toplevel", base=base)
    commit = git("rev-parse", "--verify", "--quiet", f"{base}^{{commit}}", base=base)
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "base"
        git("worktree", "add", "--detach", "--quiet", str(tree), commit, base=base)
        try:
            yield tree / Path.cwd().relative_to(root)
        finally:
            git("worktree", "remove", "--force", str(tree), base=base)


def head_commit() -> str:
    """The commit that we are at, `with changes` where files differ from it."""
    shown = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
    status = ["git", "status", "--porcelain", "--untracked-files=no"]
    changes = subprocess.run(status, capture_output=True, text=True, check=False)
    return shown.stdout.strip() + " with changes" * bool(changes.stdout.strip()) or "not a checkout"


def git(*arguments: str, base: str) -> str:
    """What git prints.

    Raises:
        UserError: it fails.
    """
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or ["no such commit here; fetch it (in CI: fetch-depth: 0)"]
        raise UserError(f"--base {base}: neither a folder nor a commit that can be checked out: {said[0]}")
    return done.stdout.strip()
