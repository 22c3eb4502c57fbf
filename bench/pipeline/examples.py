"""Examples to learn from: where they come from, what makes one readable, and the data set that they are written as."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from bench.ground.errors import UserError
from bench.ground.files import write_json
from bench.pipeline.families import FAMILIES
from tasks import sources
from tasks.answers import answer_part, think_block
from tasks.core import DataError
from tasks.language import consistency
from tasks.sources import text_field

RowT = TypeVar("RowT")
SENTENCE = re.compile(r"(?<=[.!?])\s+")
REPEATS, GRAM = 3, 8  # so many equal runs of words or signs of this length are a loop
CONSISTENT = 0.99  # share of words of one language below which a thought is mixed
PARAGRAPH = 300  # words without a line's end


@dataclass(frozen=True, kw_only=True)
class Example:
    """A prompt and the completion to learn."""

    prompt: str
    completion: str
    source: str  # "solver", "sampled", "general", or the file it was read from
    problem: str = ""  # the problem's id, where there is one

    @property
    def texts(self) -> tuple[str, str]:
        """Prompt and completion."""
        return self.prompt, self.completion


def unreadable(completion: str, *, boxed: bool = True) -> str | None:
    """Why a completion is not learnt from, as R1's cold start and rejection sampling drop them; None: it is readable.

    Args:
        completion: any text.
        boxed: whether it needs a closed thought and then a box, or only a closed thought and something behind it.
    """
    summary = answer_part(completion)
    thought = completion[: len(completion) - len(summary)]
    if not think_block(completion) or not summary.strip() or (boxed and "\\boxed{" not in summary):
        return "form"
    if loops(completion):
        return "repetition"
    share = consistency(thought.replace("<think>", " ").replace("</think>", " "))
    if share is not None and share < CONSISTENT:
        return "mixed languages"
    if "```" in thought:
        return "code block"
    if any(len(part.split()) > PARAGRAPH for part in completion.split("\n")):
        return "long paragraph"
    return None


def loops(text: str) -> bool:
    """Whether a run of GRAM words or signs occurs more than REPEATS times, or a sentence follows itself twice."""
    plain = text.replace("<think>", " ").replace("</think>", " ")
    tokens, sentences = plain.split(), [part for part in SENTENCE.split(plain.strip()) if part]
    grams = Counter(tuple(tokens[i : i + GRAM]) for i in range(len(tokens) - GRAM + 1))
    return any(count > REPEATS for count in grams.values()) or any(
        a == b == c for a, b, c in zip(sentences, sentences[1:], sentences[2:], strict=False)
    )


def by_solver(family: str, count: int, seed: int) -> list[Example]:
    """Right completions of the family's teacher, as many of general prompts as its own stream has.

    Raises:
        UserError: no teacher of that name.
    """
    if family not in FAMILIES:
        raise UserError(f"no solver for '{family}'; there are {', '.join(sorted(FAMILIES))}; or give --data PATH")
    taught = islice(FAMILIES[family].demonstrations(seed + 50_000), count)
    return [Example(prompt=d.prompt, completion=d.right, source="solver") for d in taught]


def read(path: Path) -> list[Example]:
    """Examples of a JSONL file: {"prompt", "completion"}, or {"messages": [...]} of which the last is learnt.

    Raises:
        DataError: a row that cannot be read, with its line.
    """
    found = sources.load_rows("path", name="examples", split="train", data=path, hub=("", None, ""))
    return [example(row, place) for row, place in zip(found.rows, found.places, strict=True)]


def example(row: sources.Row, place: str) -> Example:
    """One row.

    Raises:
        DataError: naming `place`.
    """
    messages = row.get("messages")
    if messages is None:
        prompt, completion = text_field(row, place, "prompt"), text_field(row, place, "completion")
    else:
        texts = [m.get("content") for m in messages if isinstance(m, dict)] if isinstance(messages, list) else []  # pyright: ignore
        if len(texts) < 2 or not all(isinstance(text, str) for text in texts):
            raise DataError(f"{place}: 'messages' must be a user's and an assistant's, each with 'content'")
        prompt, completion = str(texts[-2]), str(texts[-1])
    if not completion.strip():
        raise DataError(f"{place}: an empty completion: there is nothing to learn")
    return Example(prompt=prompt, completion=completion, source=str(row.get("source", Path(place).name)))


def split(examples: Sequence[Example]) -> tuple[list[Example], list[Example]]:
    """Training and validation examples, see `split_prompts`."""
    return split_prompts(examples, lambda example: example.prompt)


def split_prompts(rows: Sequence[RowT], prompt_of: Callable[[RowT], str]) -> tuple[list[RowT], list[RowT]]:
    """Rows to learn from and to validate on: prompts whose hash is among the lowest tenth are for validation.

    Raises:
        UserError: they are of one prompt, or none.
    """
    prompts = sorted(set(map(prompt_of, rows)), key=lambda prompt: hashlib.sha256(prompt.encode()).hexdigest())
    if len(prompts) < 2:
        raise UserError(f"{len(rows)} examples of {len(prompts)} prompts are too few to learn from and validate on")
    held = set(prompts[: max(1, len(prompts) // 10)])
    return [row for row in rows if prompt_of(row) not in held], [row for row in rows if prompt_of(row) in held]


def write_data(examples: Sequence[Example], folder: Path, facts: dict[str, Any]) -> str:
    """`data.jsonl`, `provenance.json` and a card, `README.md`, in a folder; returns the data's checksum."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(asdict(e), ensure_ascii=False) + "\n" for e in examples)
    (folder / "data.jsonl").write_text(text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    by_source = dict(Counter(e.source for e in examples))
    made = {**facts, "num_rows": len(examples), "rows_by_source": by_source, "sha256": digest}
    write_json(folder / "provenance.json", made)
    (folder / "README.md").write_text(card(made))
    return digest


def card(made: dict[str, Any]) -> str:
    """What stands on the data set's first page."""
    lines = [f"| {name} | {json.dumps(value) if isinstance(value, dict) else value} |" for name, value in made.items()]
    return "\n".join(
        [
            "# Examples for supervised fine-tuning",
            "",
            "One JSON object a line: `prompt`, `completion`, `source` (solver, sampled, general), `problem`.",
            "Made by `python -m bench pipeline r1`; the completions are a model's own or a solver's, and were kept by",
            "the rules below. Problems of the test split are not in it.",
            "",
            "| | |",
            "| --- | --- |",
            *lines,
            "",
        ]
    )
