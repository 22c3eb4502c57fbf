"""What tasks over rows have in common: splits, templates, exclusions, overlap, provenance."""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from tasks import sources
from tasks.core import DataError, Problem, RewardWeights, Source, Split, carve_validation
from tasks.sources import HubSplit as Hub
from tasks.sources import Row, Rows

MIN_ROWS = 8
SIZES: Mapping[Split, int] = {"train": 3072, "validation": 256, "test": 512}
SURROGATE = re.compile("[\ud800-\udfff]")
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


@dataclass(frozen=True, kw_only=True)
class Template:
    """The prompt, word for word. A change of `text` takes a new `version`, for results depend on it."""

    version: int
    text: str  # holds {question}

    def fill(self, question: str) -> str:
        return self.text.replace("{question}", question)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


PLAIN = Template(version=1, text="{question}")


@dataclass(frozen=True, kw_only=True)
class Item:
    """A row as the task reads it."""

    question: str
    gold: str
    meta: Mapping[str, str] = field(default_factory=dict[str, str])
    key: str = ""  # what makes two rows the same problem; the question where it is empty

    @property
    def identity(self) -> str:
        return " ".join((self.key or self.question).split())


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """One split, with what was left out of it and why."""

    problems: Sequence[Problem]
    origin: str
    sha256: str
    excluded: Sequence[str]  # "file:line: why", one for each row that cannot be judged


@dataclass(frozen=True, kw_only=True)
class DataTask:
    """Base of the tasks that are made of rows. A task adds how a row reads, how it is judged, how rows are made.

    Settings must be hashable: each split is loaded once for each setting.
    """

    NAME: ClassVar[str]
    HUB: ClassVar[Mapping[str, Hub]]  # the data set's own splits, "train" and "test"; empty: the hub has none
    BOXED: ClassVar[Template]

    source: Source = "procedural"
    """Where problems come from: made here from a seed, read from a path, or fetched from the hub."""
    data: Path | None = None
    """File (test only) or folder of train.jsonl and test.jsonl in the official format; implies `--source path`."""
    template: Literal["auto", "plain", "boxed"] = "auto"
    """Prompt: the bare question, or the question and how to write the answer. auto: bare for procedural problems."""
    weights: RewardWeights = field(default_factory=RewardWeights)
    """How verdicts become the reward."""
    think_opened: bool = False
    """The model's chat template itself opens the think block, so completions hold only its end."""
    seed: int = 0
    """Seed of the procedural problems; a run's own seed does not change its problems."""

    def procedural(self, split: Split) -> Sequence[Row]:
        """Rows made from `self.seed`, in the official format; the splits share no problem.

        Each row has the worked steps in `solution` and what goes into the box in `answer`, see `demonstration`.
        """
        raise NotImplementedError  # pragma: abstract

    def item(self, row: Row, place: str) -> Item:
        """Read one row. Raises DataError, naming `place`, where it is malformed."""
        raise NotImplementedError  # pragma: abstract

    def unusable(self, golds: Sequence[str]) -> Mapping[str, str]:
        """The golds that no answer could be judged by, with the reason; such rows are left out and counted."""
        del golds
        return {}

    def problems(self, split: Split) -> Sequence[Problem]:
        """The problems of a split, in the order of their rows.

        Raises:
            DataError: no data, a malformed row, or a test question that is also in train.
        """
        return _load(self, split, os.environ.get("BENCH_DATA")).problems

    def provenance(self, split: Split) -> dict[str, Any]:
        """Where the split came from, for the console and the record."""
        loaded = _load(self, split, os.environ.get("BENCH_DATA"))
        template = self.prompt_template
        return {
            "task": self.NAME,
            "split": split,
            "source": self.resolved_source,
            "origin": loaded.origin,
            "num_rows": len(loaded.problems),
            "sha256": loaded.sha256,
            "num_excluded": len(loaded.excluded),
            "excluded": list(loaded.excluded),
            "template": "plain" if template is PLAIN else "boxed",
            "template_version": template.version,
            "template_sha256": template.sha256,
        }

    @property
    def prompt_template(self) -> Template:
        plain = self.template == "plain" or (self.template == "auto" and self.resolved_source == "procedural")
        return PLAIN if plain else self.BOXED

    @property
    def resolved_source(self) -> Source:
        if self.data is not None and self.source == "hub":
            raise DataError(f"{self.NAME}: --data {self.data} and --source hub exclude each other; give one")
        return "path" if self.data is not None else self.source


def demonstration(row: Row) -> str:
    """A right, well-formed completion of a procedural row, to train a small model's first checkpoint on."""
    return f"<think>{row['solution']}</think>\\boxed{{{row['answer']}}}"


def split_rows(task: DataTask, split: Split, made: Iterable[Row], count: int) -> list[Row]:
    """Up to `count` different problems of `made` that belong to the split; fewer where the settings make no more.

    A problem belongs to the split that its hash says, so the splits are disjoint whatever the seeds.

    Raises:
        DataError: hardly any.
    """
    rows: dict[str, Row] = {}
    since_new = 0
    for row in made:
        identity = task.item(row, "procedural").identity
        new = identity not in rows and split_of(identity) == split
        since_new = 0 if new else since_new + 1
        if new:
            rows[identity] = row
        if len(rows) == count or since_new > 500 + 4 * len(rows):
            break
    if len(rows) < MIN_ROWS:
        raise DataError(f"{task.NAME}: only {len(rows)} different {split} problems at these settings; widen them")
    return list(rows.values())


def split_of(identity: str) -> Split:
    """A quarter of all problems for test, an eighth of the rest for validation."""
    if carve_validation(f"test {identity}", 1 / 4):
        return "test"
    return "validation" if carve_validation(identity, 1 / 8) else "train"


@lru_cache(maxsize=32)
def _load(task: DataTask, split: Split, bench_data: str | None) -> Loaded:
    del bench_data  # part of the key: sources.load_rows reads it
    rows = _rows(task, split)
    items = [task.item(row, place) for row, place in zip(rows.rows, rows.places, strict=True)]
    for item, place in zip(items, rows.places, strict=True):
        _refuse_surrogates(" ".join((item.question, item.gold, item.key, *item.meta.values())), place)
        _refuse_control_characters(item.gold, place)
    if task.resolved_source != "procedural":
        _refuse_overlap(task, split, items)
    unusable = task.unusable([item.gold for item in items])
    template = task.prompt_template
    carved = task.resolved_source != "procedural" and split != "test"
    problems: list[Problem] = []
    excluded: list[str] = []
    for index, (item, place) in enumerate(zip(items, rows.places, strict=True)):
        if carved and carve_validation(item.question) != (split == "validation"):
            continue
        if item.gold in unusable:
            excluded.append(f"{place}: {unusable[item.gold]}")
            continue
        name, prompt = f"{task.NAME}/{split}/{index}", template.fill(item.question)
        problems.append(Problem(id=name, prompt=prompt, reference=item.gold, meta=item.meta))
    if not problems:
        reason = f"; the first: {excluded[0]}" if excluded else ""
        raise DataError(f"{rows.origin}: no usable {split} problem in {len(items)} rows{reason}")
    return Loaded(problems=problems, origin=rows.origin, sha256=rows.sha256, excluded=excluded)


def _rows(task: DataTask, split: Split) -> Rows:
    source = task.resolved_source
    if source != "procedural":
        stem = "test" if split == "test" else "train"
        if source == "hub" and stem not in task.HUB:
            raise DataError(f"{task.NAME}: no set of the hub is its own; take --source procedural or --data PATH")
        return sources.load_rows(source, name=task.NAME, split=stem, data=task.data, hub=task.HUB.get(stem))
    made = task.procedural(split)
    places = [f"{task.NAME}:procedural[{i}]" for i in range(len(made))]
    return Rows(rows=made, origin="procedural", sha256=sources.canonical_sha256(made), places=places)


def _refuse_surrogates(text: str, place: str) -> None:
    found = SURROGATE.search(text)
    if found:
        words = "half of a character (a lone surrogate); write both halves or remove it"
        raise DataError(f"{place}: U+{ord(found[0]):04X}, {words}")


def _refuse_control_characters(gold: str, place: str) -> None:
    found = CONTROL.search(gold)
    if found and found[0] == "\r":
        raise DataError(f"{place}: a carriage return (CR) in the gold answer; write line ends as \\n alone")
    if found:
        raise DataError(
            f"{place}: control character U+{ord(found[0]):04X} in the gold answer; LaTeX in JSON needs two backslashes"
        )


def _refuse_overlap(task: DataTask, split: Split, items: Sequence[Item]) -> None:
    if task.data is not None and task.data.is_file():
        if split != "test":
            advice = "give a folder of train.jsonl and test.jsonl"
            raise DataError(f"{task.data}: one file cannot be both train and test; {advice}")
        return
    other: Split = "train" if split == "test" else "test"
    if not sources.has_split(task.resolved_source, name=task.NAME, split=other, data=task.data):
        return
    rows = _rows(task, other)
    known = {task.item(row, place).identity: place for row, place in zip(rows.rows, rows.places, strict=True)}
    shared = [known[item.identity] for item in items if item.identity in known]
    if shared:
        raise DataError(f"{shared[0]}: {len(shared)} problems are both in train and in test; remove them from one")
