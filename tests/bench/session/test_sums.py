"""Checksums: a changed byte is found, and what was never sealed is still read."""

from pathlib import Path

import pytest

from bench.ground.errors import UserError
from bench.ground.sums import seal, verify


def test_every_flipped_byte_and_every_cut_is_found(tmp_path: Path) -> None:
    file = tmp_path / "engine.pt"
    content = bytes(range(256))
    file.write_bytes(content)
    assert not verify(tmp_path), "a folder of an older version has none"
    seal(tmp_path, [file])
    assert verify(tmp_path)
    for place in range(0, 256, 7):
        file.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        with pytest.raises(UserError, match="changed after it was written"):
            verify(tmp_path)
    file.unlink()
    with pytest.raises(UserError, match="cannot be read"):
        verify(tmp_path)
    assert verify(tmp_path, "model/"), "only what is read is held against its sum"
