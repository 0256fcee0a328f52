"""Clusters of a transition graph, cut down and arranged so that a person can read them.

A cluster is drawn in two columns: on the left classes of images, on the right what they are taken for. So names never
meet, whatever the graph, and a class that is both stands in both columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluation.graph import Graph, Integers

CLASSES_A_SIDE = 14
"""Classes that a column of a cluster may have."""

CLASSES_A_TARGET = 5
"""Classes that may be drawn for the sake of one predicted class, in clusters that are too large to draw whole."""

_SEED = 0
_SWEEPS = 8
"""Times that both columns are put in order; later ones change nothing that could be seen."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """A cluster as it is drawn.

    Attributes:
        left: classes of images from the top down, as indices into the graph's classes.
        right: predicted classes from the top down.
        edges: edges that are drawn, as indices into the graph's; the heaviest first.
        classes: number of classes in the whole cluster.
        all_edges: number of edges within it.
        weight: sum of their weights.
    """

    left: Sequence[int]
    right: Sequence[int]
    edges: Integers
    classes: int
    all_edges: int
    weight: int


def clusters(graph: Graph) -> list[Cluster]:
    """Divide a graph into clusters: classes with many images between them and few to others.

    They are the communities of Blondel et al., Fast unfolding of communities in large networks (2008), as networkx
    finds them. Edges between clusters belong to none.

    Returns:
        Those with edges, the heaviest first.
    """
    import networkx

    undirected = networkx.Graph()
    # Numbers, because sets of texts come in another order in each process.
    undirected.add_nodes_from(graph.nodes.tolist())
    for source, target, weight in zip(
        graph.source.tolist(), graph.target.tolist(), graph.weight.tolist(), strict=True
    ):
        both = undirected.get_edge_data(source, target, {"weight": 0})["weight"]
        undirected.add_edge(source, target, weight=weight + both)
    members = np.full(len(graph.classes), -1)
    for number, found in enumerate(networkx.community.louvain_communities(undirected, seed=_SEED)):
        members[list(found)] = number
    of_edge = np.where(members[graph.source] == members[graph.target], members[graph.source], -1)
    made = [
        _cluster(graph, np.flatnonzero(of_edge == number), int(np.count_nonzero(members == number)))
        for number in np.unique(of_edge[of_edge >= 0])
    ]
    return sorted(made, key=lambda cluster: (-cluster.weight, cluster.edges[0]))


def _cluster(graph: Graph, edges: Integers, classes: int) -> Cluster:
    drawn = _legible(graph, edges)
    left, right = _arranged(graph.source[drawn], graph.target[drawn], graph.weight[drawn])
    return Cluster(left, right, drawn, classes, len(edges), int(graph.weight[edges].sum()))


def _legible(graph: Graph, edges: Integers) -> Integers:
    """The edges of a cluster that there is room for: the heaviest, and from then on the heaviest that joins them.

    So what is drawn hangs together. A predicted class brings no more than `CLASSES_A_TARGET` classes into the picture,
    or one that attracts many would leave no room for the others around it.
    """
    source, target = graph.source[edges], graph.target[edges]
    if max(len(np.unique(source)), len(np.unique(target))) <= CLASSES_A_SIDE:
        return edges
    left = np.zeros(len(graph.classes), dtype=bool)
    right, brought = left.copy(), np.zeros(len(graph.classes), dtype=int)
    drawn = np.zeros(len(edges), dtype=bool)
    while True:
        fits = left[source] | ((left.sum() < CLASSES_A_SIDE) & (brought[target] < CLASSES_A_TARGET))
        fits &= (right[target] | (right.sum() < CLASSES_A_SIDE)) & ~drawn
        joins = fits & (left[source] | right[target])
        if not fits.any():
            return edges[drawn]
        # Edges are in order of weight, so the first that may be drawn is the heaviest.
        chosen = np.argmax(joins if joins.any() else fits)
        brought[target[chosen]] += not left[source[chosen]]
        drawn[chosen] = left[source[chosen]] = right[target[chosen]] = True


def _arranged(source: Integers, target: Integers, weight: Integers) -> tuple[list[int], list[int]]:
    """Both columns in an order with few crossings: each class by the mean place of what it is joined to."""
    columns = [np.unique(source), np.unique(target)]
    joined = np.zeros((len(columns[0]), len(columns[1])))
    joined[np.searchsorted(columns[0], source), np.searchsorted(columns[1], target)] = weight
    # At first the heaviest class of the right column is on top.
    places: npt.NDArray[np.float64] = np.argsort(np.argsort(-joined.sum(axis=0), kind="stable")).astype(np.float64)
    order = [np.arange(len(column)) for column in columns]
    for _ in range(_SWEEPS):
        for side, table in enumerate((joined, joined.T)):
            centre = table @ places / table.sum(axis=1)
            # Of those in one place the heaviest is on top.
            order[side] = np.lexsort((-table.sum(axis=1), centre.round(9)))
            places = np.argsort(order[side]).astype(np.float64)
    return tuple(column[places].tolist() for column, places in zip(columns, order, strict=True))  # type: ignore[return-value]
