"""Similarity of synsets over whole class sets at once: path, Leacock-Chodorow and Wu-Palmer.

The values are those that nltk's WordNet reader computes pair by pair with WordNet 3.0's nouns (`path_similarity`,
`lch_similarity`, `wup_similarity`); a test compares them. Sources of the measures: Leacock & Chodorow, "Combining
local context and WordNet similarity for word sense identification" (1998); Wu & Palmer, "Verb semantics and lexical
selection" (ACL 1994); the path measure is from Pedersen, Patwardhan & Michelizzi, "WordNet::Similarity" (AAAI 2004).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from taxonomy.wordnet.nouns import Rows, WordNet, load_wordnet

Floats = NDArray[np.float64]
Small = NDArray[np.uint8]

# Longest path from a noun to the root (wordnet.max_depth.max(), which a test compares). nltk uses this number as the
# depth of the taxonomy in Leacock-Chodorow.
TAXONOMY_DEPTH = 19

# Of two equal synsets: -ln(1 / 38).
GREATEST_LEACOCK_CHODOROW = math.log(2.0 * TAXONOMY_DEPTH)

# Stands for "no ancestor". Twice this fits a byte, and distances to an ancestor are at most TAXONOMY_DEPTH.
_FAR = 100


def path(first: Sequence[str], second: Sequence[str]) -> Floats:
    """Return 1 / (d + 1), d being the links on the shortest path between two synsets over a common ancestor.

    These are (n, m) similarities of n and m wnids, as in all functions here, in (0, 1]; 1 for equal synsets.
    """
    return 1.0 / _links(first, second)


def leacock_chodorow(first: Sequence[str], second: Sequence[str]) -> Floats:
    """Return -ln((d + 1) / 38), d as in `path` and 38 twice the depth of the noun taxonomy.

    It is at most ln 38 = 3.6376, the value for equal synsets.
    """
    similarity: Floats = -np.log(_links(first, second) / (2.0 * TAXONOMY_DEPTH))
    return similarity


def wu_palmer(first: Sequence[str], second: Sequence[str]) -> Floats:
    """Return 2 h / (l1 + l2 + 2 h) for the subsumer of two synsets, h being its depth and l its distance from each.

    As nltk does: the subsumer is the common ancestor, the synsets themselves included, of the greatest minimum depth;
    of several the first synset itself if it is one, else the first by name. h is one more than the longest path from
    the subsumer to the root. l is the shortest path from a synset to the subsumer, over any common ancestor: where a
    synset has several hypernyms, that path may run above the subsumer.

    Two oddities follow. Where two subsumers are equally deep, the preference for the first synset makes the measure
    unsymmetric. Where an ancestor has a greater minimum depth than the synset, as organism has for person, the
    similarity of the synset to itself is below 1.
    """
    wordnet = load_wordnet()
    rows, columns = _above(wordnet, first), _above(wordnet, second)
    subsumers = _subsumers(wordnet, rows, columns)
    used, place = np.unique(subsumers, return_inverse=True)
    place = place.reshape(subsumers.shape)
    above = [_ancestors(wordnet, node) for node in used.tolist()]
    first_distance = np.take_along_axis(_shortest(rows, above), place, axis=1)
    second_distance = np.take_along_axis(_shortest(columns, above), place.T, axis=1).T
    doubled = (2.0 * (wordnet.max_depth[used] + 1))[place]
    similarity: Floats = doubled / (first_distance.astype(np.float64) + second_distance + doubled)
    return similarity


def mean_normalised(first: Sequence[str], second: Sequence[str]) -> Floats:
    """Return the mean of the three measures, each divided by its greatest value (1, ln 38 and 1).

    FACETS averages the three (section IV). That Leacock-Chodorow, which is unbounded otherwise, is divided first is
    our reading. The mean, in [0, 1], has the oddities of `wu_palmer`: the order of the two sets can matter, as it does
    for ImageNet and Places365 in 2 of 365,000 pairs.
    """
    links = _links(first, second)
    normalised = 1.0 - np.log(links) / GREATEST_LEACOCK_CHODOROW
    similarity: Floats = (1.0 / links + normalised + wu_palmer(first, second)) / 3.0
    return similarity


def _above(wordnet: WordNet, wnids: Sequence[str]) -> list[dict[int, int]]:
    return [_ancestors(wordnet, row) for row in wordnet.rows(wnids).tolist()]


def _links(first: Sequence[str], second: Sequence[str]) -> Floats:
    """Return the (n, m) lengths of the shortest paths, counted in synsets: 1 for equal synsets."""
    wordnet = load_wordnet()
    return _shortest(_above(wordnet, first), _above(wordnet, second)).astype(np.float64) + 1.0


def _padded(ancestors: list[dict[int, int]]) -> tuple[Rows, Small]:
    """Return the ancestors of n synsets, themselves included, as tables of k columns padded on the right.

    The first has (n, k) rows of WordNet, padded with 0, the root; the second the links up to them, padded with _FAR.
    """
    width = max(map(len, ancestors), default=0)
    nodes: Rows = np.zeros((len(ancestors), width), dtype=np.intp)
    links: Small = np.full((len(ancestors), width), _FAR, dtype=np.uint8)
    for place, distances in enumerate(ancestors):
        nodes[place, : len(distances)] = list(distances)
        links[place, : len(distances)] = list(distances.values())
    return nodes, links


def _ancestors(wordnet: WordNet, row: int) -> dict[int, int]:
    """Return each ancestor of a synset, itself included, with its shortest distance; nearest first."""
    distances = {row: 0}
    for node, below in wordnet.ascent(row).items():
        distances.setdefault(node, distances[below] + 1)
    return distances


def _distance_table(columns: list[dict[int, int]], nodes: Rows) -> Small:
    """Return the (k, m) distances from m synsets up to k nodes (ascending), _FAR where a node is no ancestor."""
    table = np.full((len(nodes), len(columns)), _FAR, dtype=np.uint8)
    above, links = _padded(columns)
    place = np.searchsorted(nodes, above)
    known = (np.append(nodes, -1)[place] == above) & (links < _FAR)
    table[place[known], np.nonzero(known)[0]] = links[known]
    return table


def _shortest(rows: list[dict[int, int]], columns: list[dict[int, int]]) -> Small:
    """Return the (n, m) lengths of the shortest paths over a common ancestor; all nouns have the root in common."""
    above, links = _padded(rows)
    nodes, place = np.unique(above, return_inverse=True)
    table = _distance_table(columns, nodes)
    best = np.full((len(rows), len(columns)), 2 * _FAR, dtype=np.uint8)
    for step, distance in zip(place.reshape(above.shape).T, links.T, strict=True):
        np.minimum(best, table[step] + distance[:, np.newaxis], out=best)
    return best


def _subsumers(wordnet: WordNet, rows: list[dict[int, int]], columns: list[dict[int, int]]) -> Rows:
    """Return the (n, m) WordNet rows of the subsumers that `wu_palmer` describes."""
    known = sorted({node for distances in rows for node in distances})
    name = {node: wordnet.name(node) for node in known}
    depth = {node: int(wordnet.min_depth[node]) for node in known}
    ordered = []
    for distances in rows:
        itself = next(iter(distances))
        best_first = sorted(distances, key=lambda node: (-depth[node], node != itself, name[node]))
        ordered.append({node: distances[node] for node in best_first})
    above, _ = _padded(ordered)
    nodes, place = np.unique(above, return_inverse=True)
    common = _distance_table(columns, nodes) < _FAR
    subsumers = np.zeros((len(rows), len(columns)), dtype=np.intp)
    steps = zip(place.reshape(above.shape).T, above.T, strict=True)
    for step, candidates in reversed(list(steps)):  # the best comes last and stays
        np.copyto(subsumers, candidates[:, np.newaxis], where=common[step])
    return subsumers
