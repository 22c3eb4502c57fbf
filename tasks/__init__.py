"""Verifiable tasks. Adding one: write one file, add one line here."""

from tasks.chain import Chain
from tasks.competition_math import CompetitionMath
from tasks.core import Task
from tasks.countdown import Countdown
from tasks.gsm8k import Gsm8k
from tasks.helpful import Helpful
from tasks.logic import Logic
from tasks.mixed import Mixed
from tasks.programming import Programming

TASKS: dict[str, type[Task]] = {
    "gsm8k": Gsm8k,
    "math": CompetitionMath,
    "countdown": Countdown,
    "logic": Logic,
    "code": Programming,
    "chain": Chain,
    "helpful": Helpful,
    "mixed": Mixed,
}
