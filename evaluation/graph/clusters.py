"""Clusters of a transition graph, reduced and arranged to be readable.

A cluster is drawn in two columns: classes of images on the left, predicted classes on the right. So names never
overlap, and a class that is both appears in both columns.

Tested by `tests/evaluation/graph/test_picture.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.graph.transition_graph import Graph, Integers

CLASSES_A_SIDE = 14
"""Maximum number of classes in a column of a cluster."""

CLASSES_A_TARGET = 5
"""Maximum number of classes drawn for one predicted class, in clusters that are too large to draw whole."""

_SEED = 0
_SWEEPS = 8
"""Number of sweeps that sort both columns; further ones change little."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """A cluster as it is drawn.

    Attributes:
        left: classes of images from top to bottom, as indices into the graph's classes.
        right: predicted classes from top to bottom.
        edges: the drawn edges, as indices into the graph's; heaviest first.
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
    """Divide a graph into clusters: classes with many edges among them and few to others.

    Clusters are the communities of Blondel et al., Fast unfolding of communities in large networks (2008), computed by
    networkx. Edges between clusters belong to none.

    Returns:
        The clusters with edges, heaviest first.
    """
    import networkx

    undirected = networkx.Graph()
    # Integers, because the iteration order of sets of strings differs between processes.
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
    """Choose the edges of a cluster to draw: the heaviest, then repeatedly the heaviest that is connected to them.

    So the drawn part is connected. At first a predicted class adds at most `CLASSES_A_TARGET` classes to the picture,
    or one that attracts many would fill it; then it takes the remaining room.
    """
    source, target = graph.source[edges], graph.target[edges]
    if max(len(np.unique(source)), len(np.unique(target))) <= CLASSES_A_SIDE:
        return edges
    left = np.zeros(len(graph.classes), dtype=bool)
    right, brought = left.copy(), np.zeros(len(graph.classes), dtype=int)
    drawn = np.zeros(len(edges), dtype=bool)
    for most in (CLASSES_A_TARGET, CLASSES_A_SIDE):
        while True:
            fits = left[source] | ((left.sum() < CLASSES_A_SIDE) & (brought[target] < most))
            fits &= (right[target] | (right.sum() < CLASSES_A_SIDE)) & ~drawn
            if not fits.any():
                break
            joins = fits & (left[source] | right[target])
            # Edges are sorted by weight, so the first allowed one is the heaviest.
            chosen = np.argmax(joins if joins.any() else fits)
            brought[target[chosen]] += not left[source[chosen]]
            drawn[chosen] = left[source[chosen]] = right[target[chosen]] = True
    return edges[drawn]


def _arranged(source: Integers, target: Integers, weight: Integers) -> tuple[list[int], list[int]]:
    """Order both columns with few edge crossings.

    Sweeps between the columns move each class to the mean position of its neighbours. The result depends on the start,
    so there is one start per predicted class, with the others sorted by their distance from it; the result with the
    fewest crossings is used.
    """
    left, right = np.unique(source), np.unique(target)
    joined = np.zeros((len(left), len(right)), dtype=np.int64)
    joined[np.searchsorted(left, source), np.searchsorted(right, target)] = weight
    found: list[tuple[int, int, Integers, Integers]] = []
    for start in np.argsort(-joined.sum(axis=0), kind="stable"):
        places = _steps_away(joined, start)
        for _ in range(_SWEEPS):
            rows = _by_centre(joined, places)
            columns = _by_centre(joined.T, np.argsort(rows))
            places = np.argsort(columns)
            found.append((_crossings(joined[rows][:, columns]), len(found), rows, columns))
    _, _, rows, columns = min(found, key=lambda one: one[:2])
    return left[rows].tolist(), right[columns].tolist()


def _by_centre(joined: Integers, places: Integers) -> Integers:
    """Sort rows by the mean position of their columns; ties by weight."""
    weight = joined.sum(axis=1)
    # Rounded, because the last digit of a matrix product may vary and would change the order.
    return np.lexsort((-weight, (joined @ places / weight).round(9)))


def _steps_away(joined: Integers, start: int) -> Integers:
    """Return each column's distance in steps from one of them, over shared rows; a large number if unreachable."""
    near = joined.T @ joined > 0
    reached = near[start]
    steps = np.where(reached, 1, len(near))
    steps[start] = 0
    for step in range(2, len(near)):
        reached = near[reached].any(axis=0)
        steps[reached & (steps > step)] = step
    return steps


def _crossings(joined: Integers) -> int:
    """Sum the product of weights over all crossing pairs of edges."""
    to_the_right = joined.sum(axis=1, keepdims=True) - joined.cumsum(axis=1)
    from_above = to_the_right.cumsum(axis=0) - to_the_right
    return int((from_above * joined).sum())
