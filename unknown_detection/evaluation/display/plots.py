"""Plots of results that fit a paper's column, each as a matplotlib figure; equal data produce equal files.

Independent of protocols: callers provide the numbers and the labels. Matplotlib is imported within functions, since
tables and figures do not need it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.display.canvas import (
    COLUMN,
    INK,
    PAGE,
    legend_label,
    new_figure,
    readable,
    styled,
    wrap_text,
)

Floats = npt.NDArray[np.float64]

Reliability = tuple[Floats, Floats, Floats, float]
"""By bin, shape (B,), rows, and their mean confidence and accuracy, NaN without rows; and the ECE."""

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


@styled
def plot_risk_coverage(
    curves: Mapping[str, tuple[Floats, Floats, float]], *, baseline: str, title: str, shown: int = 5
) -> Any:
    """Plot risk-coverage curves: the best few (`shown`) in colour, the baseline in black, all others in grey.

    `curves` has, by detector, coverage and risk, each of shape (n,), and the AURC x 1,000.
    """
    ranked = sorted(curves, key=lambda name: (curves[name][2], name))
    named = [name for name in ranked if name != baseline][:shown]
    figure, ((axes,),) = new_figure(title, COLUMN, 2.6 + 0.13 * (len(named) // 2 + 2))
    for name in ranked:
        coverage, risk, area = curves[name]
        at = _thinned(len(risk))
        style: dict[str, Any] = {"color": _OTHERS, "linewidth": 0.5, "alpha": 0.5}
        if name in named or name == baseline:
            color = INK if name == baseline else _LINES[named.index(name) % len(_LINES)]
            style = {"color": color, "linewidth": 1.2, "zorder": 3, "label": legend_label(f"{name} ({area:.1f})")}
        axes.plot(coverage[at] * 100, risk[at] * 100, **style)
    others = len(ranked) - len({*named, baseline} & {*ranked})
    if others:
        axes.plot([], [], color=_OTHERS, linewidth=0.5, label=f"{others} others")
    # The first few rows make a curve jump between 0 and 1; the axis is scaled to the rest.
    top = max(float(risk[len(risk) // 50 :].max()) for _, risk, _ in curves.values())
    axes.set(xlim=(0, 100), ylim=(0, max(108 * top, 1)), xlabel="coverage (%)", ylabel="risk (% errors)")
    axes.grid()
    figure.legend(title="AURC × 1,000, best first", loc="outside lower center", ncols=2)
    return figure


@styled
def plot_roc(curves: Mapping[str, tuple[Floats, Floats, float]], *, title: str) -> Any:
    """Plot ROC curves with the known rows positive, and the threshold at 95 % TPR.

    `curves` has, by set of unknown rows, false and true positive rates, each of shape (n,), and the AUROC in percent.
    """
    figure, ((axes,),) = new_figure(title, COLUMN, 2.6 + 0.13 * (len(curves) + 1))
    axes.plot([0, 100], [0, 100], color=_OTHERS, linewidth=0.6, linestyle="--")
    axes.axhline(95, color=_OTHERS, linewidth=0.6, linestyle=":")
    for number, (name, (fpr, tpr, area)) in enumerate(curves.items()):
        at = _thinned(len(fpr), 1000)
        style = {"color": _LINES[number % len(_LINES)], "linewidth": 1.2}
        axes.plot(fpr[at] * 100, tpr[at] * 100, label=legend_label(f"{name} (AUROC {area:.2f})"), **style)
    axes.set(
        xlim=(0, 100), ylim=(0, 100), xlabel="FPR: unknown rows accepted (%)", ylabel="TPR: known rows accepted (%)"
    )
    axes.grid()
    figure.legend(loc="outside lower center", ncols=1)
    return figure


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


@styled
def plot_changes(changed: Mapping[str, tuple[float, float | None]], *, title: str, axis: str) -> Any:
    """Plot bars of the change against a baseline, mean and deviation by detector, the best on top; above 0 is better.

    A bar that would dwarf the others is cut, and carries its value. The label of the axis has the unit.
    """
    figure, ((axes,),) = new_figure(title, COLUMN, 0.15 * len(changed) + 1.1)
    ordered = sorted(changed.items(), key=lambda item: (item[1][0], item[0]))
    values = np.array([value for _, (value, _) in ordered])
    limit = 3 * float(np.quantile(np.abs(values), 0.75)) or np.inf
    spread = [np.nan if deviation is None or abs(value) > limit else deviation for _, (value, deviation) in ordered]
    colors = [_LINES[2] if value >= 0 else _LINES[1] for value in values]
    axes.barh([name for name, _ in ordered], values.clip(-limit, limit), color=colors, height=0.7, xerr=spread,
              error_kw={"elinewidth": 0.7, "capsize": 1.5, "ecolor": INK})  # fmt: skip
    for place, value in enumerate(values):
        if abs(value) > limit:
            side = "left" if value < 0 else "right"
            axes.text(np.sign(value) * limit, place, f" cut: {value:+.0f} ", ha=side, va="center", fontsize=6,
                      color=readable(colors[place]))  # fmt: skip
    axes.axvline(0, color=INK, linewidth=0.6)
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(wrap_text(figure, axis, 1.9, 7))
    axes.margins(y=0.01)
    return figure


@dataclass(frozen=True)
class Shades:
    """How a heat map shows percentages.

    Attributes:
        limits: the ends of the colour bar; all values below the lower one share its colour.
        colors: name of the colour map.
        text: format of the percentages in the cells; empty for cells without them.
    """

    limits: tuple[float, float] = (50, 100)
    colors: str = "viridis"
    text: str = "{:.1f}"


AUROC = Shades()
"""Shades of AUROC, for which all values below chance are alike."""


@styled
def plot_heatmap(
    values: Floats, rows: Sequence[str], columns: Sequence[str], *, title: str, bar: str, shades: Shades = AUROC
) -> Any:
    """Plot a matrix of rates, shape (r, c), NaN for missing ones, with the names of rows, columns and colour bar."""
    import matplotlib

    width = COLUMN if len(columns) <= 4 else max(PAGE, 0.17 * len(columns))
    figure, ((axes,),) = new_figure(title, width, 0.14 * len(rows) + 1.5)
    colors, scale = matplotlib.colormaps[shades.colors], matplotlib.colors.Normalize(*shades.limits)
    image = axes.imshow(values * 100, cmap=colors, norm=scale, aspect="auto")
    for row, column in np.ndindex(values.shape if shades.text else (0, 0)):
        value = values[row, column] * 100
        finite = np.isfinite(value)
        text, color = (shades.text.format(value), readable(colors(scale(value)))) if finite else ("-", INK)
        axes.text(column, row, text, ha="center", va="center", fontsize=6, color=color)
    slope = 30 if len(columns) <= _SLANTED else 90
    axes.set_xticks(range(len(columns)), columns, rotation=slope, ha="right", va="center", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    extend = "min" if shades.limits[0] > 0 else "neither"
    figure.colorbar(image, ax=axes, label=bar, extend=extend, aspect=40, pad=0.02)
    return figure


@styled
def plot_reliability(bins: Mapping[str, Reliability], *, title: str) -> Any:
    """Plot reliability diagrams by name: accuracy against confidence, on the diagonal if a model is calibrated."""
    figure, ((axes,),) = new_figure(title, COLUMN, 2.6 + 0.13 * len(bins))
    axes.plot([0, 100], [0, 100], color=INK, linewidth=0.8, linestyle="--", label="calibrated")
    for number, (name, (rows, confidence, accuracy, error)) in enumerate(bins.items()):
        full, color = rows > 0, _LINES[number % len(_LINES)]
        x, y = confidence[full] * 100, accuracy[full] * 100
        axes.plot(x, y, linewidth=0.8, color=color, label=legend_label(f"{name} (ECE {100 * error:.2f} %)"))
        axes.scatter(x, y, s=3 + 60 * rows[full] / rows.sum(), color=color, zorder=3, clip_on=False)
    axes.set(xlim=(0, 100), ylim=(0, 100), xlabel="confidence (%); dots by rows", ylabel="accuracy (%)")
    axes.grid()
    figure.legend(loc="outside lower center")
    return figure


def _range(by_role: Mapping[str, Floats]) -> tuple[float, float]:
    """Return the range to plot: nearly all scores, with known ones on at least a quarter of the axis."""
    low, high = np.percentile(np.concatenate(list(by_role.values())), [1, 99])
    if "in_distribution" in by_role:
        bottom, top = np.percentile(by_role["in_distribution"], [1, 99])
        around = 1.5 * (top - bottom) if top > bottom else np.inf
        low, high = max(low, bottom - around), min(high, top + around)
    return float(low), float(high if high > low else low + 1.0)


def _thinned(rows: int, points: int = 400) -> npt.NDArray[np.int64]:
    """Return the points of a long curve to draw: all near its start, where it changes, then a sample."""
    if rows <= points:
        return np.arange(rows)
    sample = np.linspace(0, rows - 1, points // 2).round().astype(int)
    return np.unique(np.concatenate([np.arange(points // 2), sample]))
