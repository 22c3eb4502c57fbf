"""Every text of every `--help` is a sentence that stands alone: under its flag nobody sees the line above it."""

import ast
import inspect
import re
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import pytest

from algorithms import ALGORITHMS
from bench import cli
from bench.config import RunConfig
from bench.gate.config import CheckConfig
from bench.gradient.command import GradientConfig
from bench.machine.config import DoctorConfig
from bench.pipeline.cold_start import ColdStart
from bench.pipeline.plans import R1
from bench.planner.config import PlanConfig
from bench.report.config import ReportConfig
from bench.session.eval_config import EvalCommand
from bench.study.config import CompareConfig
from docs.generate_algorithms import field_docs
from tasks import TASKS

COMMANDS = (
    RunConfig,
    CompareConfig,
    EvalCommand,
    ReportConfig,
    CheckConfig,
    PlanConfig,
    DoctorConfig,
    ColdStart,
    R1,
    GradientConfig,
)
CHOSEN = ("algo", "task")  # what `run` chooses by name: its own fields are the flags
LEANING = re.compile(
    r"(Of|By|In|At|On|For|From|To|With|Than|As|Its|Their|It|They|Them|Such|Added|Subtracted|Multiplied|Divided"
    r"|Divides|Adds|Multiplies|Subtracts)\b"
)
POINTING = re.compile(r"\b(these|those|such(?! as))\b")
FEWEST_WORDS = 3


def faults(text: str | None) -> list[str]:
    """What keeps a text from being a sentence that stands alone."""
    if text is None:
        return ["missing"]
    found = {
        "no capital": not text[0].isupper(),
        "no full stop": not text.endswith("."),
        "starts with what leans on the name": LEANING.match(text) is not None,
        "points at another text": POINTING.search(text.partition(". ")[0].partition(";")[0]) is not None,
        "too short": len(text.partition(". ")[0].split()) < FEWEST_WORDS,
    }
    return [name for name, is_so in found.items() if is_so]


def texts(cls: type) -> Iterator[tuple[str, str | None]]:
    """Of a class, of its fields and of what is nested in them: the place, and what its help says."""
    yield cls.__name__, (inspect.getdoc(cls) or "").partition("\n\n")[0] or None
    hints, known = typing.get_type_hints(cls), field_docs(cls)
    for field in fields(cls):
        if is_dataclass(nested := hints[field.name]) and not (cls is RunConfig and field.name in CHOSEN):
            yield from texts(typing.cast("type", nested))
            if field.name not in known:
                continue  # the class says it
        if not (cls is RunConfig and field.name in CHOSEN):
            yield f"{cls.__name__}.{field.name}", known.get(field.name)


@pytest.mark.parametrize("cls", [*COMMANDS, *ALGORITHMS.values(), *TASKS.values()], ids=lambda cls: cls.__name__)
def test_every_text_is_a_sentence_that_stands_alone(cls: type) -> None:
    found = {place: (text, why) for place, text in texts(cls) if (why := faults(text))}
    assert not found


@pytest.mark.parametrize(
    "fragment",
    [
        None,
        "Of the adapters; 0 trains every weight.",
        "Added to the divisor.",
        "Divides it: the scores' spread.",
        "Their sum over the batch.",
        "Address space.",
        "k1 log-ratio, k2 half its square.",
        "Runs at each of these points.",
        "Folder to make",
    ],
)
def test_a_fragment_is_seen(fragment: str | None) -> None:
    assert faults(fragment)


def test_no_command_is_left_out() -> None:
    """What the door hands to the parser of flags is what is walked here."""
    calls = [n for n in ast.walk(ast.parse(inspect.getsource(cli))) if isinstance(n, ast.Call)]
    given = {ast.unparse(n.args[0]).split(".")[-1] for n in calls if ast.unparse(n.func) == "flags"}
    assert given == {cls.__name__ for cls in COMMANDS if cls is not RunConfig}  # whose flags `parse` makes
