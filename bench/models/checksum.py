"""What a model's folder holds, in one checksum: a run that goes on must find the model that it began with."""

import hashlib
from pathlib import Path
from typing import Any

from bench.models import lora

FILES = ("*.safetensors", "*.bin", "*.json", "*.model", "*.txt", "*.jinja")
WHOLE = 2**26  # bytes up to which a file is read whole; of a larger one BLOCKS blocks, evenly over it
BLOCK, BLOCKS = 2**16, 1024


def of_model(location: str, config: Any = None) -> str | None:  # noqa: ANN401 - as a library has it
    """Of the folder's files, an adapter's base with it; of a model of the hub its revision; None: not known."""
    folder = Path(location)
    if not folder.is_dir():
        return getattr(config, "_commit_hash", None)
    digest = hashlib.sha256()
    for file in sorted({file for pattern in FILES for file in folder.glob(pattern) if file.is_file()}):
        digest.update(f"{file.name} {file.stat().st_size}\n".encode())
        digest.update(sample(file))
    if lora.adapter_folder(location) is not None:
        digest.update(str(of_model(lora.base_of(folder), config)).encode())
    return digest.hexdigest()


def sample(file: Path) -> bytes:
    """Digest of a file's content: of all of it, or of enough to tell two models apart in a fraction of a second."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        if size <= WHOLE:
            return hashlib.file_digest(stream, "sha256").digest()
        digest = hashlib.sha256()
        for i in range(BLOCKS):
            stream.seek(i * (size - BLOCK) // (BLOCKS - 1))
            digest.update(stream.read(BLOCK))
    return digest.digest()
