"""Six kinds of word problem, each told together with the calculations that it asks for."""

from itertools import pairwise

from tasks.procedural.story import THINGS, Dice, Difficulty, Number, Story, WordProblem

JOBS = (  # what is long, how long it is, what is done with it, how fast
    ("A book has {} pages.", "pages", "reads", "day"),
    ("A trail is {} miles long.", "miles", "walks", "hour"),
    ("A fence has {} boards.", "boards", "paints", "hour"),
    ("A quilt needs {} patches.", "patches", "sews", "week"),
)


def _events(dice: Dice, difficulty: Difficulty, num_steps: int) -> WordProblem:
    story = Story(dice, difficulty, dice.pick(THINGS), dice.names(1))
    name, things = story.names[0], story.unit
    held: Number | int = dice.number(3, difficulty.max_start)
    story.sentences.append(f"{name} has {held} {things}.")
    for _ in range(num_steps):
        held = story.event(held)
    return story.finish(f"How many {things} does {name} have {dice.pick(('now', 'in the end'))}?")


def _comparison(dice: Dice, difficulty: Difficulty, num_steps: int) -> WordProblem:
    story = Story(dice, difficulty, dice.pick(THINGS), dice.names(num_steps))
    names, things = story.names, story.unit
    first = held = Number(dice.number(4, difficulty.max_start))
    story.sentences.append(f"{names[0]} has {first.value} {things}.")
    for before, name in pairwise(names):
        kind, change = dice.random(), dice.number(2, difficulty.max_change)
        if kind < 0.3 and held.value <= difficulty.max_start:
            word, factor = dice.pick((("twice", 2), ("three times", 3)))
            story.sentences.append(f"{name} has {word} as many {things} as {before}.")
            held = story.calculate(held, "*", factor, "times")
        elif kind < 0.6 or change >= held.value:
            story.sentences.append(f"{name} has {change} more {things} than {before}.")
            held = story.calculate(held, "+", change, "more")
        else:
            story.sentences.append(f"{name} has {change} fewer {things} than {before}.")
            held = story.calculate(held, "-", change, "fewer")
    story.calculate(first, "+", held, "total")
    return story.finish(f"How many {things} do {names[0]} and {names[-1]} have together?")


def _rate(dice: Dice, difficulty: Difficulty, num_steps: int) -> WordProblem:
    story = Story(dice, difficulty, dice.pick(THINGS), dice.names(1))
    name, things, period = story.names[0], story.unit, dice.pick(("hour", "day", "week"))
    each, count = dice.number(2, difficulty.max_rate), dice.number(2, 5)
    story.sentences.append(
        f"{name} {dice.pick(('collects', 'earns'))} {each} {things} every {period} for {count} {period}s."
    )
    held = story.calculate(each, "*", count, "rate")
    for _ in range(num_steps - 1):
        held = story.event(held)
    return story.finish(f"How many {things} does {name} have {dice.pick(('now', 'in the end'))}?")


def _boxes(dice: Dice, difficulty: Difficulty, num_steps: int) -> WordProblem:
    story = Story(dice, difficulty, dice.pick(THINGS), dice.names(1))
    name, things, holder = story.names[0], story.unit, dice.pick(("boxes", "bags", "jars"))
    count, each = dice.number(2, 5), dice.number(2, difficulty.max_rate)
    story.sentences.append(f"{name} has {count} {holder} with {each} {things} in each.")
    held = story.calculate(count, "*", each, "rate")
    for _ in range(num_steps - 2):
        held = story.event(held)
    parts = [d for d in (2, 3, 4, 5, 6) if held.value % d == 0 and held.value > d]
    if not parts:
        story.event(held)
        return story.finish(f"How many {things} does {name} have now?")
    part = dice.pick(parts)
    story.sentences.append(f"{part} friends share the {things} equally.")
    story.calculate(held, "/", part, "share")
    return story.finish(f"How many {things} does each friend get?")


def _shop(dice: Dice, difficulty: Difficulty, num_steps: int) -> WordProblem:
    """K kinds of thing take k products and k - 1 sums; the change is one more step."""
    story = Story(dice, difficulty, "dollars", dice.names(1))
    name, bought = story.names[0], list[str]()
    paid: Number | None = None
    for _ in range((num_steps + 1) // 2):
        count, price = dice.number(2, 5), dice.number(2, difficulty.max_rate)
        bought.append(f"{count} {dice.pick([t for t in THINGS if t not in ' '.join(bought)])} for {price} dollars each")
        cost = story.calculate(count, "*", price, "price")
        paid = cost if paid is None else story.calculate(paid, "+", cost, "total")
    assert paid is not None
    story.sentences.append(f"{name} buys {', '.join(bought[:-1]) + ' and ' if bought[1:] else ''}{bought[-1]}.")
    if num_steps % 2:
        return story.finish(f"How many dollars does {name} pay in all?")
    given = paid.value + dice.number(2, 20)
    story.sentences.append(f"{name} pays with {given} dollars.")
    story.calculate(given, "-", paid, "change")
    return story.finish(f"How many dollars does {name} get back?")


def _job(dice: Dice, difficulty: Difficulty, num_steps: int) -> WordProblem:
    size, unit, does, period = dice.pick(JOBS)
    story = Story(dice, difficulty, unit, dice.names(1))
    name, each, count = story.names[0], dice.number(2, difficulty.max_rate), dice.number(2, 5)
    story.sentences = ["", f"{name} {does} {each} {unit} every {period} for {count} {period}s."]
    done = story.calculate(each, "*", count, "rate")
    for _ in range(num_steps - 2):
        more = dice.number(2, difficulty.max_change)
        story.sentences.append(f"{dice.pick(('Then', 'Later', 'After that'))} {name} {does} {more} more {unit}.")
        done = story.calculate(done, "+", more, "gain")
    whole = done.value + dice.number(2, 20)
    story.sentences[0] = size.format(whole)
    story.calculate(whole, "-", done, "left")
    return story.finish(f"How many {unit} are left?")


STORIES = (_events, _comparison, _rate, _boxes, _shop, _job)
