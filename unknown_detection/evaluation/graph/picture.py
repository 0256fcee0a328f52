"""Draws the heaviest edges of a transition graph: true classes on the left, predicted classes on the right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from unknown_detection.evaluation.display.canvas import styled
from unknown_detection.evaluation.graph.pruning import Edge, heaviest

EDGES = 40
"""Default number of edges to draw."""

LONGEST = 40
"""Maximum length of a name; longer ones are shortened in the middle."""

# Okabe and Ito's palette, which colour-blind readers can distinguish; grey for further datasets.
_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_OTHERS = "#888888"

_LETTERS, _WIDEST, _THINNEST = 8.0, 6.0, 0.5  # points
_ROW, _SPAN, _BESIDE, _MARGIN, _HEAD = 0.19, 2.5, 0.09, 0.3, 0.9  # inches, the units of the picture's coordinates
_ABOVE = ("class of the images", "predicted as")


@styled
def draw_graph(graph: Any, *, title: str, shown: int = EDGES) -> Any:
    """Draw the heaviest edges of a graph, with widths that grow with the root of the weight, and note the rest."""
    import networkx
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    drawn = heaviest(graph)[:shown]
    columns = _arranged(drawn)
    labels = [[graph.nodes[key]["label"] for key in column] for column in columns]
    half = LONGEST // 2
    names = [[f"{name[:half]}…{name[1 - half :]}" if len(name) > LONGEST else name for name in of] for of in labels]
    left, right = (max(map(_inches, [above, *texts])) for above, texts in zip(_ABOVE, names, strict=True))
    depth = _ROW * max(map(len, columns))
    size = (2 * _MARGIN + left + _SPAN + max(right, 2.0), _HEAD + depth + 2 * _ROW + _MARGIN)
    figure = Figure(figsize=size)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, size[0]), ylim=(size[1], 0))
    axes.set_axis_off()

    def write(x: float, y: float, text: str, **how: Any) -> None:
        # A dollar sign in a name must not start a formula.
        axes.text(x, y, text, **{"fontsize": _LETTERS, "va": "center", "parse_math": False} | how)

    # A class may be in both columns, so a node of the picture is a column and a class.
    places = {}
    for side, (x, offset, align) in enumerate(
        ((_MARGIN + left, -_BESIDE, "right"), (_MARGIN + left + _SPAN, _BESIDE, "left"))
    ):
        write(x, 0.7, _ABOVE[side], ha=align, color="#666666")
        for row, (key, name) in enumerate(zip(columns[side], names[side], strict=True)):
            # The shorter column is spread to the height of the longer one.
            places[side, key] = (x, _HEAD + depth * (row + 0.5) / len(names[side]))
            write(x + offset, places[side, key][1], name, ha=align)
    datasets = sorted({graph.nodes[key]["dataset"] for _, key in places})
    colors = defaultdict(lambda: _OTHERS, zip(datasets, _COLORS, strict=False))
    shade = {node: colors[graph.nodes[node[1]]["dataset"]] for node in places}
    ends = [((0, source), (1, target)) for source, target, _ in drawn]
    max_weight = drawn[0][2]["weight"]
    widths = [max(_WIDEST * (edge["weight"] / max_weight) ** 0.5, _THINNEST) for _, _, edge in drawn]
    picture = networkx.Graph(ends)
    edges = {"width": widths, "edge_color": [shade[start] for start, _ in ends], "alpha": 0.5}
    networkx.draw_networkx_edges(picture, places, ends, ax=axes, **edges)
    networkx.draw_networkx_nodes(picture, places, list(places), node_size=25, node_color=list(shade.values()), ax=axes)
    images, every = (sum(edge["weight"] for _, _, edge in selection) for selection in (drawn, heaviest(graph)))
    note = f"{len(drawn):,} of {graph.number_of_edges():,} edges, the heaviest, with {images:,} of {every:,} images"
    write(_MARGIN, 0.2, title, fontsize=_LETTERS + 2)
    write(_MARGIN, 0.42, f"{note}; the widest has {max_weight:,}", color="#666666")
    handles = [Line2D([], [], marker="o", linestyle="", color=colors[name], label=name) for name in datasets]
    figure.legend(handles=handles, loc="lower left", ncols=len(handles), fontsize=_LETTERS, frameon=False)
    return figure


def _arranged(edges: Sequence[Edge]) -> list[list[str]]:
    """Order both columns by the Fiedler vector of each connected part, which puts neighbours close together."""
    import networkx

    ends = list(dict.fromkeys(end for source, target, _ in edges for end in ((0, source), (1, target))))
    # Numbers, because the iteration order of sets of strings differs between processes.
    number = {end: place for place, end in enumerate(ends)}
    joined = networkx.Graph()
    for source, target, edge in edges:
        joined.add_edge(number[0, source], number[1, target], weight=edge["weight"])
    order = [ends[place] for place in networkx.spectral_ordering(joined, weight="weight", seed=0)]
    return [[key for side, key in order if side == column] for column in (0, 1)]


def _inches(text: str) -> float:
    """Measure a text's width."""
    from matplotlib.textpath import TextPath

    return float(TextPath((0, 0), text.replace("$", r"\$"), size=_LETTERS).get_extents().width / 72) + 2 * _BESIDE
