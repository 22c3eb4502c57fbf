"""Arms of the ready lists take two steps, so that none is found broken after hours."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.ground.files import read_json, read_rows
from bench.ground.tree import flatten, plain
from bench.session.run import start
from bench.settings.flags import Chosen
from bench.study.file import READY, read_study
from bench.study.schedule import schedule


def short_arms() -> dict[str, Chosen]:
    """One arm of all lists for each method and each set of settings that are not the method's own."""
    found: dict[str, Chosen] = {}
    for path in sorted(READY.glob("*.toml")):
        for run in schedule(replace(read_study(path.stem), seeds=1), Path("runs")):
            config = run.chosen.config
            given, usual = flatten(plain(config.algo)), flatten(plain(type(config.algo)()))
            changed = [name for name, value in given.items() if value != usual[name]]
            changed += [f"critic.num_epochs {config.critic.num_epochs}", "lag" if config.rollout_lag else ""]
            found.setdefault(" ".join([run.chosen.algo_name, *changed]), run.chosen)
    return found


ARMS = short_arms()


@pytest.mark.parametrize("name", list(ARMS))
def test_an_arm_of_the_ready_lists_takes_two_steps(name: str, tmp_path: Path) -> None:
    chosen = ARMS[name]
    config = replace(
        chosen.config,
        budget="steps=2",
        samples_per_step=2 * max(4, chosen.config.algo.group_size),
        eval=replace(chosen.config.eval, limit=0, every=0, checkpoint="last"),
        out=tmp_path,
        quiet=True,
    )
    assert start(replace(chosen, config=config)) == 0
    (path,) = tmp_path.iterdir()
    assert read_json(path / "summary.json")["status"] == "finished"
    assert len(read_rows(path / "steps.jsonl")) == 2
