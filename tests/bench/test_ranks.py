"""How work is shared out over ranks. What real processes make of it: tests/bench/engines/test_deepspeed.py."""

import importlib.util
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.batch import micro_batches, shared_out
from bench.cli import main
from bench.ranks import ALONE, Ranks
from tests.bench.support import ragged


def test_one_process_needs_no_others() -> None:
    assert ALONE.leads
    assert ALONE.share([3, 1, 2]) == ALONE.collect([3, 1, 2]) == [3, 1, 2]
    assert ALONE.sum({"a": 1.5}) == ALONE.largest({"a": 1.5}) == {"a": 1.5}
    assert ALONE.total(torch.ones(2)).tolist() == [1, 1]
    assert not ALONE.any(False)


@given(st.integers(0, 20), st.integers(1, 5))
def test_shares_are_disjoint_and_even(count: int, size: int) -> None:
    shares = [Ranks(rank, size).share(range(count)) for rank in range(size)]
    assert sorted(item for share in shares for item in share) == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(st.integers(0, 5), st.integers(1, 4), st.integers(1, 12), st.integers(1, 60))
def test_every_rank_makes_as_many_passes_and_every_row_counts_once(
    seed: int, size: int, num_rows: int, max_tokens: int
) -> None:
    """Across ranks: rows that do not divide, ranks without any."""
    sequences = ragged(seed, rows=12)
    rows = torch.randperm(12, generator=torch.Generator().manual_seed(seed))[:num_rows]
    shares = [shared_out(sequences, rows, max_tokens, Ranks(rank, size)) for rank in range(size)]
    assert len({len(share) for share in shares}) == 1
    counted = [row for share in shares for part, counts in share if counts for row in part.tolist()]
    assert sorted(counted) == sorted(rows.tolist())
    idle = {row for share in shares for part, counts in share if not counts for row in part.tolist()}
    assert idle <= set(rows.tolist())
    for share in shares:
        for part, _ in share:
            assert len(part) == 1 or sequences.pad(part).tokens.numel() <= max_tokens


def test_one_rank_makes_the_micro_batches_of_one_process() -> None:
    sequences, rows = ragged(3, rows=9), torch.tensor([8, 1, 5, 0, 7])
    ours = shared_out(sequences, rows, 30, ALONE)
    assert [part.tolist() for part, _ in ours] == [part.tolist() for part in micro_batches(sequences, rows, 30)]
    assert all(counts for _, counts in ours)


@pytest.mark.skipif(importlib.util.find_spec("deepspeed") is not None, reason="deepspeed is installed")
def test_without_the_extra_one_line_names_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--engine", "deepspeed", "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == (
        'error: --engine deepspeed needs deepspeed: pip install "ppo-vs-grpo-bench[deepspeed]"\n'
    )
    assert not (tmp_path / "out").exists()
