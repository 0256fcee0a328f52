"""Builds, prunes and draws the transition graph of the FACETS paper (section V): true and predicted classes of images.

A node is a class with its dataset. An edge leads from the class of some images to the class predicted for them; its
weight is the number of these images. The whole graph is too large to draw, so the paper prunes it in steps, listed in
`STEPS` in the paper's order. Where the paper leaves open what a step does, our reading is:

- Links between evidently ID samples: an image is evidently in-distribution if its role says so and the detector
  accepts it, at the threshold that accepts 95 % of the in-distribution images, where the paper reports the FPR. Such
  images do not count. With an accepted fraction of 1, no in-distribution image counts.
- Classes that share an identical name: names are compared literally, without the dataset and the folder of a class's
  first letter. So `sun397:/f/fountain` and `places365:fountain` are the same. The paper notes that an underscore in
  place of a space, or another order of words, separates equal classes; so it does here, and heavy edges reveal such
  pairs.
- Edges from Places365 (val), after which all remaining edges join two datasets: edges within any dataset.
- Edges of low weight: the paper gives no number; see `MIN_WEIGHT`.

The heaviest edges are drawn with true classes on the left and predicted classes on the right.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from builders.storage.files import atomic_path, write_text
from unknown_detection.csv_text import csv_text
from unknown_detection.evaluation.errors import EvaluationError, require_known
from unknown_detection.evaluation.graph.transitions import ClassifiedImage, DatasetClass, Transitions
from unknown_detection.evaluation.report.plots import styled

MIN_WEIGHT = 10
"""Minimum number of images on an edge. Ours: about a tenth of the 103 images that most ImageNet classes have in a
split of facets-t1. The paper's pruned graph, with 1,022 edges between 989 classes, leaves between one and two per
class."""

ACCEPTED = 0.95
"""Fraction of in-distribution images that the detector accepts: the TPR at which the paper reports the FPR."""


Edge = tuple[str, str, dict[str, Any]]
"""Source, target and attributes of an edge."""


class Stage(NamedTuple):
    """Numbers of classes, edges and images after a step of `STEPS`, or of the whole graph where `step` is empty.

    `skipped` says why the step was skipped; it is empty if it was not.
    """

    step: str
    nodes: int
    edges: int
    images: int
    skipped: str = ""


STEPS: Mapping[str, str] = {
    "self-loops": "images predicted as their own class",
    "evident-id": "in-distribution images that the detector accepts",
    "same-names": "edges between classes with the same name",
    "same-dataset": "edges within a dataset",
    "light-edges": "edges with few images",
    "isolated": "classes without edges",
}
"""The pruning steps, in the paper's order, and what each takes away."""

_DIFFERING: Mapping[str, Callable[[DatasetClass], str]] = {
    "self-loops": attrgetter("key"),
    "same-names": attrgetter("name"),
    "same-dataset": attrgetter("dataset"),
}
"""The steps that take images whose true and predicted class are equal, and in what."""


def prune(
    transitions: Transitions, *, min_weight: int = MIN_WEIGHT, accepted: float = ACCEPTED, keep: Collection[str] = ()
) -> tuple[Any, list[Stage]]:
    """Build the transition graph of some images, one at least, and prune it.

    The step `light-edges` removes edges of less than `min_weight`, `evident-id` the `accepted` fraction of the
    in-distribution images, above 0 and at most 1, with those that tie; it is also skipped if roles are unknown. Steps
    to `keep` are skipped.

    Returns the pruned graph, a `networkx.DiGraph` of `DATASET:CLASS` with `label` (the display name) and `dataset` of
    nodes, and `weight` and `mean_score` of edges; and the counts before the first step and after each. They do not
    depend on the order of images.
    """
    import networkx

    require_known("pruning step", keep, STEPS)
    images = transitions.images
    scores = sorted(image.score for image in images if image.known)
    # As a rational number, because 0.95 n may exceed 95 % in floating point.
    threshold = scores[math.ceil(Fraction(str(accepted)) * len(scores)) - 1] if scores else -math.inf
    nodes = _ends(images)
    stages = [Stage("", len(nodes), len(_edges(images)), len(images))]
    for step in STEPS:
        why = "kept" if step in keep else ""
        if step == "evident-id" and any(image.known is None for image in images):
            why = "roles are unknown"
        remaining = images
        if not why and step in _DIFFERING:
            of = _DIFFERING[step]
            remaining = [image for image in images if of(image.true) != of(image.predicted)]
        elif not why and step == "evident-id":
            remaining = [image for image in images if not image.known or image.score > threshold]
        elif not why and step == "light-edges":
            remaining = [image for edge in _edges(images).values() if len(edge) >= min_weight for image in edge]
        elif not why:
            nodes = _ends(images)
        if not remaining:
            raise _emptied(step, _edges(images), min_weight)
        images = remaining
        stages.append(Stage(step, len(nodes), len(_edges(images)), len(images), why))
    graph = networkx.DiGraph()
    for node in sorted(nodes):
        graph.add_node(node.key, label=node.name, dataset=node.dataset)
    for (true, predicted), group in sorted(_edges(images).items(), key=lambda edge: edge[0]):
        # `fsum` is exact, so the order of images makes no difference.
        mean = math.fsum(image.score for image in group) / len(group)
        graph.add_edge(true.key, predicted.key, weight=len(group), mean_score=mean)
    return graph, stages


def write_edges(graph: Any, path: Path) -> None:
    """Write the edges as CSV, heaviest first; equal graphs produce equal bytes."""
    end_columns = [f"{side}_{key}" for side in ("source", "target") for key in ("dataset", "name")]
    lines = [["source", "target", "weight", "mean_score", *end_columns]]
    for source, target, edge in heaviest(graph):
        named = [graph.nodes[end][key] for end in (source, target) for key in ("dataset", "label")]
        lines.append([source, target, edge["weight"], repr(edge["mean_score"]), *named])
    write_text(path, csv_text(lines))


def write_graphml(graph: Any, path: Path) -> None:
    """Write a graph as GraphML for networkx, Gephi, igraph and others; equal graphs produce equal bytes."""
    import networkx

    with atomic_path(path) as temporary:
        # Not `write_graphml`, whose output differs if lxml is installed.
        networkx.write_graphml_xml(graph, temporary, named_key_ids=True)


def heaviest(graph: Any) -> list[Edge]:
    """Return the edges, heaviest first, ties by name."""
    return sorted(graph.edges(data=True), key=lambda edge: (-edge[2]["weight"], edge[:2]))


def _edges(images: Sequence[ClassifiedImage]) -> Mapping[tuple[DatasetClass, DatasetClass], list[ClassifiedImage]]:
    """Group images by true and predicted class."""
    groups = defaultdict(list)
    for image in images:
        groups[image.true, image.predicted].append(image)
    return groups


def _ends(images: Sequence[ClassifiedImage]) -> set[DatasetClass]:
    return {end for image in images for end in (image.true, image.predicted)}


def _emptied(step: str, edges: Mapping[Any, Sequence[ClassifiedImage]], min_weight: int) -> EvaluationError:
    message = f"The step {step} leaves no edge: it removes the last {len(edges):,} ({STEPS[step]})"
    if step != "light-edges":
        return EvaluationError(f"{message}. Skip it with --keep {step}.")
    largest = max(map(len, edges.values()))
    message += f", with at most {largest:,} images each, but the minimum is {min_weight:,}"
    return EvaluationError(f"{message}. Lower --min-weight.")


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
