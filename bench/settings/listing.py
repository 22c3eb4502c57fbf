"""What there is to choose from: algorithms, tasks, embedded models, recipes."""

from collections.abc import Iterator

from algorithms import ALGORITHMS
from bench.config import ASSETS
from bench.settings.recipes import RECIPES, differences
from tasks import TASKS


def listing() -> Iterator[str]:
    """The lines of `python -m bench list`."""
    for title, table in (("algorithms", ALGORITHMS), ("tasks", TASKS)):
        yield title
        for name, cls in table.items():
            yield f"  {name:<22}{(cls.__doc__ or '').strip().splitlines()[0]}"
    yield "embedded models"
    yield from (f"  {path.parent.name}" for path in sorted(ASSETS.glob("*/config.json")))
    yield "recipes, by --recipe NAME: what differs from the defaults"
    for name, recipe in RECIPES.items():
        yield f"  {name}: {recipe.source}{'' if recipe.checked else ' (values not yet checked against it)'}"
        for algorithm in recipe.settings:
            changes = (f"{key} {value!r}" for key, value, _ in differences(name, algorithm))
            yield f"    {algorithm}: {', '.join(changes) or 'nothing'}"
