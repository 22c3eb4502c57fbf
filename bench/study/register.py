"""What a study promised before its first run: its contrasts, margin, seeds and settings, by hash."""

import json
from datetime import UTC, datetime
from pathlib import Path

from bench.ground.errors import UserError
from bench.ground.files import read_json, write_json
from bench.ground.registration import FILE, Registration
from bench.ground.tree import fingerprint, plain
from bench.study.schedule import Study


def promised(study: Study) -> dict[str, object]:
    """What may not change once a run has started; the number of seeds is kept apart, as looks."""
    tree = plain(study)
    return {name: value for name, value in tree.items() if name not in ("question", "seeds")}


def register(study: Study, folder: Path) -> Registration:
    """Write the promise, or hold the study to the one it made. A study without primary contrasts makes none.

    Raises:
        UserError: the study has changed since.
    """
    if not study.primary:
        return Registration(primary=(), margin=study.margin, looks=(study.seeds,))
    promise, path = json.loads(json.dumps(promised(study))), folder / FILE
    mark = fingerprint(promise)
    looks = [study.seeds]
    if path.exists():
        before = read_json(path)
        if before["sha256"] != mark:
            changed = [
                name for name, value in promise.items() if json.loads(json.dumps(value)) != before["study"].get(name)
            ]
            raise UserError(
                f"{folder} was registered with another {', '.join(changed)} before its first run: "
                "give the changed study a --name of its own"
            )
        looks = [*(n for n in before["looks"] if n < study.seeds), study.seeds]
        if study.seeds < max(before["looks"]):
            looks = before["looks"]
        registered_at = before["registered_at"]
    else:
        registered_at = datetime.now(UTC).isoformat(timespec="seconds")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path, {"sha256": mark, "registered_at": registered_at, "looks": looks, "study": promise})
    return Registration(primary=study.primary, margin=study.margin, looks=looks, sha256=mark)
