"""Chat templates that show the date or the time (`strftime_now`): they show the run's, whenever they are filled."""

import string
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Templated(Protocol):
    """A tokenizer, as far as this is about it."""

    @property
    def chat_template(self) -> object: ...
    def get_chat_template(self) -> str: ...


_moment = datetime.now(UTC)


def fix_time(moment: datetime) -> None:
    """From now on every template of this process shows this time: a process makes one run at a time."""
    global _moment
    _moment = moment


def shows_time(tokenizer: Templated) -> bool:
    """Whether the prompts depend on the time."""
    return tokenizer.chat_template is not None and "strftime_now" in tokenizer.get_chat_template()


def fixed(tokenizer: Templated) -> str | None:
    """What `apply_chat_template` is given as the template; None for the tokenizer's own."""
    return at(tokenizer.get_chat_template(), _moment) if shows_time(tokenizer) else None


@lru_cache(maxsize=8)
def at(template: str, moment: datetime) -> str:
    """The template with its clock stopped: `strftime_now` as a macro that fills in this time's fields.

    Nothing is put between the macro and the template, not even the first line's end.
    """
    fields = [f"%{sign}{letter}" for letter in string.ascii_letters for sign in ("", "-")]
    known = {field: moment.strftime(field) for field in fields}
    filled = "".join(f"|replace({field!r}, {value!r})" for field, value in known.items() if value != field)
    return "{% macro strftime_now(format) %}{{ format" + filled + "|replace('%%', '%') }}{% endmacro +%}" + template
