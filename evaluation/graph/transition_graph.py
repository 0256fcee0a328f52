"""The transition graph of the FACETS paper (section V): what the images of each class are taken for.

A node is a class with its dataset. An edge leads from a class to one that its images are predicted as; its weight is
the number of these images. The whole graph is too large to look at, so the paper prunes it in steps, which `STEPS` has
in the paper's order. Where the paper's words leave open what a step does, they are read like this:

- Links between evidently ID samples: an image is evidently in-distribution if its role says so and the detector too,
  at the threshold that accepts 95 % of the in-distribution images, where the paper reports the FPR. Such images do not
  count. With a share of 1 no in-distribution image does.
- Classes that share an identical name: names are compared as they are, without the dataset and the folder of a class's
  first letter. So `sun397:/f/fountain` and `places365:fountain` share theirs. The paper says that an underscore in
  place of a space, or another order of words, made two classes of one; here too, and heavy edges show them.
- Edges from Places365 (val), after which all that are left join two datasets: edges within a dataset, whichever it is.
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
from evaluation.files import replacing
from evaluation.graph.classes import Class
from evaluation.graph.transitions import Transitions

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MIN_WEIGHT = 10
"""Images that an edge must have. Ours: about a tenth of the 103 images that most ImageNet classes have in a split of
facets-t1. The paper's pruned graph, with 1,022 edges between 989 classes, leaves between one and two to a class."""

ACCEPTED = 0.95
"""Share of in-distribution images that the detector accepts: the TPR at which the paper reports the FPR."""


@dataclass(frozen=True, eq=False)
class Graph:
    """A weighted directed graph of classes.

    Attributes:
        classes: by key; not all of them need be in the graph.
        nodes: those that are, as ascending indices into `classes`.
        source: of each edge the images' own class, as an index into `classes`, shape (m,); the heaviest edges first,
            and equally heavy ones by the keys of their classes.
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
    """What there is after a step of pruning.

    Attributes:
        step: a name of `STEPS`; empty for the whole graph, before the first.
        nodes: number of classes.
        edges: number of pairs of classes.
        images: sum of the edges' weights.
        not_done: why the step was left out; empty where it was done.
    """

    step: str
    nodes: int
    edges: int
    images: int
    not_done: str = ""


@dataclass(frozen=True, eq=False)
class _Counted:
    """Images by edge, while steps take some away.

    Attributes:
        images: all images.
        source: of each edge the own class, shape (m,).
        target: of each edge the predicted class, shape (m,).
        edge: of each image its edge, shape (n,).
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
        """Images of edges between classes that have a feature in common."""
        values = np.array([feature(found) for found in self.images.classes])
        return np.asarray((values[self.source] == values[self.target])[self.edge])

    def light(self) -> Mask:
        return np.asarray((self.weight() < self.min_weight)[self.edge])

    def evident(self) -> Mask:
        """In-distribution images up to the first score that accepts the share of them, ties with it included."""
        known, score = self.images.known, self.images.score
        if known is None or not known.any():
            return np.zeros(len(score), dtype=bool)
        # As a fraction, because 0.95 n may come out above 95 % in floats.
        count = math.ceil(Fraction(str(self.accepted)) * int(known.sum()))
        return np.asarray(known & (score <= np.sort(score[known])[count - 1]))


@dataclass(frozen=True)
class Step:
    """A step of pruning: what it takes away in words, and the images that do not count after it."""

    what: str
    takes: Callable[[_Counted], Mask]


STEPS: Mapping[str, Step] = {
    "self-loops": Step("images predicted as their own class", lambda images: images.same(lambda found: found.key)),
    "evident-id": Step("in-distribution images that the detector accepts", _Counted.evident),
    "same-names": Step("edges between classes of one name", lambda images: images.same(lambda found: found.name)),
    "same-dataset": Step("edges within a dataset", lambda images: images.same(lambda found: found.dataset)),
    "light-edges": Step("edges of few images", _Counted.light),
    "isolated": Step("classes without edges", lambda images: np.zeros_like(images.left)),
}
"""The steps of pruning, in the paper's order."""


def prune(
    transitions: Transitions,
    *,
    min_weight: int = MIN_WEIGHT,
    accepted: float = ACCEPTED,
    keep: Collection[str] = (),
) -> tuple[Graph, list[Stage]]:
    """Count the transition graph of some images, and prune it.

    Args:
        transitions: at least one image.
        min_weight: lighter edges are taken away by the step `light-edges`.
        accepted: share of the in-distribution images, above 0 and at most 1, that count as evident for `evident-id`.
        keep: names of steps to leave out. `evident-id` is left out too where no roles are known.

    Returns:
        The pruned graph, and what there was before the first step and after each. No order of images matters.

    Raises:
        EvaluationError: there is no such step, or no edge is left after one.
    """
    for name in keep:
        if name not in STEPS:
            raise unknown_name("step of pruning", name, STEPS)
    width = len(transitions.classes)
    pairs, edge = np.unique(transitions.own * width + transitions.predicted, return_inverse=True)
    source, target = np.divmod(pairs, width)
    nodes = np.arange(width)
    left = np.ones(len(transitions), dtype=bool)
    stages = [Stage("", len(nodes), len(pairs), len(left))]
    for name, step in STEPS.items():
        why = "kept" if name in keep else ""
        if name == "evident-id" and transitions.known is None:
            why = "no roles known"
        counted = _Counted(transitions, source, target, edge, left, min_weight, accepted)
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
    """Write the edges as CSV, the heaviest first; equal graphs give equal bytes."""
    columns: dict[str, Any] = {}
    for side, ends in (("source", graph.source), ("target", graph.target)):
        found = [graph.classes[number] for number in ends]
        columns[side] = [one.key for one in found]
        columns[f"{side}_dataset"] = [one.dataset for one in found]
        columns[f"{side}_name"] = [one.name for one in found]
    table = pa.table(columns | {"weight": graph.weight, "mean_score": graph.score})
    order = ["source", "target", "weight", "mean_score"]
    table = table.select(order + [name for name in table.column_names if name not in order])
    with replacing(path) as temporary:
        pa.csv.write_csv(table, temporary, pa.csv.WriteOptions(quoting_style="needed"))


def write_graphml(graph: Graph, path: Path, about: Mapping[str, str]) -> None:
    """Write the graph as GraphML, as networkx, Gephi, igraph and others read it; equal graphs give equal bytes.

    Nodes are named `DATASET:CLASS` and have a `label`, which is the name for people, and a `dataset`; edges have
    `weight` and `mean_score`.

    Args:
        graph: what to write.
        path: a name that ends in `.graphml`.
        about: what to note of the graph as a whole, by name.
    """
    import networkx

    written = networkx.DiGraph(**about)
    for number in graph.nodes:
        found = graph.classes[number]
        written.add_node(found.key, label=found.name, dataset=found.dataset)
    for source, target, weight, score in zip(
        graph.source.tolist(), graph.target.tolist(), graph.weight.tolist(), graph.score.tolist(), strict=True
    ):
        ends = (graph.classes[source].key, graph.classes[target].key)
        written.add_edge(*ends, weight=weight, mean_score=score)
    with replacing(path) as temporary:
        # Not `write_graphml`, which writes other bytes where lxml is installed.
        networkx.write_graphml_xml(written, temporary, named_key_ids=True)


def _graph(transitions: Transitions, nodes: Integers, pairs: Integers, edge: Integers, left: Mask) -> Graph:
    """The graph of the images that are left."""
    edge, score = edge[left], transitions.score[left]
    # Sums of floats depend on their order, so scores are put in order first.
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


def _emptied(step: str, before: _Counted) -> EvaluationError:
    weight = before.weight()
    edges = np.count_nonzero(weight)
    found = f"found none after {step}, which took the last {edges:,} ({STEPS[step].what})"
    if step == "light-edges":
        found += f", of at most {weight.max():,} images where {before.min_weight:,} are asked for"
        return EvaluationError(f"expected edges in the pruned graph, {found}; lower --min-weight.")
    return EvaluationError(f"expected edges in the pruned graph, {found}; leave that step out with --keep {step}.")
