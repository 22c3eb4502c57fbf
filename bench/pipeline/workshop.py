"""Where stages are made: each a folder that is named by all that it depends on, and never made again."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.ground.errors import UserError
from bench.ground.files import read_json, write_json
from bench.ground.tree import Tree, fingerprint, plain
from bench.models.load import latest_checkpoint
from bench.pipeline.measure import Exam, measure


class StageError(Exception):
    """A stage came to nothing; nothing that stood before it was touched. Exit code 1."""


class StoppedError(Exception):
    """The user asked for an end; the same command goes on."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """A stage that stands."""

    number: int
    name: str
    key: str
    folder: Path
    model: str = ""  # where the weights are; empty for a stage that makes none


@dataclass(kw_only=True)
class Workshop:
    """Where stages are made: a folder, which of them may be made now, and who is told."""

    out: Path
    seed: int
    allowed: frozenset[int]
    say: Callable[[str], None]
    again: str  # the command that makes what is missing
    exam: Exam | None = None
    reports: list[Made] = field(default_factory=list[Made])

    def stage(self, number: int, name: str, depends: Tree, make: Callable[[Path], Tree]) -> Made:
        """The stage's folder, made now unless it stands.

        Args:
            number: of the stage.
            name: what is made.
            depends: all that it depends on, keys of earlier stages included.
            make: fills a folder, and may be called again on one that it has filled in part; returns what to record.

        Raises:
            UserError: it is to be there already, and is not.
            StageError, StoppedError: from `make`.
        """
        tree: Tree = {"stage": number, "name": name, "seed": self.seed, **plain(depends)}
        key = fingerprint(tree)[:10]
        folder = self.out / f"{number}-{name}-s{self.seed}-{key}"
        record = folder / "stage.json"
        if not record.exists():
            if number not in self.allowed:
                raise UserError(self._missing(number, name, tree))
            self.say(f"stage {number} {name}, seed {self.seed}: {folder}")
            folder.mkdir(parents=True, exist_ok=True)
            facts = make(folder)
            write_json(record, {**tree, "key": key, "facts": facts})
        return Made(number=number, name=name, key=key, folder=folder, model=model_in(folder))

    def _missing(self, number: int, name: str, tree: Tree) -> str:
        """What is not there, and whether it is there of another model or of other settings."""
        others = [read_json(path) for path in sorted(self.out.glob(f"{number}-{name}-s{self.seed}-*/stage.json"))]
        found = f"stage {number} ({name}) of seed {self.seed} is not in {self.out}"
        if others:
            differing = sorted({k for other in others for k in tree if k != "start" and other.get(k) != tree[k]})
            what = "another model" if not differing else f"other settings ({', '.join(differing)})"
            found += f", only one of {what}"
        return f"{found}; make it by: {self.again} --stages {number}"

    def evaluated(self, made: Made) -> None:
        """Evaluate the stage's model, unless that has been done by the same exam."""
        self.reports.append(made)
        if self.exam is None or (made.folder / "eval.json").exists():
            return
        figures = measure(made.model, self.exam)
        write_json(made.folder / "eval.json", figures)
        self.say(f"stage {made.number} {made.name}: {in_a_line(figures)}")


def in_a_line(figures: Tree) -> str:
    """The figures that one looks at first."""
    shown = {
        "accuracy": "accuracy",
        "completed": "completed_accuracy",
        "form": "format_frac",
        "language": "language",
        "harmful refused": "general/refused_harmful",
        "helpful gold": "general/gold_helpful",
    }
    parts = [f"{label} {figures[name]:.1%}" for label, name in shown.items() if figures.get(name) is not None]
    return ", ".join([*parts, f"{figures['length_mean']:.0f} tokens"])


def model_in(folder: Path) -> str:
    """The weights that a stage made; empty where it made none."""
    if (folder / "model").is_dir():
        return str(folder / "model")
    runs = sorted((folder / "run").glob("*/config.json"))
    return str(latest_checkpoint(runs[-1].parent) / "model") if runs else ""
