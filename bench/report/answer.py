"""The first screen: which arm, at what price, and what it would cost to know more."""

from collections.abc import Sequence

from bench.report.comparison import Arm, Comparison
from bench.report.outcomes import endpoint_of, in_words
from bench.report.tables import percent
from bench.report.verdicts import Judged

PRICES = (("cost/flops", "FLOPs"), ("data/tokens_generated", "generated tokens"), ("trained_gib", "trained memory"))


def answer(found: Sequence[Comparison], judged: Sequence[Judged]) -> list[str]:
    """A line for each comparison of two or more arms."""
    return [line for comparison in found if (line := _line(comparison, judged))]


def _line(comparison: Comparison, judged: Sequence[Judged]) -> str:
    end = endpoint_of(comparison)
    known = [arm for arm in comparison.arms if arm.values(f"final_{end}")]
    if len(known) < 2:
        return ""
    best = max(known, key=lambda arm: _share(arm, f"final_{end}"))
    mine = [item for item in judged if item.comparison is comparison and best in (item.first, item.second)]
    groups = {
        "better than": [item for item in mine if _beats(item, best)],
        "equivalent within the margin to": [item for item in mine if _word(item) == "equivalent"],
        "not separable from": [item for item in mine if _word(item) in ("undecided", "no verdict", "not exercised")],
    }
    text = f"{comparison.label}: {best.name} is highest, {percent(best.share(f'final_{end}')).text}% {in_words(end)}"
    for words, items in groups.items():
        if items:
            text += f"; {words} {', '.join(_other(item, best).name for item in items)}"
    return f"{text}. {_price(best, known)}{_more(mine)}".strip()


def _share(arm: Arm, column: str) -> float:
    found = arm.share(column)
    assert found is not None, "only arms with a result are compared"
    return found.mean


def _other(item: Judged, arm: Arm) -> Arm:
    return item.second if item.first is arm else item.first


def _word(item: Judged) -> str:
    return "no verdict" if item.verdict is None else item.verdict.word


def _beats(item: Judged, best: Arm) -> bool:
    return _word(item) == ("better" if item.first is best else "worse")


def _price(best: Arm, known: Sequence[Arm]) -> str:
    """What the best arm cost, as multiples of the cheapest."""
    parts: list[str] = []
    for column, word in PRICES:
        mine = best.mean(column)
        amounts = {arm.name: a.mean for arm in known if (a := arm.mean(column)) is not None and a.mean > 0}
        if mine is None or len(amounts) < 2:
            continue
        name, least = min(amounts.items(), key=lambda item: item[1])
        parts.append(f"the least {word}" if name == best.name else f"{mine.mean / least:.2f} times {name}'s {word}")
    return f"Its price: {', '.join(parts)}." if parts else ""


def _more(mine: Sequence[Judged]) -> str:
    """Seeds that the open contrasts of the best arm still want."""
    wanted = [
        item.verdict.seeds_needed - min(item.verdict.contrast.seeds)
        for item in mine
        if item.verdict is not None and item.verdict.word == "undecided" and item.verdict.seeds_needed is not None
    ]
    more = [n for n in wanted if n > 0]
    return f" To decide the nearest open contrast: {min(more)} more seeds an arm." if more else ""
