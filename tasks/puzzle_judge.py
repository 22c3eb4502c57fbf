"""The judges of reasoning-gym. Runs in a worker only: some of them evaluate the answer as Python."""

import json
from functools import cache
from typing import Any

from reasoning_gym.factory import get_score_answer_fn


def grade_answer(entry: str, answer: str) -> float:
    """The library's own score of an answer to an entry (JSON), 1 for a right one."""
    row = json.loads(entry)
    return float(_judge(row["metadata"]["source_dataset"])(answer, row))


@cache
def _judge(name: str) -> Any:  # noqa: ANN401 (the library's annotation says that it takes no arguments)
    return get_score_answer_fn(name)
