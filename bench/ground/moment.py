"""The time that a run's prompts may show: one for a whole run, and one for all runs of a study."""

import os
from datetime import UTC, datetime
from pathlib import Path

from bench.ground.errors import UserError
from bench.ground.files import read_json, write_json

VARIABLE = "BENCH_TIME"  # in the environment: the time to take instead of the clock's, as ISO 8601
FILE = "time.json"


def start_time() -> datetime:
    """Now, or what the environment says instead.

    Raises:
        UserError: that is no time.
    """
    text = os.environ.get(VARIABLE)
    return read_time(text, VARIABLE) if text else datetime.now(UTC).replace(microsecond=0)


def read_time(text: str, place: str) -> datetime:
    """A recorded time; one without a zone is taken as UTC.

    Raises:
        UserError: it is none.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise UserError(f"{place}: {text} is no time such as 2026-12-01T00:00:00+00:00") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def of_study(folder: Path) -> dict[str, str]:
    """For the environment of a study's runs: the time that it began at, however long it goes on."""
    path = folder / FILE
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, {"time": start_time().isoformat()})
    return {VARIABLE: str(read_json(path)["time"])}
