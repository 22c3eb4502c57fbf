"""Signs of reasoning in a completion: verification, backtracking, subgoals, backward chaining (arXiv:2503.01307).

On countdown they are read exactly, by parsing the equations (`on_countdown`, which states what each means there).
Elsewhere there are words only (`by_words`), whose precision and recall are measured against the exact reading:
docs/pipeline.md. Counts rise with length alone, so a rate is given by completion and by 100 tokens.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol, runtime_checkable

from tasks import answers, arithmetic
from tasks.core import Problem, Task

BEHAVIOURS = ("verification", "backtracking", "subgoals", "backward_chaining")
Counts = Mapping[str, int]
WORDS: Mapping[str, str] = {  # docs/pipeline.md names the sources
    "verification": r"verif\w+|re-?check\w*|double-check\w*|check\w*|re-?evaluat\w+|evaluat\w+|re-?examin\w+"
    "|go over the",
    "backtracking": r"wait|mistake|however|but|retry\w*|error|wrong|re-?think|re-?consider\w*|alternatively|try again|"
    r"think again",
    "subgoals": r"first|then i need|if (?:i|we) (?:can )?(?:get|make|reach)|subgoal|the goal is|step \d",
    "backward_chaining": r"backwards?|from the target|work(?:ing)? back|starting (?:from|at) the (?:end|target|answer)",
}
_PATTERNS = {name: re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for name, words in WORDS.items()}
_CHUNK = re.compile(r"[\d(][\d\s+\-*/()=\u00d7\u00f7\u00b7\u2212]*=\s*\d+")
_ADJACENT = re.compile(r"(?<=\d)\s+(?=[\d(])")
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.]*\d)")
_VERDICT = re.compile(
    r"[\s.,;:(]*(?:(?:yes|no|correct|not enough|too (?:low|high|big|small|large|much|little))\b|[✓✗✅❌])",
    re.IGNORECASE,
)


@runtime_checkable
class Exact(Protocol):
    """A task whose completions' behaviours can be read exactly."""

    def behaviours(self, problem: Problem, completion: str) -> Counts: ...


def observed(task: Task, problem: Problem, completion: str) -> Counts:
    """How often each of BEHAVIOURS is seen in a completion: exactly where the task can, by words elsewhere."""
    return task.behaviours(problem, completion) if isinstance(task, Exact) else by_words(completion)


def by_words(completion: str) -> Counts:
    """Words of each list, in the whole completion."""
    return {name: len(pattern.findall(completion)) for name, pattern in _PATTERNS.items()}


@dataclass(frozen=True, kw_only=True)
class Equation:
    """One calculation as it is written: `19+10=29` uses 19 and 10 and states 29."""

    used: tuple[int, ...]
    result: int
    start: int  # in the text
    end: int


def equations(text: str) -> Iterator[Equation]:
    """Calculations in their order; in a chain, `4+15=19+10=29`, each goes on from what the one before states."""
    for chunk in _CHUNK.finditer(text):
        start = chunk.start()
        for part in _ADJACENT.split(chunk[0]):
            place = text.index(part, start)
            start = place + len(part)
            sides = part.split("=")
            for left, right in pairwise(sides):
                stated, used = re.match(r"[\s(]*(\d+)", right), _operands(left)
                if stated is not None and len(used) > 1:
                    yield Equation(used=used, result=int(stated[1]), start=place, end=start)


def _operands(side: str) -> tuple[int, ...]:
    try:
        return tuple(arithmetic.evaluate(side)[1])
    except ValueError:
        return ()


@dataclass(kw_only=True)
class _Search:
    """What has been made of the numbers so far; each state is what is left to use."""

    numbers: Counter[int]
    target: int
    states: list[Counter[int]] = field(default_factory=list[Counter[int]])  # of this path, the first one untouched
    path: list[Equation] = field(default_factory=list[Equation])
    announced: set[int] = field(default_factory=set[int])
    computed: set[int] = field(default_factory=set[int])
    reached: bool = False
    counts: Counter[str] = field(default_factory=Counter[str])

    def take(self, step: Equation) -> None:
        """Place one equation in the search."""
        used = Counter(step.used)
        if used[self.target] and not self.states[-1][self.target]:
            self.counts["backward_chaining"] += 1
            self.announced.add(step.result)
            return
        if self.reached and (step.result == self.target or any(_same(step, made) for made in self.path)):
            self.counts["verification"] += step.result == self.target
            return
        at = next((i for i in reversed(range(len(self.states))) if used <= self.states[i]), None)
        if at is None:
            return  # it uses what is not there: part of no search
        if at < len(self.states) - 1:
            self.counts["backtracking"] += 1
            del self.states[at + 1 :], self.path[at:]
            self.reached = False
        self.states.append(self.states[-1] - used + Counter([step.result]))
        self.path.append(step)
        if step.result in self.announced:
            self.counts["subgoals"] += 1
        self.announced.discard(step.result)
        self.computed.add(step.result)
        self.reached = step.result == self.target

    def read(self, words: str, *, after: bool) -> None:
        """Take up what is said between two equations; `after` one, it may hold its result against the target."""
        compared = rf"(?:=|≠|<|>|\bis|\bnot|n't|\bequals?|\bvs\.?)\s*(?:the )?(?:target\b|{self.target}\b)"
        if after and (_VERDICT.match(words) or re.search(compared, words)):
            self.counts["verification"] += 1
        known = {*self.numbers, *self.computed, self.target}
        self.announced |= {int(number) for number in _NUMBER.findall(words)} - known


def on_countdown(numbers: Sequence[int], target: int, completion: str) -> Counts:
    """The behaviours of a countdown search, from its equations.

    verification: a result is held against the target in words or signs (`29 no`, `29 < 98`, `not 98`), or the target
    is calculated once more after it was reached.
    backtracking: an equation needs numbers that the present path has used up and an earlier state of it still had.
    subgoals: a number that is neither given, nor the target, nor calculated so far is named, and calculated later.
    backward_chaining: an equation uses the target itself, which is not among the numbers.

    Args:
        numbers: that are given.
        target: to be reached.
        completion: whose thought is read, or all of it but the box where there is no closed one.
    """
    text = _thought(completion)
    search = _Search(numbers=Counter(numbers), target=target, states=[Counter(numbers)])
    end = 0
    for step in equations(text):
        if step.start >= end:
            search.read(text[end : step.start], after=end > 0)
        search.take(step)
        end = max(end, step.end)
    search.read(text[end:], after=end > 0)
    return {name: search.counts[name] for name in BEHAVIOURS}


def _same(one: Equation, other: Equation) -> bool:
    return one.result == other.result and sorted(one.used) == sorted(other.used)


def _thought(completion: str) -> str:
    end = completion.rfind(answers.CLOSE)
    text = completion[:end] if end >= 0 else completion.partition("\\boxed")[0]
    return text.replace(answers.OPEN, "")
