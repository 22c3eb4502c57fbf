"""The one error of a user's, and suggestions for names that are not known."""

import difflib
import errno
import os
from collections.abc import Iterable

NO_ROOM = (errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EFBIG)
TORCH_ARCHIVE = "inline_container"  # all that torch says of a write that failed is where its own code noticed


class UserError(Exception):
    """A mistake of the user's; the message is one line that says what to do. Exit code 2."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A suggestion for a name that is not known."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else f"choose from {', '.join(known)}"


def lacks_room(error: Exception) -> bool:
    """Whether what was written found no room: by the error's number, or by the words of a library that drops it."""
    words = (*map(os.strerror, NO_ROOM), TORCH_ARCHIVE)
    return getattr(error, "errno", None) in NO_ROOM or any(word in str(error) for word in words)
