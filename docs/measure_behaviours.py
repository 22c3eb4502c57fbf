"""How often word lists see what countdown's equations say: `python -m docs.measure_behaviours MODEL [NUM] [TOKENS]`.

Samples completions of countdown's test problems, reads each exactly and by words, and prints a table of precision and
recall (of completions in which a behaviour occurs at all) with the counts behind them.
"""

import sys
from collections.abc import Iterable, Mapping

from bench.config import Sampling
from bench.models.load import locate_model
from bench.pipeline.measure import sampler
from bench.rollout import generate
from tasks.behaviours import BEHAVIOURS, by_words, observed
from tasks.countdown import Countdown

HEAD = "| behaviour | exactly | by words | both | precision | recall |\n| --- | --- | --- | --- | --- | --- |"


def table(found: Iterable[tuple[Mapping[str, int], Mapping[str, int]]]) -> str:
    """One row a behaviour, from the exact counts and the words' counts of each completion."""
    pairs = list(found)
    rows = [HEAD]
    for name in BEHAVIOURS:
        exact, words = ({i for i, pair in enumerate(pairs) if pair[side][name]} for side in (0, 1))
        both = len(exact & words)
        precision, recall = (f"{both / len(whole):.0%}" if whole else "-" for whole in (words, exact))
        label = name.replace("_", " ")
        rows.append(f"| {label} | {len(exact)} | {len(words)} | {both} | {precision} | {recall} |")
    return "\n".join(rows)


def main(model: str = "embedded", num_problems: int = 512, max_new_tokens: int = 64) -> None:
    """Print the table."""
    ours = model == "embedded"
    task = Countdown(template="plain" if ours else "boxed")
    problems = task.problems("test")[:num_problems]
    engine = sampler(locate_model(model, "countdown"), problems, max_new_tokens)
    samples = generate(engine, problems, 1, Sampling(max_new_tokens=max_new_tokens), ("behaviours", 0))
    texts = [(sample.problem, sample.completion.text) for sample in samples]
    print(f"{model}, {len(texts)} completions of at most {max_new_tokens} tokens\n")
    print(table((observed(task, problem, text), by_words(text)) for problem, text in texts))


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:4]))
