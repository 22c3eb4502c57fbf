"""Verifiable tasks. Adding one: write one file, add one line here."""

from tasks.core import Task
from tasks.gsm8k import Gsm8k
from tasks.programming import Programming

TASKS: dict[str, type[Task]] = {
    "gsm8k": Gsm8k,
    "code": Programming,
}
