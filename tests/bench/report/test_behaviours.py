"""The report's line on reasoning behaviours: there for every arm, recorded or not."""

import json
from pathlib import Path

from bench.report.command import report
from tests.bench.factory import make_run


def add_behaviours(run: Path, first: float, last: float) -> None:
    rows = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
    for i, row in enumerate(rows):
        row["behaviour/exact"] = 0.0
        for name in ("verification", "backtracking", "subgoals", "backward_chaining"):
            row[f"behaviour/right/{name}"] = row[f"behaviour/right_per_100_tokens/{name}"] = 0.0
        row["behaviour/right_per_100_tokens/backtracking"] = first if i == 0 else last
    (run / "steps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_every_arm_has_its_line_whatever_was_recorded(tmp_path: Path) -> None:
    for seed in (0, 1):
        add_behaviours(make_run(tmp_path / "runs", "grpo", seed), first=0.5 + seed, last=2.0)
        make_run(tmp_path / "runs", "ppo", seed)
    report([tmp_path / "runs"], tmp_path / "report")
    text = (tmp_path / "report" / "report.md").read_text()
    assert "backtracking 1 to 2, subgoals 0 to 0" in text  # the mean over the two seeds at the first step
    assert "ppo: not recorded by these runs." in text
    table = (tmp_path / "report" / "tables" / "behaviours.md").read_text()
    assert "by words" in table
    assert "ppo" not in table
