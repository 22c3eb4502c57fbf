r"""What an answer is dressed in and does not mean: invisible characters, colour, size and emphasis.

\textcolor{red}{7}   \underline{7}   \large 7   **7**   `7`   7 with a zero-width space       all say 7
"""

import re

_INVISIBLE = dict.fromkeys(
    [0xAD, 0x61C, 0xFEFF, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2065)]
)
_FULL_WIDTH = {0xFF10 + digit: str(digit) for digit in range(10)}
_CHARACTERS = _INVISIBLE | _FULL_WIDTH
_DRESS = re.compile(
    r"\\(?:text|page)?color(?:box)?\s?(?:\[[A-Za-z]{1,10}\]\s?)?\{[^{}]{0,40}\}"
    r"|\\(?:underline|uline|emph|boldsymbol|bm|tiny|scriptsize|footnotesize|small|normalsize|large|Large|LARGE|huge|Huge"
    r"|bfseries|itshape)(?![A-Za-z])"
)
_MARKDOWN = re.compile(r"\s*(\*{1,3}|_{1,3}|`{1,3})(?=[^\s*_`])(.*[^\s*_`])\1\s*", re.DOTALL)
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_SENTENCE = re.compile(r"\s*\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mbox)\s*\{([^{}]*)\}\s*")
_INLINE = re.compile(r"\s*(?:\\\((.*)\\\)|\\\[(.*)\\\]|\$+(.*?)\$+)\s*", re.DOTALL)


def undressed(text: str) -> str:
    """The text without what does not change its meaning. Linear in its length."""
    text = text.translate(_CHARACTERS)
    bare = _DRESS.sub("", text)
    found = _MARKDOWN.fullmatch(bare)
    bare = found[2] if found else bare
    return _without_group(bare) if bare != text else bare


def bare_text(text: str) -> str:
    r"""An answer in words or arithmetic without what stands around all of it: `\text{4*6}.`, `$\textbf{No}$`."""
    for _ in range(4):
        text = undressed(text).strip().rstrip(".")
        text = _without_group(text)
        for pattern in (_SENTENCE, _INLINE):
            found = pattern.fullmatch(text)
            text = next(part for part in found.groups() if part is not None) if found else text
    return text.strip()


def _without_group(text: str) -> str:
    r"""Braces around all of a text taken off, as `\textcolor` leaves them."""
    text = text.strip()
    depth = 0
    for brace in _BRACE.finditer(text) if text.startswith("{") else ():
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return text[1:-1] if brace.end() == len(text) else text
    return text
