"""Draws a transition graph: its heaviest clusters, each as two columns of class names with edges between them."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.graph.clusters import Cluster, clusters
from evaluation.graph.transition_graph import Graph
from evaluation.reports.plots import DPI, styled

CLUSTERS = 12
"""Default number of clusters to draw."""

LONGEST = 32
"""Maximum length of a name; longer ones are shortened in the middle."""

# Okabe and Ito's palette, which colour-blind readers can distinguish.
_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_OTHERS = "#888888"
_TEXT, _FAINT = "#222222", "#666666"

# Lengths in inches, the units of the picture's coordinates.
_MARGIN, _GAP, _BOTTOM, _NARROWEST = 0.3, 0.3, 0.75, 6.5
_HEAD, _ROW, _LINE = 0.34, 0.175, 0.16
_SPAN, _BESIDE = 1.4, 0.09
_COLUMNS = 3

_ABOVE = ("class of the images", "predicted as (images)")
"""Headings of the two columns of names."""

# Sizes in points.
_LETTERS, _TITLE = 7.5, 11.0
_WIDEST, _THINNEST = 9.0, 0.5
_NODE = 5.0


@dataclass(frozen=True)
class _Style:
    """The style of classes and edges, the same for all clusters.

    Attributes:
        names: text next to each class on the left and on the right.
        colors: colour of each dataset.
        heaviest: weight of the widest edge.
    """

    names: tuple[Mapping[int, str], Mapping[int, str]]
    colors: Mapping[str, str]
    heaviest: int

    def width(self, weight: int) -> float:
        """Return an edge's width in points: it grows with the root of the weight, so light edges stay visible."""
        return float(max(_WIDEST * np.sqrt(weight / self.heaviest), _THINNEST))


@styled
def draw_graph(graph: Graph, *, title: str, shown: int = CLUSTERS) -> Any:
    """Draw the heaviest clusters of a graph.

    Args:
        graph: a graph with at least one edge.
        title: title of the picture.
        shown: maximum number of clusters.

    Returns:
        A matplotlib figure, with a note on what it leaves out.
    """
    found = clusters(graph)
    drawn = found[:shown]
    names = _names(graph, drawn)
    style = _Style(names, _colors(graph, drawn), max(int(graph.weight[cluster.edges].max()) for cluster in drawn))
    measure = _measure()
    left, right = (
        max(measure(text) for text in [above, *texts.values()]) for above, texts in zip(_ABOVE, names, strict=True)
    )
    headings = [_heading(number, cluster) for number, cluster in enumerate(drawn, start=1)]
    widest = max(measure(text, weight="bold") for text in headings)
    across = max(left + _BESIDE + _SPAN + _BESIDE + right, widest)
    columns = min(_COLUMNS, len(drawn))
    width = max(2 * _MARGIN + columns * across + (columns - 1) * _GAP, _NARROWEST)
    letters = (width - 2 * _MARGIN) / measure("n")
    lines = textwrap.wrap(title, int(letters * _LETTERS / _TITLE))
    note = textwrap.wrap(_note(graph, found, drawn), int(letters))
    below_title = _MARGIN + len(lines) * _LINE * _TITLE / _LETTERS
    top = below_title + len(note) * _LINE + 2 * _LINE
    places, depth = _stacked([_height(cluster) for cluster in drawn], columns, top)
    figure, axes = _canvas(width, depth + _BOTTOM)
    _write(axes, _MARGIN, _MARGIN, "\n".join(lines), fontsize=_TITLE, va="top")
    _write(axes, _MARGIN, below_title, "\n".join(note), color=_FAINT, va="top", linespacing=1.4)
    for cluster, heading, (column, y) in zip(drawn, headings, places, strict=True):
        x = _MARGIN + column * (across + _GAP)
        ends = (x + left + _BESIDE, x + left + _BESIDE + _SPAN)
        if y == top:
            _write(axes, x + left, top - 0.1, _ABOVE[0], color=_FAINT, ha="right")
            _write(axes, ends[1] + _BESIDE, top - 0.1, _ABOVE[1], color=_FAINT)
        _write(axes, x, y + 0.14, heading, weight="bold")
        axes.plot([x, x + across], [y + 0.24, y + 0.24], color="#CCCCCC", linewidth=0.6)
        _draw_cluster(axes, graph, cluster, ends, y + _HEAD, style)
    _add_legends(figure, style)
    return figure


def _draw_cluster(
    axes: Any, graph: Graph, cluster: Cluster, ends: tuple[float, float], top: float, style: _Style
) -> None:
    """Draw a cluster with its columns of nodes at the x positions `ends`, from `top` downwards."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    depth = max(len(cluster.left), len(cluster.right)) * _ROW
    heights = []
    columns = ((cluster.left, ends[0], -_BESIDE, "right"), (cluster.right, ends[1], _BESIDE, "left"))
    for (side, x, beside, align), names in zip(columns, style.names, strict=True):
        # The shorter column is spread to the height of the longer one.
        heights.append({number: top + depth * (place + 0.5) / len(side) for place, number in enumerate(side)})
        for number, y in heights[-1].items():
            color = style.colors[graph.classes[number].dataset]
            axes.plot([x], [y], "o", color=color, markersize=_NODE, zorder=3)
            _write(axes, x + beside, y, names[number], ha=align)
    middle = sum(ends) / 2
    for edge in cluster.edges:
        source, target = int(graph.source[edge]), int(graph.target[edge])
        start, end = (ends[0], heights[0][source]), (ends[1], heights[1][target])
        curve = Path(
            [start, (middle, start[1]), (middle, end[1]), end],
            [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
        )
        color = style.colors[graph.classes[source].dataset]
        width = style.width(int(graph.weight[edge]))
        axes.add_patch(PathPatch(curve, fill=False, edgecolor=color, linewidth=width, alpha=0.45, capstyle="butt"))


def _stacked(heights: Sequence[float], columns: int, top: float) -> tuple[list[tuple[int, float]], float]:
    """Stack boxes into columns, each into the shortest so far; return positions and the longest column's end."""
    ends = [top] * columns
    places = []
    for height in heights:
        column = ends.index(min(ends))
        places.append((column, ends[column]))
        ends[column] += height
    return places, max(ends)


def _height(cluster: Cluster) -> float:
    return _HEAD + max(len(cluster.left), len(cluster.right)) * _ROW + _GAP


def _names(graph: Graph, drawn: Sequence[Cluster]) -> tuple[dict[int, str], dict[int, str]]:
    """Return the text next to each class; on the right with the count of all images predicted as it, drawn or not."""
    images = np.bincount(graph.target, weights=graph.weight, minlength=len(graph.classes)).astype(int)
    return (
        {number: _short(graph.classes[number].name) for cluster in drawn for number in cluster.left},
        {
            number: f"{_short(graph.classes[number].name)} ({images[number]:,})"
            for cluster in drawn
            for number in cluster.right
        },
    )


def _short(name: str) -> str:
    half = LONGEST // 2
    return name if len(name) <= LONGEST else f"{name[:half]}…{name[1 - half :]}"


def _heading(number: int, cluster: Cluster) -> str:
    counts = (_counted(cluster.classes, "class"), _counted(cluster.weight, "image"))
    text = f"{number}   {', '.join(counts)}, {_counted(cluster.all_edges, 'edge')}"
    return text if len(cluster.edges) == cluster.all_edges else f"{text} ({len(cluster.edges):,} drawn)"


def _note(graph: Graph, found: Sequence[Cluster], drawn: Sequence[Cluster]) -> str:
    """Describe the drawn part of the graph."""
    classes = {number for cluster in drawn for number in (*cluster.left, *cluster.right)}
    edges = sum(len(cluster.edges) for cluster in drawn)
    images = sum(int(graph.weight[cluster.edges].sum()) for cluster in drawn)
    note = (
        f"Drawn: {len(drawn):,} of {_counted(len(found), 'cluster')}, with {len(classes):,} of "
        f"{_counted(len(graph.nodes), 'class')}, {edges:,} of {_counted(len(graph.weight), 'edge')} and {images:,} of "
        f"{_counted(int(graph.weight.sum()), 'image')}."
    )
    left_out = {
        "lighter clusters": len(drawn) < len(found),
        "lighter edges of large clusters": edges < sum(cluster.all_edges for cluster in drawn),
        "edges between clusters": sum(cluster.all_edges for cluster in found) < len(graph.weight),
    }
    if any(left_out.values()):
        note += f" Left out: {', '.join(what for what, is_so in left_out.items() if is_so)}."
    return note


def _counted(count: int, what: str) -> str:
    plural = f"{what}es" if what.endswith("s") else f"{what}s"
    return f"{count:,} {what if count == 1 else plural}"


def _colors(graph: Graph, drawn: Sequence[Cluster]) -> dict[str, str]:
    """Assign a colour to each dataset by name; if there are too many, those with the fewest drawn classes are grey."""
    numbers = {number for cluster in drawn for number in (*cluster.left, *cluster.right)}
    counts = Counter(graph.classes[number].dataset for number in numbers)
    datasets = sorted(counts, key=lambda name: (-counts[name], name))
    colored = dict(zip(sorted(datasets[: len(_COLORS)]), _COLORS, strict=False))
    return colored | dict.fromkeys(datasets[len(_COLORS) :], _OTHERS)


def _add_legends(figure: Any, style: _Style) -> None:
    """Add legends for the datasets and, below them, the edge widths."""
    from matplotlib.lines import Line2D

    named = [(name, color) for name, color in style.colors.items() if color != _OTHERS]
    if len(style.colors) > len(named):
        named.append((f"{len(style.colors) - len(named)} other datasets", _OTHERS))
    dots = [
        Line2D([], [], marker="o", linestyle="", color=color, markersize=_NODE + 1, label=name)
        for name, color in named
    ]
    lines = []
    for weight in sorted({max(1, round(style.heaviest * share)) for share in (0.1, 0.4, 1.0)}):
        how = {"linewidth": style.width(weight), "label": _counted(weight, "image")}
        lines.append(Line2D([], [], color=_OTHERS, solid_capstyle="butt", **how))
    size = figure.get_size_inches()
    for handles, y in ((dots, 0.42), (lines, 0.12)):
        corner = (_MARGIN / size[0], y / size[1])
        figure.legend(handles=handles, loc="lower left", bbox_to_anchor=corner, borderpad=0, borderaxespad=0,
                      ncols=len(handles), fontsize=8, handletextpad=0.6)  # fmt: skip


def _canvas(width: float, height: float) -> tuple[Any, Any]:
    """Return a figure without a window, and axes over all of it in inches from the upper left corner."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    return figure, axes


def _write(axes: Any, x: float, y: float, text: str, **how: Any) -> None:
    # A dollar sign in a name must not start a formula.
    axes.text(x, y, text, **{"fontsize": _LETTERS, "color": _TEXT, "va": "center", "parse_math": False} | how)


def _measure() -> Callable[..., float]:
    """Return a function that measures a text's width in inches, for a font weight."""
    from matplotlib.font_manager import FontProperties

    figure, _ = _canvas(1, 1)
    renderer = figure.canvas.get_renderer()

    def measure(text: str, weight: str = "normal") -> float:
        font = FontProperties(size=_LETTERS, weight=weight)
        return float(renderer.get_text_width_height_descent(text, font, ismath=False)[0] / figure.dpi)

    return measure
