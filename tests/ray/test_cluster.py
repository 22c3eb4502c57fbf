"""A study over a real cluster of three nodes on this machine, two of its workers lost on the way."""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest

from bench.study.cluster import ATTEMPTS

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="make ray installs it and runs these")
STUDY = ["--algos", "grpo", "--task", "gsm8k", "--seeds", "2", "--budget", "steps=6", "--set", "samples-per-step=16"]
STUDY += ["eval.limit=4", "eval.num-samples=1", "eval.every=0", "checkpoint-every=1"]


@pytest.fixture(scope="module")
def cluster() -> Generator[Any]:
    """Three nodes of one core, the last of which may be lost."""
    from ray.cluster_utils import Cluster  # pyright: ignore[reportMissingImports]

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.extra = [made.add_node(num_cpus=1) for _ in range(2)]
    yield made
    made.shutdown()


def command(*flags: str) -> list[str]:
    return [sys.executable, "-m", "bench", "compare", *STUDY, "--out", "studies", *flags]


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path.cwd())}


def until(there: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    while not there():
        assert process.poll() is None, "the study ended before it could be disturbed"
        time.sleep(0.1)


def workers(of: Any) -> list[psutil.Process]:  # noqa: ANN401 - Ray's node
    """Processes below one node that carry out a run; one that ends meanwhile is none."""
    raylet = of.all_processes["raylet"][0].process.pid
    found: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(raylet).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                found += [process] if "bench" in process.cmdline() else []
    return found


def results(folder: Path, name: str) -> pd.DataFrame:
    """The study's table without what depends on the clock or the machine."""
    table = pd.read_csv(folder / "studies" / name / "report" / "tables" / "results.csv")
    return table[[c for c in table if not c.startswith(("time", "perf", "memory", "seconds", "path", "run", "host"))]]


def test_the_tables_are_those_of_a_local_study_though_a_worker_and_a_node_die(cluster: Any, tmp_path: Path) -> None:  # noqa: ANN401
    ray = [*command("--name", "ray"), "--executor", "ray", "--ray-address", cluster.address]
    process = subprocess.Popen(ray, cwd=tmp_path, env=environment())
    checkpoints = lambda: list(tmp_path.glob("studies/ray/runs/*/checkpoint/step-*"))
    until(lambda: bool(checkpoints()) and any(workers(node) for node in cluster.list_all_nodes()), process)
    victim = next(node for node in reversed(cluster.list_all_nodes()) if workers(node))
    if victim is cluster.head_node:  # which holds the cluster together
        workers(victim)[0].parent().send_signal(signal.SIGKILL)
    else:
        cluster.remove_node(victim, allow_graceful=False)
    log = lambda: "".join(path.read_text() for path in tmp_path.glob("studies/ray/logs/*.log"))
    until(lambda: "died; goes on from" in log(), process)
    left = [worker for node in cluster.list_all_nodes() for worker in workers(node)]
    if left:
        with contextlib.suppress(psutil.NoSuchProcess):
            left[0].send_signal(signal.SIGKILL)
    assert process.wait() == 0
    assert subprocess.run([*command("--name", "local"), "--jobs", "2"], cwd=tmp_path, env=environment()).returncode == 0
    assert 1 <= log().count("died; goes on from") <= 2 * (ATTEMPTS - 1)
    pd.testing.assert_frame_equal(results(tmp_path, "ray"), results(tmp_path, "local"), check_exact=True)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--ray-address", "127.0.0.1:1"], "no Ray cluster answers within 20 s"),
        (["--ray-address", "ray://127.0.0.1:1"], "start on a machine of the cluster"),
        (["--ray-cores", "4096"], "needs a node with 4096 cores"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(cluster: Any, tmp_path: Path, flags: list[str], said: str) -> None:  # noqa: ANN401
    given = flags if "--ray-address" in flags else [*flags, "--ray-address", cluster.address]
    done = subprocess.run(
        [*command("--quiet"), "--executor", "ray", *given],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert said in done.stderr.strip().splitlines()[-1]
    assert not list(tmp_path.glob("studies/*/runs/*"))
