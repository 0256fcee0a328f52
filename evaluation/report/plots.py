"""Plots of results, as PNG and SVG; equal data produce equal files.

Independent of protocols: callers provide the numbers and the labels. Matplotlib is imported within functions, since
tables and figures do not need it.
"""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from evaluation.files import atomic_path
from evaluation.report.tables import display_name

Floats = npt.NDArray[np.float64]

# Okabe and Ito's palette, which colour-blind readers can distinguish.
ROLE_COLORS: Mapping[str, str] = {
    "in_distribution": "#0072B2",
    "near_ood": "#E69F00",
    "far_ood": "#CC3311",
    "external": "#888888",
    "novel_class": "#D55E00",
    "adversarial": "#CC79A7",
    "synthetic": "#009E73",
    "corruption": "#56B4E9",
    "multi_label": "#000000",
}
_LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#CC3311")
_BETTER, _WORSE, _PLAIN = "#009E73", "#D55E00", "#BBBBBB"

_NARROWEST = 6.4
"""Inches: a figure with one panel holds its title and its legend, too."""

DPI = 150
"""Resolution of PNGs in dots per inch."""

_STYLE: Mapping[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.fonttype": "none",  # keep text as text, for search and screen readers
    "svg.hashsalt": "unknown-detection",
}


_P = ParamSpec("_P")
_R = TypeVar("_R")


def styled(draw: Callable[_P, _R]) -> Callable[_P, _R]:
    """Apply our style while drawing, independent of the user's matplotlib settings."""

    @functools.wraps(draw)
    def styled(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        import matplotlib

        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(_STYLE)
            return draw(*args, **kwargs)

    return styled


@dataclass(frozen=True)
class Curve:
    """A detector's risk-coverage curve: both axes of shape (n,), and the area to print."""

    title: str
    coverage: Floats
    risk: Floats
    area: float


@styled
def risk_coverage(curves: Sequence[Curve], *, baseline: str, title: str, shown: int = 6) -> Any:
    """Plot risk-coverage curves: the best few in colour, the baseline in black, all others in grey.

    Args:
        curves: in any order.
        baseline: title of the baseline's curve.
        title: title of the plot.
        shown: number of curves to name, besides the baseline.

    Returns:
        A matplotlib figure.
    """
    figure, axes = _single(7.2, 4.0)
    ranked = sorted(curves, key=lambda curve: (curve.area, curve.title))
    named = [curve for curve in ranked if curve.title != baseline][:shown]
    for curve in ranked:
        if curve in named:
            color, width, order = _LINES[named.index(curve) % len(_LINES)], 1.6, 3
        elif curve.title == baseline:
            color, width, order = "black", 2.0, 4
        else:
            color, width, order = _PLAIN, 0.8, 1
        label = f"{curve.title} ({curve.area:.1f})" if order > 1 else None
        at = _thinned(len(curve.risk))
        axes.plot(curve.coverage[at], curve.risk[at], color=color, linewidth=width, zorder=order, label=label)
    if len(ranked) > len(named) + 1:
        axes.plot([], [], color=_PLAIN, linewidth=0.8, label=f"{len(ranked) - len(named) - 1} others")
    # The first few rows make a curve jump between 0 and 1; the axis is scaled to the rest.
    top = max(float(curve.risk[len(curve.risk) // 50 :].max()) for curve in ranked)
    axes.set(xlim=(0, 1), ylim=(0, max(1.08 * top, 0.01)), xlabel="coverage", ylabel="risk (share of errors)")
    figure.suptitle(_wrapped(title, 7.2), fontsize=10)
    axes.grid(color="#EEEEEE")
    axes.legend(title="AURC x 1,000, best first", loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=8)
    return figure


@styled
def densities(scores: Mapping[str, Mapping[str, Floats]], *, title: str) -> Any:
    """Plot densities of scores by role, with one panel per detector.

    Args:
        scores: by detector title, the scores of each role's rows.
        title: title of the plot.

    Returns:
        A matplotlib figure.
    """
    wide = min(4, len(scores))
    high = -(-len(scores) // wide)
    roles = sorted({role for by_role in scores.values() for role in by_role}, key=_role_order)
    note = (
        "scores from known (left) to unknown (right); values outside the range are in the outermost bars, which may "
        "be cut off"
    )
    width = max(2.5 * wide + 0.4, _NARROWEST)
    heading = f"{_wrapped(title, width)}\n{_wrapped(note, width)}"
    across = min(len(roles), int(width / 1.4))
    above, below = 0.4 + 0.17 * (heading.count("\n") + 1), 0.5 + 0.2 * -(-len(roles) // across)
    height = 1.6 * high + above + below - 0.2
    figure, panels = _figure(width, height, high, wide)
    # Positions in inches, because matplotlib's automatic layout of 30 panels takes longer than all other pictures.
    edges_of = {"left": 0.2 / width, "right": 1 - 0.2 / width, "top": 1 - above / height, "bottom": below / height}
    figure.subplots_adjust(**edges_of, hspace=0.6, wspace=0.12)
    for place, (name, by_role) in zip(panels.flat, scores.items(), strict=False):
        edges = np.linspace(*_range(by_role), 41)
        # Bars of the values outside the range are cut off if they would dwarf all others.
        inside = [np.histogram(values, edges)[0].max() / len(values) for values in by_role.values()]
        place.set_ylim(0, 1.1 * max(inside) if max(inside) > 0 else 1.0)
        for role in sorted(by_role, key=_role_order):
            values = by_role[role].clip(edges[0], edges[-1])
            heights = np.histogram(values, edges)[0] / len(values)
            color = ROLE_COLORS.get(role, "#333333")
            place.stairs(heights, edges, fill=True, color=color, alpha=0.35)
            place.stairs(heights, edges, color=color, linewidth=1.0)
        place.set(title=name, yticks=[])
        place.tick_params(labelsize=7)
        place.locator_params(axis="x", nbins=4)
        place.spines["left"].set_visible(False)
    for place in list(panels.flat)[len(scores) :]:
        place.set_visible(False)
    handles = [_patch(ROLE_COLORS.get(role, "#333333"), display_name(role)) for role in roles]
    figure.legend(handles=handles, loc="lower center", ncols=across)
    figure.suptitle(heading, y=1 - 0.1 / height, fontsize=10)
    return figure


@styled
def changes(changed: Mapping[str, tuple[float, float | None]], *, title: str, axis: str) -> Any:
    """Plot bars of the change against a baseline, the best on top; above 0 is better.

    Args:
        changed: mean and standard deviation of each detector's change, by title.
        title: title of the plot.
        axis: label of the axis, with the unit.

    Returns:
        A matplotlib figure.
    """
    figure, axes = _single(6.4, 0.26 * len(changed) + 1.3)
    ordered = sorted(changed.items(), key=lambda item: (item[1][0], item[0]))
    values = [value for _, (value, _) in ordered]
    spread = [np.nan if deviation is None else deviation for _, (_, deviation) in ordered]
    colors = [_BETTER if value >= 0 else _WORSE for value in values]
    axes.barh([name for name, _ in ordered], values, color=colors, height=0.7, xerr=spread,
              error_kw={"elinewidth": 0.8, "capsize": 2, "ecolor": "#333333"})  # fmt: skip
    axes.axvline(0, color="black", linewidth=0.8)
    axes.grid(axis="x", color="#EEEEEE")
    axes.set_axisbelow(True)
    axes.set(xlabel=axis)
    figure.suptitle(_wrapped(title, 6.4), fontsize=10)
    axes.margins(y=0.01)
    return figure


@styled
def heatmap(values: Floats, rows: Sequence[str], columns: Sequence[str], *, title: str, bar: str) -> Any:
    """Plot a matrix of rates from 0.5 (random) to 1, with the values in the cells.

    Args:
        values: shape (r, c); NaN for missing values.
        rows: r names, from the top.
        columns: c names.
        title: title of the plot.
        bar: label of the colour bar.

    Returns:
        A matplotlib figure.
    """
    width = max(1.05 * len(columns) + 3.6, _NARROWEST)
    figure, axes = _single(width, 0.27 * len(rows) + 1.8)
    # The scale is symmetric around 0.5, so worse than random has a colour of its own.
    image = axes.imshow(values * 100, cmap="RdYlBu", vmin=0, vmax=100, aspect="auto")
    for row, column in np.ndindex(values.shape):
        value = values[row, column] * 100
        dark = np.isfinite(value) and abs(value - 50) > 38
        text = f"{value:.1f}" if np.isfinite(value) else "-"
        axes.text(column, row, text, ha="center", va="center", fontsize=8, color="white" if dark else "black")
    axes.set_xticks(range(len(columns)), columns, rotation=25, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    figure.suptitle(_wrapped(title, width), fontsize=10)
    figure.colorbar(image, ax=axes, label=bar, shrink=min(1.0, 8 / max(len(rows), 1)))
    return figure


@styled
def save(figure: Any, folder: Path, name: str) -> list[str]:
    """Write a figure as `name.png` and `name.svg`.

    Returns:
        The names of the files.
    """
    # The layout is computed once, not for each file.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    # No dates or versions in the metadata: equal figures produce equal bytes.
    for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None, "Creator": None})):
        with atomic_path(folder / f"{name}{suffix}") as temporary:
            figure.savefig(temporary, dpi=DPI, metadata=metadata)
    return [f"{name}.png", f"{name}.svg"]


def _figure(width: float, height: float, rows: int, columns: int) -> tuple[Any, Any]:
    """Return a figure without a window or global state, and its panels, shape (rows, columns)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def _single(width: float, height: float) -> tuple[Any, Any]:
    """Return a figure with one panel and an automatic layout."""
    figure, panels = _figure(width, height, 1, 1)
    figure.set_layout_engine("constrained")
    return figure, panels[0, 0]


def _range(by_role: Mapping[str, Floats]) -> tuple[float, float]:
    """Return the range to plot: nearly all scores, with known ones on at least a quarter of the axis."""
    low, high = np.percentile(np.concatenate(list(by_role.values())), [1, 99])
    if "in_distribution" in by_role:
        bottom, top = np.percentile(by_role["in_distribution"], [1, 99])
        around = 1.5 * (top - bottom) if top > bottom else np.inf
        low, high = max(low, bottom - around), min(high, top + around)
    return float(low), float(high if high > low else low + 1.0)


def _wrapped(text: str, width: float) -> str:
    """Break a title into lines that a figure of so many inches holds, at 10 points."""
    return "\n".join(textwrap.wrap(text, int((width - 0.4) / 0.09)))


def _patch(color: str, label: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(facecolor=color, alpha=0.6, label=label)


def _role_order(role: str) -> tuple[int, str]:
    known = list(ROLE_COLORS)
    return (known.index(role) if role in known else len(known), role)


def _thinned(rows: int, points: int = 2000) -> npt.NDArray[np.int64]:
    """Return the points of a long curve to draw: all near its start, where it changes, then a sample."""
    if rows <= points:
        return np.arange(rows)
    return np.unique(
        np.concatenate([np.arange(points // 2), np.linspace(0, rows - 1, points // 2).round()]).astype(int)
    )
