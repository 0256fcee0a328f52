"""Finds all pairs of queries and references within a perceptual distance, exactly.

About a tenth of CIFAR-100's test images nearly repeat training images, moved, mirrored or recoloured a little (Barz
and Denzler, "Do We Train on Test Data? Purging CIFAR of Near-Duplicates", Journal of Imaging 6(6), 2020). `find`
returns such pairs of any two sets of small images. `builders.duplicates.distance` defines the distance.

The threshold of 0.4 was chosen without looking at CIFAR images. It comes from 15 photographs that are distributed with
scikit-learn (china, flower), scikit-image (coffee, astronaut, chelsea, motorcycle_left, camera, coins, grass, gravel,
moon, ihc, rocket, hubble_deep_field) and matplotlib (grace_hopper), cut into 2,747 patches of 48 to 256 pixels and
scaled to 32 x 32, by `python -m benchmarks.near_duplicates FILE...`:

- Of changed copies of 1,000 patches, all that were only moved by up to two pixels or mirrored are at distance 0. At
  most 0.4 were 94 % of those encoded as JPEG of quality 50 (99 % at 75), 98 % of those with noise of standard
  deviation 5 or a blur of sigma 1, 91 to 97 % of those with brightness, contrast or gamma changed, and 88 to 100 % of
  two such changes in a row. Of the 730 patches whose standard deviation exceeds 25 levels, as it does in most
  photographs of objects, at least 98.6 % were found after every one of these changes.
- Of 6.8 million pairs of patches from two photographs the least distance is 0.457. Of 0.7 million pairs from one
  photograph that share no pixel, 6 are at most 0.4: one straight edge between two areas, in the same place.

So a published pair is two pictures that look alike. Two kinds can look alike without being copies: pictures of nothing
but one simple outline, such as a horizon or a disc on white, and featureless ones of the same colours. Missed copies
are mostly of low contrast. The distances are published with the pairs, for users who want a stricter threshold.

The search misses no pair, since P, the distance of two patterns, is a lower bound of the distance. Let W be a matrix
of orthonormal columns. The map of a pattern v to (W'v, |v - WW'v|) lengthens no distance: in the space of W it is a
projection, and outside it lengths differ by no more than the vectors do. Its values are called features; the columns
of W are principal axes of the references' patterns, so that features are nearly as far apart as patterns. The fifty
features of a query are covered by balls: one for each group of up to four neighbouring shifts, or one of radius 0 for
each shift if the group is wide, as it is in noise. If a pattern in a ball of centre c and radius r is within the
threshold T of a reference's, the feature f of that reference has |c - f| <= T + r. One matrix product tests this for
all balls and references, the members of the remaining balls are tested one by one, and the distance itself decides on
the remaining pairs. Features are float32, so both tests have a slack that exceeds their rounding error; the distances
have none, and equal those of `distance` bit for bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from builders.duplicates.distance import (
    CENTRE,
    GRID,
    SHIFTS,
    STEPS,
    check_images,
    crop,
    distance,
    patterns,
    squared_distances,
    steps,
    totals,
    variants,
    window_sums,
)

__all__ = ["THRESHOLD", "Index", "Pairs", "distance", "find", "find_in"]

THRESHOLD: float = 0.4

# Of 36 to 72 axes and radii of 0.3 to 0.5 these were the fastest on photographs and white noise together.
_AXES = 40
_RADIUS = 0.45

# Slack in squared distance. Patterns have a length of at most 1, so the rounding error of an inner product of 84
# float32 numbers is at most 84 * 2^-24 = 5e-6, of a vector of 40 of them 3e-5, and of the squared distance of two such
# less than 5e-4.
_SLACK = 1e-3

# Block sizes: a product of 512 balls and 2,048 references is 4 MB and stays in the cache.
_QUERIES = 256
_REFERENCES = 2048
_BALLS = 512
_CANDIDATES = 512

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Pairs:
    """k pairs within the threshold, sorted by query, distance and reference.

    Attributes:
        queries: int64 (k,), row numbers of the queries.
        references: int64 (k,), row numbers of the references.
        distances: float32 (k,), the distance of each pair.
    """

    queries: Rows
    references: Rows
    distances: Floats


def find(
    queries: npt.NDArray[np.uint8],
    references: npt.NDArray[np.uint8],
    *,
    threshold: float = THRESHOLD,
    advance: Callable[[int], object],
) -> Pairs:
    """Find every pair whose `distance` is at most the threshold.

    Args:
        queries: uint8 (n, 32, 32, 3); n may be 0.
        references: uint8 (m, 32, 32, 3); m may be 0.
        threshold: greatest distance of a pair, at least 0.
        advance: called with the number of queries done since the last call.

    Raises:
        ValueError: arrays of another shape or type, or a threshold that is negative or not a number.
    """
    check_images("queries", queries, ndim=4)
    return find_in(Index(references), queries, threshold=threshold, advance=advance)


def find_in(
    index: Index,
    queries: npt.NDArray[np.uint8],
    *,
    threshold: float = THRESHOLD,
    advance: Callable[[int], object],
) -> Pairs:
    """Find every pair of queries and indexed references; see `find`."""
    check_images("queries", queries, ndim=4)
    if not threshold >= 0:
        raise ValueError(f"the threshold must be at least 0, not {threshold}")
    found: list[tuple[Rows, Rows, Floats]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))]
    for start in range(0, len(queries), _QUERIES):
        some = queries[start : start + _QUERIES]
        search = _Search(index, some, threshold)
        for part in _parts(len(index.sums)):
            rows, columns, distances = search.among(part)
            found.append((rows + start, columns, distances))
        advance(len(some))
    rows, columns, distances = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((columns, distances, rows))
    return Pairs(rows[order], columns[order], distances[order])


class Index:
    """The references, prepared for any number of searches.

    Args:
        references: uint8 (m, 32, 32, 3); m may be 0.

    Raises:
        ValueError: an array of another shape or type.

    Attributes:
        sums: int16 (m, 7, 7, 3), block sums of the centre crops.
        axes: float32 (84, _AXES), orthonormal columns.
        features: float32 (m, _AXES + 1), see `_project`.
        table: float32 (_AXES + 2, m). For a point c, the product of (c, 1) with the column of a reference f is
            c f - |f|² / 2 = (|c|² - |c - f|²) / 2.
    """

    def __init__(self, references: npt.NDArray[np.uint8]) -> None:
        check_images("references", references, ndim=4)
        self.sums = np.empty((len(references), GRID, GRID, 3), dtype=np.int16)
        moment = np.zeros((STEPS, STEPS))
        for rows in _parts(len(references)):
            self.sums[rows] = crop(window_sums(references[rows]), CENTRE)
            vectors = _patterns(self.sums[rows])
            moment += vectors.T @ vectors
        self.axes = np.linalg.eigh(moment)[1][:, -_AXES:].astype(np.float32)
        self.features = np.empty((len(references), _AXES + 1), dtype=np.float32)
        for rows in _parts(len(references)):
            self.features[rows] = _project(_patterns(self.sums[rows]), self.axes)
        self.table = np.concatenate([self.features.T, _squares(self.features)[None] / -2])


class _Search:
    """Searches one part of the references after another for a batch of queries."""

    def __init__(self, index: Index, queries: npt.NDArray[np.uint8], threshold: float) -> None:
        self.index = index
        self.threshold = threshold
        self.sums = np.stack(list(variants(window_sums(queries))), axis=1)
        vectors = _patterns(self.sums)
        self.features = _project(vectors.reshape(-1, STEPS), index.axes).reshape(*vectors.shape[:2], -1)
        self._cover()

    def _cover(self) -> None:
        """Cover the variants of each query with balls: one for each group of shifts, or one for each variant."""
        balls = []
        for group, members in enumerate(_GROUPS):
            points = self.features[:, members]
            centre = points.mean(axis=1)
            radius = np.sqrt(_squares(points - centre[:, None]).max(axis=1))
            small = np.flatnonzero(radius <= _RADIUS)
            wide = np.flatnonzero(radius > _RADIUS)
            balls.append((group, small, centre[small], radius[small]))
            balls += [(len(_GROUPS) + v, wide, self.features[wide, v], np.zeros_like(radius[wide])) for v in members]
        groups, owners, centres, radii = zip(*balls, strict=True)
        self.owners = np.concatenate(owners)
        self.groups = np.repeat(groups, [len(some) for some in owners])
        points = np.concatenate(centres)
        self.points = np.concatenate([points, np.ones((len(points), 1), np.float32)], axis=1)
        reach = np.square(np.concatenate(radii) + self.threshold) + _SLACK
        self.least = ((_squares(points) - reach) / 2)[:, None]

    def among(self, part: slice) -> tuple[Rows, Rows, Floats]:
        """Return the pairs with a part of the references: query rows, reference rows and distances."""
        best = np.full((len(self.sums), part.stop - part.start), np.inf)
        for start in range(0, len(self.points), _BALLS):
            balls = slice(start, start + _BALLS)
            scores = self.points[balls] @ self.index.table[:, part]
            near = np.flatnonzero(scores.max(axis=1) >= self.least[balls, 0])
            rows, columns = np.nonzero(scores[near] >= self.least[balls][near])
            self._verify(near[rows] + start, columns, part.start, best)
        rows, columns = np.nonzero(best < np.inf)
        distances = np.sqrt(best[rows, columns])
        kept = distances <= self.threshold
        return rows[kept], columns[kept] + part.start, distances[kept].astype(np.float32)

    def _verify(self, balls: Rows, columns: Rows, first: int, best: npt.NDArray[np.float64]) -> None:
        """Lower `best` to the squared distances of those variants in the balls that may be within the threshold."""
        for start in range(0, len(balls), _CANDIDATES):
            some = slice(start, start + _CANDIDATES)
            members = _MEMBERS[self.groups[balls[some]]]
            pairs, places = np.nonzero(members >= 0)
            owners, seen = self.owners[balls[some]][pairs], members[pairs, places]
            near = columns[some][pairs]
            gaps = _squares(self.features[owners, seen] - self.index.features[near + first])
            kept = np.flatnonzero(gaps <= self.threshold**2 + _SLACK)
            owners, seen, near = owners[kept], seen[kept], near[kept]
            references = self.index.sums[near + first].astype(np.int32)
            np.minimum.at(best, (owners, near), squared_distances(self.sums[owners, seen], references))


def _patterns(sums: npt.NDArray[np.integer]) -> Floats:
    """Return the pattern vectors, float32 (..., 84), of block sums (..., 7, 7, 3)."""
    return patterns(steps(totals(sums.astype(np.int32, copy=False))), np.float32)


def _project(vectors: Floats, axes: Floats) -> Floats:
    """Project vectors on the axes and append the length of the rest: a map that lengthens no distance."""
    inside: Floats = vectors @ axes
    rest: Floats = vectors - inside @ axes.T
    outside = np.sqrt(_squares(rest))
    return np.concatenate([inside, outside[:, None]], axis=1)


def _squares(vectors: Floats) -> Floats:
    """Squared lengths along the last axis."""
    squares: Floats = np.einsum("...i,...i->...", vectors, vectors)
    return squares


def _parts(count: int) -> Iterator[slice]:
    for start in range(0, count, _REFERENCES):
        yield slice(start, min(start + _REFERENCES, count))


def _neighbours() -> list[list[int]]:
    """Numbers of the variants, in groups of neighbouring shifts that are all mirrored or all not."""
    spans = ((0, 1), (2,), (3, 4))
    return [
        [2 * (SHIFTS * y + x) + mirrored for y in ys for x in xs]
        for mirrored in (0, 1)
        for ys, xs in itertools.product(spans, spans)
    ]


_GROUPS = _neighbours()
_SINGLES = [[variant] for variant in range(2 * SHIFTS**2)]
# The members of each group and then each single variant, padded with -1.
_MEMBERS = np.array([(members + [-1] * 4)[:4] for members in [*_GROUPS, *_SINGLES]])
