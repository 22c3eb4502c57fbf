"""How a figure looks and is kept: colour-blind safe, labelled, with its n, as png and svg."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import seaborn as sns
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import EngFormatter, MaxNLocator
from scipy import stats

from bench.report.comparison import Comparison
from bench.report.curves import Floats
from bench.stats import MIN_T

Axes = Any
Drawn = tuple[str, str, Canvas]  # title, caption, canvas
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
MARKERS = "osD^vPX*"
WIDTH = 9.0  # inches


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A drawn figure; `name` is the file's stem, `caption` says what is drawn and from how many runs."""

    name: str
    title: str
    caption: str
    canvas: Canvas

    def write(self, folder: Path) -> None:
        """`<name>.png` and `<name>.svg`."""
        self.canvas.savefig(folder / f"{self.name}.png", dpi=120)
        self.canvas.set_layout_engine("none")  # laid out once: it is the dearer part of drawing
        self.canvas.savefig(folder / f"{self.name}.svg", metadata={"Date": None})


@contextmanager
def style() -> Generator[None]:
    """Settings under which every figure is drawn."""
    quiet = {"svg.hashsalt": "bench", "axes.titlesize": "medium", "legend.frameon": False, "axes.titlelocation": "left"}
    quiet |= {"grid.color": "0.92", "grid.linewidth": 0.8, "axes.edgecolor": "0.8", "axes.linewidth": 0.8}
    settings: Any = {**sns.axes_style("whitegrid"), **sns.plotting_context("notebook", font_scale=0.85), **quiet}
    with mpl.rc_context(settings):
        yield


def blank_canvas(rows: int, columns: int, height: float) -> tuple[Canvas, list[Axes]]:
    """An empty canvas of (rows x columns) panels."""
    canvas = Canvas(figsize=(WIDTH, height), layout="constrained")
    panels = canvas.subplots(rows, columns, squeeze=False)
    return canvas, [*panels.flat]


@dataclass(frozen=True, kw_only=True)
class Look:
    """An arm's colour, dash and marker, equal in every figure."""

    colour: Any
    dash: Any
    marker: str


def looks(comparison: Comparison) -> dict[str, Look]:
    """Arm -> look. Colours repeat from the eleventh arm on; dashes and markers then still differ."""
    palette = sns.color_palette("colorblind", 10)
    return {
        arm.name: Look(colour=palette[i % 10], dash=DASHES[i % len(DASHES)], marker=MARKERS[i % len(MARKERS)])
        for i, arm in enumerate(comparison.arms)
    }


def band(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean and 95% t interval (X,) of runs (n, X), NaN where a run has no figure; no interval below three runs."""
    known = np.isfinite(values)
    n = known.sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(known, values, 0).sum(0) / n
        variance = np.where(known, values - mean, 0).__pow__(2).sum(0) / (n - 1)
        half = stats.t.ppf(0.975, n - 1) * np.sqrt(variance / n)
    half = np.where(n >= MIN_T, half, np.nan)
    return mean, mean - half, mean + half


def draw_band(axes: Axes, x: Floats, values: Floats, look: Look, label: str) -> None:
    """Mean line and band of runs (n, X)."""
    mean, low, high = band(values)
    axes.plot(x, mean, color=look.colour, linestyle=look.dash, label=label)
    axes.fill_between(x, low, high, color=look.colour, alpha=0.2, linewidth=0)


def counted_axis(axes: Axes, *, whole: bool = False) -> None:
    """Ticks of the x axis as 20k, 1.2T; with `whole` at whole numbers only."""
    if whole:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def legend(canvas: Canvas, axes: Axes) -> None:
    """One legend for the whole figure, below it."""
    handles, names = axes.get_legend_handles_labels()
    if handles:
        columns = len(handles) if len(handles) <= 5 else 4
        canvas.legend(handles, names, loc="outside lower center", ncols=columns)


def stacked(axes: Axes, names: Sequence[str], parts: dict[str, list[float]], unit: str) -> None:
    """Horizontal bars, one for each name, stacked from parts; hatches tell parts apart without colour."""
    palette = sns.color_palette("colorblind", 10)
    hatches = ("", "//", "..", "xx", "\\\\", "++", "oo", "--")
    left = np.zeros(len(names))
    for i, (part, sizes) in enumerate(parts.items()):
        colour, hatch = palette[i % 10], hatches[i % len(hatches)]
        axes.barh(names, sizes, left=left, label=part, color=colour, hatch=hatch, edgecolor="white", height=0.6)
        left += np.nan_to_num(sizes)
    for y, total in enumerate(left):
        axes.text(total, y, f" {total:.3g}", va="center")
    axes.set_xlim(0, max(left, default=1) * 1.12)
    axes.set_xlabel(unit)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")


def runs_an_arm(comparison: Comparison) -> str:
    """`n = 5 runs each`, or arm by arm."""
    counts = {arm.name: len(arm.counted) for arm in comparison.arms}
    if len(set(counts.values())) == 1:
        return f"n = {next(iter(counts.values()))} runs an arm"
    return "n = " + ", ".join(f"{count} ({name})" for name, count in counts.items())
