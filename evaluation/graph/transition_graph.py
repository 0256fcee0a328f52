"""The transition graph of the FACETS paper (section V): true and predicted classes of images.

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
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from evaluation.errors import EvaluationError, unknown_name
from evaluation.files import atomic_path
from evaluation.graph.classes import Class
from evaluation.graph.transitions import Transitions

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MIN_WEIGHT = 10
"""Minimum number of images on an edge. Ours: about a tenth of the 103 images that most ImageNet classes have in a
split of facets-t1. The paper's pruned graph, with 1,022 edges between 989 classes, leaves between one and two per
class."""

ACCEPTED = 0.95
"""Fraction of in-distribution images that the detector accepts: the TPR at which the paper reports the FPR."""


@dataclass(frozen=True, eq=False)
class Graph:
    """A weighted directed graph of classes.

    Attributes:
        classes: classes by key; not all need be in the graph.
        nodes: classes in the graph, as ascending indices into `classes`.
        source: true class of each edge's images, as an index into `classes`, shape (m,); heaviest edges first, ties
            sorted by the keys of their classes.
        target: the predicted class, shape (m,).
        weight: number of images, shape (m,).
        score: their mean score, shape (m,), higher = more unknown.
    """

    classes: tuple[Class, ...]
    nodes: Integers
    source: Integers
    target: Integers
    weight: Integers
    score: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Stage:
    """Counts after a pruning step.

    Attributes:
        step: a key of `STEPS`; empty for the whole graph, before the first step.
        nodes: number of classes.
        edges: number of pairs of classes.
        images: sum of the edges' weights.
        skipped: why the step was skipped; empty if it was not.
    """

    step: str
    nodes: int
    edges: int
    images: int
    skipped: str = ""


@dataclass(frozen=True, eq=False)
class _PruningState:
    """The state of pruning: images by edge, and which of them still count.

    Attributes:
        images: all images.
        source: true class of each edge, shape (m,).
        target: predicted class of each edge, shape (m,).
        edge: edge of each image, shape (n,).
        left: whether each image still counts, shape (n,).
        min_weight: as for `prune`.
        accepted: as for `prune`.
    """

    images: Transitions
    source: Integers
    target: Integers
    edge: Integers
    left: Mask
    min_weight: int
    accepted: float

    def weight(self) -> Integers:
        return np.bincount(self.edge[self.left], minlength=len(self.source))

    def same(self, feature: Callable[[Class], str]) -> Mask:
        """Return the images of edges between classes with the same value of a feature."""
        values = np.array([feature(found) for found in self.images.classes])
        return np.asarray((values[self.source] == values[self.target])[self.edge])

    def light(self) -> Mask:
        return np.asarray((self.weight() < self.min_weight)[self.edge])

    def evident(self) -> Mask:
        """Return the in-distribution images up to the threshold that accepts the given fraction, ties included."""
        known, score = self.images.known, self.images.score
        if known is None or not known.any():
            return np.zeros(len(score), dtype=bool)
        # As a rational number, because 0.95 n may exceed 95 % in floating point.
        count = math.ceil(Fraction(str(self.accepted)) * int(known.sum()))
        return np.asarray(known & (score <= np.sort(score[known])[count - 1]))


@dataclass(frozen=True)
class Step:
    """A pruning step: a description of what it removes, and a function that returns the images it removes."""

    what: str
    takes: Callable[[_PruningState], Mask]


STEPS: Mapping[str, Step] = {
    "self-loops": Step("images predicted as their own class", lambda images: images.same(lambda found: found.key)),
    "evident-id": Step("in-distribution images that the detector accepts", _PruningState.evident),
    "same-names": Step(
        "edges between classes with the same name", lambda images: images.same(lambda found: found.name)
    ),
    "same-dataset": Step("edges within a dataset", lambda images: images.same(lambda found: found.dataset)),
    "light-edges": Step("edges with few images", _PruningState.light),
    "isolated": Step("classes without edges", lambda images: np.zeros_like(images.left)),
}
"""The pruning steps, in the paper's order."""


def prune(
    transitions: Transitions,
    *,
    min_weight: int = MIN_WEIGHT,
    accepted: float = ACCEPTED,
    keep: Collection[str] = (),
) -> tuple[Graph, list[Stage]]:
    """Build the transition graph of some images, and prune it.

    Args:
        transitions: at least one image.
        min_weight: lighter edges are removed by the step `light-edges`.
        accepted: fraction of the in-distribution images, above 0 and at most 1, that `evident-id` removes.
        keep: names of steps to skip. `evident-id` is also skipped if roles are unknown.

    Returns:
        The pruned graph, and the counts before the first step and after each. Independent of the order of images.

    Raises:
        EvaluationError: there is no such step, or a step removes the last edge.
    """
    for name in keep:
        if name not in STEPS:
            raise unknown_name("pruning step", name, STEPS)
    width = len(transitions.classes)
    pairs, edge = np.unique(transitions.own * width + transitions.predicted, return_inverse=True)
    source, target = np.divmod(pairs, width)
    nodes = np.arange(width)
    left = np.ones(len(transitions), dtype=bool)
    stages = [Stage("", len(nodes), len(pairs), len(left))]
    for name, step in STEPS.items():
        why = "kept" if name in keep else ""
        if name == "evident-id" and transitions.known is None:
            why = "roles are unknown"
        counted = _PruningState(transitions, source, target, edge, left, min_weight, accepted)
        if not why:
            left = left & ~step.takes(counted)
            if not left.any():
                raise _emptied(name, counted)
            if name == "isolated":
                ends = counted.weight() > 0
                nodes = np.union1d(source[ends], target[ends])
        stages.append(Stage(name, len(nodes), len(np.unique(edge[left])), int(left.sum()), why))
    return _graph(transitions, nodes, pairs, edge, left), stages


def write_edges(graph: Graph, path: Path) -> None:
    """Write the edges as CSV, heaviest first; equal graphs produce equal bytes."""
    columns: dict[str, Any] = {}
    for side, ends in (("source", graph.source), ("target", graph.target)):
        found = [graph.classes[number] for number in ends]
        columns[side] = [one.key for one in found]
        columns[f"{side}_dataset"] = [one.dataset for one in found]
        columns[f"{side}_name"] = [one.name for one in found]
    table = pa.table(columns | {"weight": graph.weight, "mean_score": graph.score})
    order = ["source", "target", "weight", "mean_score"]
    table = table.select(order + [name for name in table.column_names if name not in order])
    with atomic_path(path) as temporary:
        pa.csv.write_csv(table, temporary, pa.csv.WriteOptions(quoting_style="needed"))


def write_graphml(graph: Graph, path: Path, attributes: Mapping[str, str]) -> None:
    """Write the graph as GraphML for networkx, Gephi, igraph and others; equal graphs produce equal bytes.

    Nodes are named `DATASET:CLASS` and have a `label`, which is the display name, and a `dataset`; edges have `weight`
    and `mean_score`.

    Args:
        graph: the graph.
        path: a path that ends in `.graphml`.
        attributes: attributes of the whole graph, by name.
    """
    import networkx

    written = networkx.DiGraph(**attributes)
    for number in graph.nodes:
        found = graph.classes[number]
        written.add_node(found.key, label=found.name, dataset=found.dataset)
    for source, target, weight, score in zip(
        graph.source.tolist(), graph.target.tolist(), graph.weight.tolist(), graph.score.tolist(), strict=True
    ):
        ends = (graph.classes[source].key, graph.classes[target].key)
        written.add_edge(*ends, weight=weight, mean_score=score)
    with atomic_path(path) as temporary:
        # Not `write_graphml`, whose output differs if lxml is installed.
        networkx.write_graphml_xml(written, temporary, named_key_ids=True)


def _graph(transitions: Transitions, nodes: Integers, pairs: Integers, edge: Integers, left: Mask) -> Graph:
    """Build the graph of the remaining images."""
    edge, score = edge[left], transitions.score[left]
    # Floating-point sums depend on their order, so scores are sorted first.
    order = np.lexsort((score, edge))
    numbers, starts, weight = np.unique(edge[order], return_index=True, return_counts=True)
    mean = np.add.reduceat(score[order], starts) / weight
    source, target = np.divmod(pairs[numbers], len(transitions.classes))
    heaviest = np.argsort(-weight, kind="stable")
    return Graph(
        classes=transitions.classes,
        nodes=nodes,
        source=source[heaviest],
        target=target[heaviest],
        weight=weight[heaviest],
        score=mean[heaviest],
    )


def _emptied(step: str, before: _PruningState) -> EvaluationError:
    weight = before.weight()
    edges = np.count_nonzero(weight)
    found = f"The step {step} leaves no edge: it removes the last {edges:,} ({STEPS[step].what})"
    if step == "light-edges":
        found += f", with at most {weight.max():,} images each, but the minimum is {before.min_weight:,}"
        return EvaluationError(f"{found}. Lower --min-weight.")
    return EvaluationError(f"{found}. Skip it with --keep {step}.")
