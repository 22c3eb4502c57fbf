"""A table once: numbers for csv, text for people (md, LaTeX, HTML)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.report.records import Frame, pd
from bench.stats import Difference, Estimate

MISSING = "-"
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a spreadsheet's formulas begin
TAG = re.compile(r"<(?=[A-Za-z/!?])")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What is read, and the number behind it."""

    text: str
    value: float | str | None = None
    low: float | None = None
    high: float | None = None


Row = dict[str, Cell]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of cells; `name` is the file's stem, `note` says how to read it."""

    name: str
    title: str
    note: str
    rows: Sequence[Row]

    @property
    def shown(self) -> Frame:
        """As text. Columns in which no row has anything are left out."""
        frame = pd.DataFrame([{name: cell.text for name, cell in row.items()} for row in self.rows]).fillna(MISSING)
        return frame.loc[:, (frame != MISSING).any()]

    @property
    def data(self) -> Frame:
        """As numbers: a column with intervals becomes three. A missing figure stays empty."""
        return pd.DataFrame([_numbers(row) for row in self.rows])

    def markdown(self) -> str:
        """Heading, note and table."""
        table = self.shown.to_markdown(index=False, disable_numparse=True)
        return plain_text(f"## {self.title}\n\n{self.note}\n\n{table}\n")

    def write(self, folder: Path) -> None:
        """`<name>.csv`, `.md`, `.tex` and `.html`."""
        self.data.map(inert).rename(columns=inert).to_csv(folder / f"{self.name}.csv", index=False)
        (folder / f"{self.name}.md").write_text(self.markdown(), encoding="utf-8")
        (folder / f"{self.name}.html").write_text(self.shown.to_html(index=False, border=0), encoding="utf-8")
        escaped = self.shown.style.hide(axis="index").format(escape="latex").format_index(escape="latex", axis=1)
        caption = f"{self.title}. {self.note}".replace("%", r"\%").replace("_", r"\_").replace("&", r"\&")
        tex = escaped.to_latex(hrules=True, caption=caption, label=f"tab:{self.name}")
        (folder / f"{self.name}.tex").write_text(tex, encoding="utf-8")


def inert(value: object) -> object:
    """A text that a spreadsheet would take for a formula, behind an apostrophe; anything else as it is."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def plain_text(markdown: str) -> str:
    """Markdown in which names hold no HTML: `<` before what could open a tag is written out."""
    return TAG.sub("&lt;", markdown)


def _numbers(row: Row) -> dict[str, float | str | None]:
    numbers: dict[str, float | str | None] = {}
    for name, cell in row.items():
        numbers[name] = cell.value
        if cell.low is not None:
            numbers |= {f"{name} low": cell.low, f"{name} high": cell.high}
    return numbers


def text(value: str) -> Cell:
    """Words."""
    return Cell(text=value or MISSING, value=value or None)


def number(value: float | None, digits: int = 3) -> Cell:
    """To so many significant digits, thousands grouped; missing where there is no figure."""
    if value is None or not np.isfinite(value):
        return Cell(text=MISSING)
    if value == int(value) and abs(value) < 1e9:
        return Cell(text=f"{int(value):,}", value=value)
    large = abs(value) >= 10 ** (digits - 1)
    if abs(value) >= 1e9 or abs(value) < 1e-3:
        return Cell(text=f"{value:.{digits - 1}e}", value=value)
    return Cell(text=f"{value:,.0f}" if large else f"{value:,.{digits}g}", value=value)


def share(part: int, whole: int) -> Cell:
    """`2 of 5`."""
    return Cell(text=f"{part} of {whole}", value=part / whole if whole else None)


def percent(value: Estimate | float | None, *, signed: bool = False) -> Cell:
    """A fraction as percent, or percentage points, with its interval where there is one."""
    if value is None:
        return Cell(text=MISSING)
    found = value if isinstance(value, Estimate) else Estimate(mean=float(value), low=None, high=None, n=1)
    return interval(found.mean, found.low, found.high, scale=100, signed=signed)


def points(value: Difference | None) -> Cell:
    """A difference of fractions in percentage points."""
    return Cell(text=MISSING) if value is None else interval(value.mean, value.low, value.high, scale=100, signed=True)


def interval(
    mean: float, low: float | None, high: float | None, *, scale: float = 1, signed: bool = False, digits: int = 1
) -> Cell:
    """`61.3 [58.0, 64.6]`; the interval is left out where there is none."""
    if not np.isfinite(mean):
        return Cell(text=MISSING)
    form = f"{'+' if signed else ''}.{digits}f"
    shown = f"{mean * scale:{form}}"
    ends = [f"{end * scale:{form}}" for end in (low, high) if end is not None]
    if len(set(ends)) == 2:
        shown += f" [{', '.join(ends)}]"
    return Cell(text=shown, value=mean, low=low, high=high)


def quantity(value: Estimate | None, digits: int = 3) -> Cell:
    """A mean of any unit with its interval, to so many significant digits."""
    if value is None or not np.isfinite(value.mean):
        return Cell(text=MISSING)
    shown = number(value.mean, digits).text
    ends = [number(end, digits).text for end in (value.low, value.high) if end is not None]
    if len(set(ends)) == 2:
        shown += f" [{', '.join(ends)}]"
    return Cell(text=shown, value=value.mean, low=value.low, high=value.high)
