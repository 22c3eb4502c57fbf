"""What a run asks of the node that carries it out: cores, GPUs, and the memory that the planner predicts."""

from dataclasses import dataclass
from pathlib import Path

from bench.config import ASSETS, EMBEDDED
from bench.ground.files import read_json
from bench.ground.words import GIB
from bench.models.shape import ModelShape, countable
from bench.planner.memory import memory_of_job
from bench.planner.remedy import job_of_run
from bench.settings.resolve import hardware_of, on_cpu
from bench.study.schedule import Planned


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Of one node."""

    cores: int
    gpus: int
    memory_bytes: int  # the node's own; 0 where no plan knows the model

    def __str__(self) -> str:
        """For people: `1 core, 1 GPU, 12.5 GiB`."""
        memory = f", {self.memory_bytes / GIB:.1f} GiB" if self.memory_bytes else ""
        return f"{counted(self.cores, 'core')}, {counted(self.gpus, 'GPU')}{memory}"

    def within(self, resources: dict[str, float]) -> bool:
        """Whether a node with these of Ray's resources can hold the run when it is otherwise idle."""
        asked = {"CPU": self.cores, "GPU": self.gpus, "memory": self.memory_bytes}
        return all(resources.get(name, 0) >= amount for name, amount in asked.items())


def needs_of_run(run: Planned, cores: int) -> Needs:
    """A run is one process: one GPU where it does not compute on the processor."""
    config, processor = run.chosen.config, on_cpu(run.chosen.config)
    model = ASSETS / run.chosen.task_name if config.model == EMBEDDED else Path(config.model)
    shape, memory = shape_of(model), 0.0
    if shape is not None:
        held = memory_of_job(job_of_run(config, shape, hardware_of(config, 1)))
        memory = held.peak_bytes if processor else held.host_bytes
    return Needs(cores=cores, gpus=0 if processor else 1, memory_bytes=int(memory))


def shape_of(model: Path) -> ModelShape | None:
    """Of a model's folder; None where there is none here, or no plan knows it."""
    file = model / "config.json"
    return countable(read_json(file)) if file.is_file() else None


def counted(count: int, thing: str) -> str:
    """`1 core`, `2 cores`."""
    return f"{count} {thing}{'' if count == 1 else 's'}"
