"""Writes docs/metrics.md from the code: `python -m docs.generate_metrics`. A test keeps the two together."""

from itertools import groupby
from pathlib import Path

from bench.ground.metric_reference import METRICS

HEAD = """\
# Metrics

*Generated from `bench/metric_reference.py` by `python -m docs.generate_metrics`; edit that, not this page.*

One row of `steps.jsonl` is one step. A metric means the same thing for every algorithm. *Over* says what its mean is
taken over: each token, completion, prompt or update weighs the same; `step` and `run` are single figures. A figure
that does not exist is absent, never 0. Cumulative figures count from the start of the run. In a run of several
processes, times are the first one's, whose phases wait for the slowest; memory is that of the fullest; all else is over
all of them.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for group, metrics in groupby(METRICS, key=lambda m: m.name.partition("/")[0]):
        parts.append(f"\n## {group}\n\n| name | unit | over | definition |\n| --- | --- | --- | --- |\n")
        parts.extend(
            f"| `{m.name}` | {m.unit} | {m.over} | {m.definition.replace('|', chr(92) + '|')} |\n" for m in metrics
        )
    return "".join(parts)


if __name__ == "__main__":
    (Path(__file__).parent / "metrics.md").write_text(page())
