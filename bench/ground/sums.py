"""Checksums of a folder's files, kept beside them: what was changed after it was written is told, never used."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from bench.ground.errors import UserError
from bench.ground.files import read_json, write_json

SUMS = "sha256.json"  # path below the folder -> SHA-256 of the file's bytes, in hex


def seal(folder: Path, files: Iterable[Path]) -> None:
    """Write the checksums of these files of the folder."""
    write_json(folder / SUMS, {str(file.relative_to(folder)): sha256(file) for file in sorted(files)})


def unseal(folder: Path) -> None:
    """Forget them: the files are going to change."""
    (folder / SUMS).unlink(missing_ok=True)


def verify(folder: Path, below: str = "") -> bool:
    """Hold the sealed files whose path starts with `below` against their checksums; False where none were kept.

    Raises:
        UserError: a file is gone or was changed, or the checksums cannot be read.
    """
    if not (folder / SUMS).exists():
        return False
    for name, expected in read_json(folder / SUMS).items():
        if name.startswith(below):
            file = folder / name
            try:
                found = sha256(file)
            except (OSError, ValueError) as error:
                raise UserError(f"{file}: cannot be read, and {folder / SUMS} says that it was written") from error
            if found != expected:
                raise UserError(f"{file} was changed after it was written: its SHA-256 is not that in {SUMS}")
    return True


def sha256(file: Path) -> str:
    """Of a file's bytes, in hex."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
