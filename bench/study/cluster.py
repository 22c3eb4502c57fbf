"""A study's runs on a Ray cluster: Ray carries code and folders to nodes, packs runs, and tells of nodes that died.

What is ours is what Ray cannot know: a run that lost its node goes on from the last checkpoint that can be reached.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock
from typing import Any

import algorithms
import bench
import tasks
from bench.ground.errors import UserError
from bench.ground.tree import flatten
from bench.settings.flags import to_toml
from bench.settings.resolve import is_embedded
from bench.study.config import ExecutorConfig
from bench.study.execute import Ended
from bench.study.launch import recorded_runs
from bench.study.needs import Needs, needs_of_run
from bench.study.node import NodeRun, Order, pack, unpack
from bench.study.schedule import Planned

PATIENCE_S = 20.0  # for a cluster to answer
ASK_EVERY_S = 0.5
ATTEMPTS = 3  # the first, and two after a death
PATHS = ("model", "data", "path")  # settings that may name a folder, by the last part of their name
INSTALL = 'pip install "ppo-vs-grpo-bench[ray]"'


@contextmanager
def open_cluster(config: ExecutorConfig, clock: dict[str, str]) -> Generator["RayCluster"]:
    """A connection to the cluster, or to a Ray started here, until the block ends. `clock` tells runs the study's time.

    Raises:
        UserError: no Ray, or no cluster at the address.
    """
    try:
        import ray  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise UserError(f"--executor ray: Ray is not installed; {INSTALL}") from None
    address = config.ray_address or "local"
    check_address(address)
    packages = [str(Path(str(package.__file__)).parent) for package in (bench, algorithms, tasks)]
    carried = {"py_modules": packages, "excludes": ["__pycache__/", "*.pyc"]}
    own = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address=address, runtime_env=carried, logging_level="ERROR", log_to_driver=False, **own)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UserError(f"--ray-address {address}: {str(error).splitlines()[0]}") from error
    try:
        with tempfile.TemporaryDirectory(prefix="bench-carried-") as place:
            yield RayCluster(ray, config, Path(place), clock)
    finally:
        ray.shutdown()


def check_address(address: str, patience_s: float = PATIENCE_S) -> None:
    """Ask the cluster by Ray's own command, which can be given up, where a connection cannot.

    Raises:
        UserError: nobody answers.
    """
    if address == "local":
        return
    if address.startswith("ray://"):
        raise UserError(f"--ray-address {address}: start on a machine of the cluster and give auto or HOST:PORT")
    asked = [] if address == "auto" else ["--address", address]
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", *asked]
    try:
        answer = subprocess.run(command, capture_output=True, timeout=patience_s, check=False).returncode
    except subprocess.TimeoutExpired:
        answer = 1
    if answer:
        raise UserError(
            f"--ray-address {address}: no Ray cluster answers within {patience_s:.0f} s; start one by "
            "`ray start --head --port 6379`, or leave the address out to use this machine alone"
        )


class RayCluster:
    """An executor, as `bench.study.execute.Executor` has it. `place` is a folder of its own."""

    def __init__(self, ray: Any, config: ExecutorConfig, place: Path, clock: dict[str, str]) -> None:  # noqa: ANN401
        self.ray, self.config, self.place, self.clock = ray, config, place, clock
        self._actor = ray.remote(NodeRun)
        self._stopped, self._lock = Event(), Lock()
        self._staged: dict[tuple[tuple[str, str], ...], Path] = {}

    @property
    def jobs(self) -> int | None:
        """None: Ray lets them wait."""
        return self.config.jobs

    def check(self, run: Planned) -> None:
        """Refuse a run that no node can hold.

        Raises:
            UserError: says what it needs and what the nodes have.
        """
        needs = needs_of_run(run, self.config.ray_cores)
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        if not any(needs.within(resources) for resources in nodes):
            have = "; ".join(sorted({str(needs_of_resources(resources)) for resources in nodes}))
            raise UserError(
                f"{run.label} needs a node with {needs}, and the nodes have: {have}; add a larger node, "
                "lower --ray-cores, or take a smaller model (`bench plan` says what fits)"
            )

    def execute(self, run: Planned, path: Path | None, log: Path) -> Ended:
        """As `Executor` has it; a worker or node that dies costs an attempt."""
        log.write_bytes(b"")
        device_s, ended = 0.0, Ended(code=0, device_s=0.0)
        for attempt in range(1, ATTEMPTS + 1):
            ended = self._attempt(run, path, log)
            device_s += ended.device_s
            if ended.code != -signal.SIGKILL or self._stopped.is_set():
                break
            path = recorded_runs(run.chosen.config.out).get(run.fingerprint)
            where = "the start" if path is None else "its last checkpoint"
            after = f"goes on from {where}" if attempt < ATTEMPTS else f"given up after {ATTEMPTS} attempts"
            with log.open("a") as file:
                file.write(f"{run.label}: its worker or node died; {after}\n")
        return replace(ended, device_s=device_s)

    def stop(self) -> None:
        """As `Executor` has it."""
        self._stopped.set()

    def _attempt(self, run: Planned, path: Path | None, log: Path) -> Ended:
        """One worker's life. Ends by SIGKILL where Ray lost it."""
        needs = needs_of_run(run, self.config.ray_cores)
        order = self._order(run, path)
        options: dict[str, Any] = {
            "num_cpus": needs.cores,
            "num_gpus": needs.gpus,
            "memory": needs.memory_bytes or None,
        }
        if order.links:
            options["runtime_env"] = {"working_dir": str(self._stage(run))}
        actor = self._actor.options(**options).remote(order)
        started: list[float] = []
        try:
            return self._follow(actor, run, log, started)
        except self.ray.exceptions.RayError as error:
            with log.open("a") as file:
                file.write(f"{(str(error).splitlines() or [type(error).__name__])[0]}\n")
            held = time.monotonic() - started[0] if started else 0.0
            return Ended(code=-signal.SIGKILL, device_s=held)
        finally:
            self.ray.kill(actor)

    def _follow(self, actor: Any, run: Planned, log: Path, started: list[float]) -> Ended:  # noqa: ANN401 - Ray's
        """Bring home what the worker says until its process has ended."""
        asked = False
        while True:
            question = actor.news.remote()
            while not self.ray.wait([question], timeout=1.0)[0]:
                if self._stopped.is_set() and not started:  # it still waits for a place
                    return Ended(code=-signal.SIGINT, device_s=0.0)
            news = self.ray.get(question)
            started[:] = started or [time.monotonic() - news.seconds]
            with log.open("ab") as file:
                file.write(news.log)
            if news.folder is not None:
                unpack(news.folder, run.chosen.config.out)
            if news.code is not None:
                self.ray.get(actor.clear.remote())
                return Ended(code=news.code, device_s=news.seconds)
            if self._stopped.is_set() and not asked:
                asked = True
                self.ray.get(actor.stop.remote())
            time.sleep(ASK_EVERY_S)

    def _order(self, run: Planned, path: Path | None) -> Order:
        shared, config = self.config.ray_files == "shared", run.chosen.config
        out = str(config.out) if shared else os.path.relpath(config.out)
        chosen = replace(run.chosen, config=replace(config, out=Path(out)))
        return Order(
            config=to_toml(chosen),
            cwd=os.getcwd(),
            out=out,
            name=None if path is None else path.name,
            shared=shared,
            folder=None if path is None or shared else pack(path),
            links=() if shared else folders_of(run),
            clock=self.clock,
            threads=os.environ.get("OMP_NUM_THREADS", str(self.config.ray_cores)),
        )

    def _stage(self, run: Planned) -> Path:
        """A folder with the run's folders in it, for Ray to carry; equal for runs with the same."""
        links = folders_of(run)
        with self._lock:
            if links not in self._staged:
                self._staged[links] = self.place / str(len(self._staged))
                self._staged[links].mkdir()
                for path, name in links:
                    (self._staged[links] / name).symlink_to(Path(path).resolve(), target_is_directory=True)
            return self._staged[links]


def folders_of(run: Planned) -> tuple[tuple[str, str], ...]:
    """Folders that the settings name, and what they are called on the way."""
    settings = flatten(run.chosen.tree())
    paths = sorted({value for key, value in settings.items() if key.rpartition(".")[2] in PATHS and is_folder(value)})
    return tuple((path, f"{index}-{Path(path).name}") for index, path in enumerate(paths))


def is_folder(value: str) -> bool:
    """Whether it is a folder here that does not come with our code."""
    return Path(value).is_dir() and not is_embedded(value)


def needs_of_resources(resources: dict[str, float]) -> Needs:
    """A node's resources in the words in which a run's needs are told."""
    return Needs(
        cores=int(resources.get("CPU", 0)),
        gpus=int(resources.get("GPU", 0)),
        memory_bytes=int(resources.get("memory", 0)),
    )
