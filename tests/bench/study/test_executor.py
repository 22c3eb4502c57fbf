"""Where runs are carried out: what is refused, what a run needs, what travels, and what the table tells."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from bench.ground.errors import UserError
from bench.study.board import Board, last_line
from bench.study.cluster import folders_of, open_cluster
from bench.study.config import ExecutorConfig
from bench.study.needs import Needs, needs_of_run
from bench.study.node import pack, unpack
from bench.study.schedule import Planned, schedule
from tests.bench.study.studies import arm, study


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (ExecutorConfig(jobs=0), "--jobs 0"),
        (ExecutorConfig(ray_cores=0), "--ray-cores 0"),
        (ExecutorConfig(ray_address="auto"), "add --executor ray"),
    ],
)
def test_settings_that_cannot_be_are_refused(config: ExecutorConfig, said: str) -> None:
    with pytest.raises(UserError, match=said):
        config.check()


def test_one_at_once_here_and_as_many_as_it_holds_on_a_cluster() -> None:
    assert ExecutorConfig().at_once == 1
    assert ExecutorConfig(executor="ray").at_once is None
    assert ExecutorConfig(executor="ray", jobs=3).at_once == 3


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_the_way_to_get_it_is_said() -> None:
    with pytest.raises(UserError, match="pip install"), open_cluster(ExecutorConfig(executor="ray"), {}):
        pass


def planned(tmp_path: Path, **settings: str) -> Planned:
    return schedule(replace(study(arm("grpo")), settings=settings), tmp_path / "runs")[0]


def test_a_run_needs_what_the_planner_predicts_and_a_node_must_have_all_of_it(tmp_path: Path) -> None:
    needs = needs_of_run(planned(tmp_path), 2)
    assert (needs.cores, needs.gpus) == (2, 0)
    assert 1e6 < needs.memory_bytes < 8e9  # a model of 0.4 million weights, and what the process holds
    node = {"CPU": 2.0, "memory": float(needs.memory_bytes)}
    assert needs.within(node)
    assert not needs.within(node | {"CPU": 1.0})
    assert not needs.within(node | {"memory": needs.memory_bytes - 1.0})
    assert not replace(needs, gpus=1).within(node)
    assert str(Needs(cores=1, gpus=2, memory_bytes=3 * 2**30)) == "1 core, 2 GPUs, 3.0 GiB"


def test_folders_that_settings_name_travel_and_ours_do_not(tmp_path: Path) -> None:
    data = tmp_path / "rows"
    data.mkdir()
    assert folders_of(planned(tmp_path)) == ()
    assert folders_of(planned(tmp_path, data=str(data))) == ((str(data), "0-rows"),)


def test_a_run_folder_arrives_whole_in_place_of_the_older_one_without_its_lock(tmp_path: Path) -> None:
    for name, text in {"checkpoint/step-000002/state.pt": "2", "steps.jsonl": "{}", "lock": "me"}.items():
        file = tmp_path / "node" / "run" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    older = tmp_path / "home" / "run" / "checkpoint" / "step-000001"
    older.mkdir(parents=True)
    path = unpack(pack(tmp_path / "node" / "run"), tmp_path / "home")
    there = sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())
    assert there == ["checkpoint/step-000002/state.pt", "steps.jsonl"]
    assert list((tmp_path / "home").iterdir()) == [path]


def test_what_is_left_counts_runs_that_ended_and_shares_of_those_that_go(tmp_path: Path) -> None:
    board, log = Board(4), tmp_path / "a.log"
    assert board.left_s() is None
    with board.row("a", log):
        assert board.left_s() is None
        log.write_text("step    3  reward 0.5  left 0 s\n\n")
        assert last_line(log) == "step    3  reward 0.5  left 0 s"
        assert board.left_s() is not None  # all of its steps are done
        assert [str(cell) for cell in board.table().columns[0].cells] == ["a"]
    assert board.ended == 1
    assert not list(board.table().columns[0].cells)
