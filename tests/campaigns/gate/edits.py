"""Edits the records of a red check at random, often: `python -m tests.campaigns.gate.edits [N]`, 500 times unless told.

Each time one to three edits on either side, as in the tests: files and runs removed, rows doubled, values broken, files
cut, seeds and arms renumbered. Prints what turned red to green, and is red itself when anything did.
"""

import contextlib
import io
import os
import sys
import tempfile
from pathlib import Path

from tests.bench.gate.test_complete import greens, make_sides, verdict


def main(count: int) -> int:
    """Edit and check; 1 when an edit made the check green."""
    with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stdout(io.StringIO()):
        os.chdir(scratch)
        sides = make_sides(Path(scratch))
        assert verdict(*sides) == 1
        found = greens(*sides, count=count)
    print(f"{len(found)} of {count} edits turned red to green", *found, sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 500))
