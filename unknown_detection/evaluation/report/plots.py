"""Plots of results that fit a paper's column, each as a matplotlib figure: style, sizes, files and SVG elements.

Equal data produce equal files. Independent of protocols: callers provide the numbers and the labels. Matplotlib is
imported within functions, since tables and figures do not need it.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from builders.storage.files import atomic_path

COLUMN, PAGE = 3.25, 6.75
"""Widths in inches of one column and of both, in the two-column style of ICML and CVPR."""

DPI = 300
"""Resolution of PNGs in dots per inch."""

ON_SCREEN = 130
"""Pixels per inch on a page, on which 7 points are read easily."""

INK = "#1a1a1a"
"""Colour of words and lines, which on a page follow the colour of its text."""

_STYLE: Mapping[str, Any] = {
    "font.size": 7,
    "axes.titlesize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.linewidth": 0.6,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "text.parse_math": False,  # a detector's name is text, also between dollar signs
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": "#99999955",
    "legend.frameon": False,
    "figure.titlesize": 8,
    "pdf.fonttype": 42,  # fonts that journals accept
    "svg.fonttype": "none",  # keep text as text, for search and screen readers
    "svg.hashsalt": "unknown-detection",
}


@contextlib.contextmanager
def _style() -> Iterator[None]:
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


styled = _style()
"""Decorates functions that draw in our style, independent of the user's matplotlib settings."""


@styled
def save(figure: Any, folder: Path, name: str, suffixes: Sequence[str] = (".png", ".svg")) -> None:
    """Write a figure as `name` with each suffix, such as `.png`, `.svg` or `.pdf`."""
    _settle(figure)
    # No dates or versions in the metadata: equal figures produce equal bytes.
    metadata = {
        ".png": {"Software": None},
        ".svg": {"Date": None, "Creator": None},
        ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }
    for suffix in suffixes:
        with atomic_path(folder / f"{name}{suffix}") as temporary:
            figure.savefig(temporary, format=suffix[1:], dpi=DPI, metadata=metadata[suffix])


@styled
def inline_svg(figure: Any, name: str) -> str:
    """Return a figure as an SVG element for a page, in the colour of the page's text.

    Its ids begin with `name`, since those of all figures on a page have to differ.
    """
    _settle(figure)
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, count=1, flags=re.DOTALL)
    width, height = figure.get_size_inches()
    size = f'width="{ON_SCREEN * width:.0f}" height="{ON_SCREEN * height:.0f}"'
    size += ' class="wide"' if width > COLUMN else ""
    svg = re.sub(r'width="[^"]+" height="[^"]+"', size, svg, count=1)
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)


def new_figure(title: str, width: float, height: float, rows: int = 1, columns: int = 1) -> tuple[Any, Any]:
    """Return a figure without a window or global state, and its panels, shape (rows, columns)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, wrap=True)
    return figure, figure.subplots(rows, columns, squeeze=False)


def _settle(figure: Any) -> None:
    """Compute the layout once, not for each file."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


Floats = npt.NDArray[np.float64]

# Okabe and Ito's palette, which colour-blind readers can distinguish.
ROLES: Mapping[str, tuple[str, str]] = {
    "in_distribution": ("known", "#0072B2"),
    "near_ood": ("near-OoD", "#E69F00"),
    "far_ood": ("far-OoD", "#CC3311"),
    "external": ("external", "#888888"),
    "novel_class": ("novel class", "#D55E00"),
    "adversarial": ("adversarial", "#CC79A7"),
    "synthetic": ("synthetic", "#009E73"),
    "corruption": ("corruption", "#56B4E9"),
    "multi_label": ("multi-label", "#666666"),
}
"""Label and colour of each role, in the order of legends."""

_LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_OTHERS = "#999999"

_SLANTED = 15
"""Number of columns up to which their names are slanted; those of more stand upright."""


_LONG = 30
"""Characters up to which names of rows leave a heat map of few columns room in a column; models have longer ones."""


@styled
def plot_curves(
    curves: Mapping[str, tuple[Floats, Floats]], others: Sequence[tuple[Floats, Floats]] = (), *, title: str,
    axes: tuple[str, str], top: float = 100.0, level: float | None = None, legend: str | None = None,
) -> Any:  # fmt: skip
    """Plot curves of rates from 0 to 1 by label, in percent, and others in grey, which the legend counts.

    With `level` there are also a horizontal line at it and the diagonal of guessing.
    """
    columns = 2 if others else 1
    entries = len(curves) + bool(others)
    figure, ((place,),) = new_figure(title, COLUMN, 2.6 + 0.13 * (-(-entries // columns) + (legend is not None)))
    if level is not None:
        place.plot([0, 100], [0, 100], color=INK, linewidth=0.6, linestyle="--")
        place.axhline(level, color=_OTHERS, linewidth=0.6, linestyle=":")
    for x, y in others:
        place.plot(x * 100, y * 100, color=_OTHERS, linewidth=0.5, alpha=0.5)
    for (label, (x, y)), color in zip(curves.items(), itertools.cycle(_LINES), strict=False):
        place.plot(x * 100, y * 100, color=color, linewidth=1.2, zorder=3, label=_in_a_legend(label))
    if others:
        place.plot([], [], color=_OTHERS, linewidth=0.5, label=f"{len(others)} others")
    place.set(xlim=(0, 100), ylim=(0, top), xlabel=axes[0], ylabel=axes[1])
    place.grid()
    if entries:
        figure.legend(title=legend, loc="outside lower center", ncols=columns)
    return figure


def _in_a_legend(label: str) -> str:
    return f" {label}" if label.startswith("_") else label  # legends leave out labels that begin with an underscore


@styled
def plot_densities(scores: Mapping[str, Mapping[str, Floats]], *, title: str) -> Any:
    """Plot densities of scores, by detector and role, with one panel per detector."""
    wide = min(4, len(scores))
    high = -(-len(scores) // wide)
    figure, panels = new_figure(title, PAGE if wide > 2 else COLUMN, 1.25 * high + 0.9, high, wide)
    roles = [role for role in ROLES if any(role in by_role for by_role in scores.values())]
    for place, (name, by_role) in zip(panels.flat, scores.items(), strict=False):
        edges = np.linspace(*_range(by_role), 41)
        # Bars of the values outside the range are cut off if they would dwarf all others.
        inside = max(np.histogram(values, edges)[0].max() / len(values) for values in by_role.values())
        top = 110 * inside or 100.0
        highest = 0.0
        for role in filter(by_role.__contains__, roles):
            heights = np.histogram(by_role[role].clip(edges[0], edges[-1]), edges)[0] / len(by_role[role]) * 100
            highest = max(highest, heights.max())
            place.stairs(heights, edges, fill=True, color=ROLES[role][1], alpha=0.35)
            place.stairs(heights, edges, color=ROLES[role][1], linewidth=0.8)
        if highest > top:
            place.text(0.5, 0.98, f"cut, up to {highest:.0f} %", transform=place.transAxes, ha="center", va="top",
                       fontsize=6)  # fmt: skip
        place.set(title=name, ylim=(0, top))
        place.locator_params(nbins=3)
    for number, place in enumerate(panels.flat):
        place.set_visible(number < len(scores))
        if number + wide >= len(scores):
            place.set_xlabel("score")
        if number % wide == 0:
            place.set_ylabel("rows (%)")
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=ROLES[role][1], alpha=0.6, label=ROLES[role][0]) for role in roles]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(roles), 3 if wide < 3 else 6))
    return figure


_BRIGHT = 71.7
"""Percent above which black is easier to read on the colours of a heat map than white (WCAG 2, contrast)."""


@styled
def plot_heatmap(values: pd.DataFrame, *, title: str, bar: str) -> Any:
    """Plot a matrix of rates in percent with the names of rows and columns, NaN for missing ones.

    Colours are of 50 to 100; all values below, such as AUROCs below chance, share the lowest.
    """
    import matplotlib

    count, percent = values.shape[1], values.to_numpy(float) * 100
    narrow = count <= 4 and max(map(len, values.index)) <= _LONG
    figure, ((axes,),) = new_figure(title, COLUMN if narrow else max(PAGE, 0.17 * count), 0.14 * len(values) + 1.5)
    shades, scale = matplotlib.colormaps["viridis"], matplotlib.colors.Normalize(50, 100)
    image = axes.imshow(percent, cmap=shades, norm=scale, aspect="auto")
    for (row, column), value in np.ndenumerate(percent):
        text = f"{value:.1f}" if value < 99.95 else "100"  # which is as wide as the others
        shade = "black" if value > _BRIGHT else "white"
        cell, ink = (text, shade) if np.isfinite(value) else ("-", INK)
        axes.text(column, row, cell, ha="center", va="center", fontsize=6, color=ink)
    slope = 30 if count <= _SLANTED else 90
    axes.set_xticks(range(count), values.columns, rotation=slope, ha="right", va="center", rotation_mode="anchor")
    axes.set_yticks(range(len(values)), values.index)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    figure.colorbar(image, ax=axes, label=bar, extend="min", aspect=40, pad=0.02)
    return figure


@styled
def plot_ranks(ranks: pd.Series, difference: float, *, title: str) -> Any:
    """Plot mean ranks, the best on top, each with a bar of half the critical difference to either side.

    Where the bars of two do not overlap, they differ.
    """
    figure, ((axes,),) = new_figure(title, COLUMN, 0.14 * len(ranks) + 0.9)
    places = range(len(ranks))
    axes.errorbar(ranks, places, xerr=difference / 2, fmt="o", color=_LINES[0], markersize=3, linewidth=0.8)
    axes.axvline(ranks.iloc[0] + difference / 2, color=_OTHERS, linewidth=0.6, linestyle=":")
    axes.set_yticks(places, ranks.index)
    axes.set(ylim=(len(ranks) - 0.5, -0.5), xlabel="mean rank ± CD / 2")
    axes.grid(axis="x")
    return figure


@styled
def plot_points(x: Floats, series: Mapping[str, Floats], *, title: str, axes: tuple[str, str]) -> Any:
    """Plot points of rates from 0 to 1 by label, in percent."""
    figure, ((place,),) = new_figure(title, COLUMN, 2.6 + 0.13 * len(series))
    for (label, y), color in zip(series.items(), itertools.cycle(_LINES), strict=False):
        place.scatter(x * 100, y * 100, s=12, color=color, label=_in_a_legend(label), alpha=0.8)
    place.set(xlabel=axes[0], ylabel=axes[1])
    place.grid()
    figure.legend(loc="outside lower center")
    return figure


_MOST = 1e300
"""The largest score that is drawn; the length of an axis between larger ones may be infinite."""


def _range(by_role: Mapping[str, Floats]) -> tuple[float, float]:
    """Return the range to plot: nearly all scores, with known ones on at least a quarter of the axis."""
    low, high = np.percentile(np.concatenate(list(by_role.values())), [1, 99])
    if "in_distribution" in by_role:
        bottom, top = np.percentile(by_role["in_distribution"], [1, 99])
        around = 1.5 * (top - bottom) if top > bottom else np.inf
        low, high = max(low, bottom - around), min(high, top + around)
    low, high = np.clip([low, high], -_MOST, _MOST)
    return float(low), float(high if high > low else low + 1.0)
