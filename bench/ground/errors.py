"""The one error of a user's, and suggestions for names that are not known."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake of the user's; the message is one line that says what to do. Exit code 2."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A suggestion for a name that is not known."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else f"choose from {', '.join(known)}"
