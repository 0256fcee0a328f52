"""Finds all near-duplicates: every pair of a query and a reference whose distance is at most the threshold.

`builders.duplicates.distance` defines the distance. Only pairs whose outlines are no further apart than `REACH` are
compared at all (`builders.duplicates.outlines`); a pair is found if both hold, whatever else is searched with it.

The threshold was chosen by recall and precision on CIFAR-100's pairs that Barz and Denzler judged ("Do We Train on
Test Data? Purging CIFAR of Near-Duplicates", Journal of Imaging 6(6), 2020) and by changed copies of photographs
(`benchmarks.duplicates.cifair`; `docs/benchmarks/duplicates.md` has the figures, also of CIFAR-10, and says how held
out they are). So a pair that is found is probably one photograph, and the distances are published with the pairs for
users who want to be surer. What is taken for one wrongly is mostly of one simple outline: an apple or a bottle on
white. What is missed is mostly cut out of the photograph quite differently, or turned. The reach has all near pairs of
half 0 of CIFAR-100; a larger one costs time.

Bounds leave few pairs, on which `outlines.gaps` and `distance` decide, so the same pairs are found however images are
batched. First come inner products of outlines along some principal axes, with the length of the rest as one more
coordinate, which is an upper bound (Cauchy-Schwarz inequality); then those along all axes; and for what is in reach
those of details along cosines, computed of the images that need them alone. Mirroring an image negates its
coordinates along *odd* axes and none along *even* ones, so the same products give those with the mirror image. All are
of float32, with a slack.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from builders.duplicates import outlines
from builders.duplicates.distance import (
    FLOOR,
    MARGIN,
    MOVES,
    OUTLINE_WEIGHT,
    SCALES,
    SIDE,
    WINDOW,
    Images,
    details,
    distance,
    distances,
    outline_distances,
)
from builders.release.entries import NEAR_DISTANCE

__all__ = ["THRESHOLD", "Index", "Pairs", "distance", "find_pairs"]

THRESHOLD: float = NEAR_DISTANCE
REACH: float = 0.8

# Vectors have a length of at most 1, so the rounding error of an inner product of 84 float32 numbers is below 1e-5;
# those of their coordinates are of the same order.
_SLACK = 1e-3

# Axes that are kept: principal ones of outlines, and the lowest cosines down and across of the grey of details. With
# fewer more pairs are left, with more each takes longer; these were about the fastest on CIFAR-100.
_ODD, _EVEN = 20, 25
_COSINES = 8

_COARSE = [5 * y + x for y in (0, 2, 4) for x in (0, 2, 4)]
"""Of the 25 crops the nine whose outlines make the gap."""

# Block sizes: the product of 128 queries' nine crops and 128 references is 0.6 MB and stays in the cache.
_QUERIES = 128
_REFERENCES = 128
_CANDIDATES = 256

Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Pairs:
    """k pairs within the threshold, sorted by query, distance and reference: row numbers int64, distances float32."""

    queries: Rows
    references: Rows
    distances: Floats


class Index:
    """Reference images, uint8 (m, 32, 32, 3), prepared for any number of searches by one thread; m may be 0.

    `points` is float32 (m, 84), outlines along `axes`. `table` is float32 (48, m), a column (r, 1, -|r|² / 2) for each
    outline r along the axes that are kept. Its product with (v, (REACH² - |v|²) / 2, 1) is (REACH² - |v - r|²) / 2.
    """

    def __init__(self, references: Images) -> None:
        self.images = references
        self.axes = outlines.odd_and_even_axes(references[:: len(references) // 1024 + 1])
        self.points = np.empty((len(references), outlines.STEPS), np.float32)
        self.table = np.ones((_ODD + _EVEN + 3, len(references)), np.float32)
        for rows in _parts(len(references), _CANDIDATES):
            self.points[rows] = outlines.of_references(references[rows]) @ self.axes
            kept = _kept(self.points[rows])
            self.table[:-2, rows], self.table[-1, rows] = kept.T, np.square(kept).sum(axis=1) / -2
        self._details = np.empty((len(references), _COSINES**2 + 1), np.float32)
        self._has_details = np.zeros(len(references), bool)

    def details(self, rows: Rows) -> Floats:
        """Return the details of some references as `_details` does, (k, 65), computed once."""
        lacking = np.unique(rows[~self._has_details[rows]])
        for part in _parts(len(lacking), _CANDIDATES):
            self._details[lacking[part]] = _details(self.images[lacking[part]], 1.0, 0)[:, 0]
        self._has_details[lacking] = True
        return self._details[rows]


class Searched(NamedTuple):
    """References that queries are searched in, and the threshold.

    Query i is the reference i + `own` itself, if that is given, and no pair with it.
    """

    references: Index
    threshold: float = THRESHOLD
    own: int | None = None


def find_pairs(
    queries: Images,
    references: Images,
    *,
    threshold: float = THRESHOLD,
    advance: Callable[[int], object],
) -> Pairs:
    """Find every pair within `REACH` whose `distance` is at most the threshold.

    `queries` and `references` are uint8 (n, 32, 32, 3), and n may be 0; `advance` is called with numbers of queries.
    """
    return find_in_each(queries, [Searched(Index(references), threshold)], advance=advance)[0]


def find_in_each(queries: Images, searched: Sequence[Searched], *, advance: Callable[[int], object]) -> list[Pairs]:
    """Find the pairs with each of several references as `find_pairs` does; what queries take is computed once."""
    found = [[(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))] for _ in searched]
    # Threads would wait for each other: the products are small.
    with threadpool_limits(1, user_api="blas"):
        for block_rows in _parts(len(queries), _QUERIES):
            block = queries[block_rows]
            likely = _bounded(searched, block, block_rows.start)
            for within, of, (rows, columns, by_detail) in zip(found, searched, likely, strict=True):
                for pairs in _parts(len(rows), _CANDIDATES):
                    references = of.references.images[columns[pairs]]
                    measured = _measured(block[rows[pairs]], references, by_detail[pairs], of.threshold)
                    is_near = measured <= of.threshold
                    within.append(
                        (rows[pairs][is_near] + block_rows.start, columns[pairs][is_near], measured[is_near])
                    )
                advance(len(block))
    return [sorted_pairs(*map(np.concatenate, zip(*parts, strict=True))) for parts in found]


def sorted_pairs(queries: Rows, references: Rows, measured: npt.NDArray[np.floating]) -> Pairs:
    """Return pairs in their order, by row numbers and distances in any."""
    distances = measured.astype(np.float32)
    order = np.lexsort((references, distances, queries))
    return Pairs(queries[order], references[order], distances[order])


def _bounded(searched: Sequence[Searched], queries: Images, first: int) -> list[tuple[Rows, Rows, Bools]]:
    """Return for each references the rows of queries and of these that bounds allow to be near, and which by detail.

    `first` is the number of the first query, by which `Searched.own` tells a query from itself.
    """
    vectors = outlines.of_crops(queries)
    reached = []
    for of in searched:
        points = vectors @ of.references.axes
        rows, columns = _coarsely_reached(points, of.references)
        if of.own is not None:
            others = columns != rows + first + of.own
            rows, columns = rows[others], columns[others]
        reached.append(_reached(points, of, rows, columns))
    needed = np.unique(np.concatenate([rows for rows, _, _ in reached]))
    windows = np.concatenate([_details(queries[needed], scale, MOVES) for scale in SCALES], axis=1)
    windows_of = dict(zip(needed.tolist(), windows, strict=True))
    return [_narrowed(of, *pairs, windows_of) for of, pairs in zip(searched, reached, strict=True)]


def _coarsely_reached(points: Floats, index: Index) -> tuple[Rows, Rows]:
    """Return the rows of queries and references that may be within `REACH`, of outlines of 25 crops (25, n, 84)."""
    kept = _kept(points[_COARSE])
    squares = np.square(kept).sum(axis=-1, keepdims=True)
    crops = np.concatenate([kept, (REACH**2 - squares) / 2, np.ones_like(squares)], axis=-1)
    near = np.zeros((points.shape[1], len(index.images)), bool)
    for part in _parts(len(index.images), _REFERENCES):
        products = _products(crops.reshape(-1, len(index.table)), index.table[:, part], _ODD)
        near[:, part] = products.reshape(len(crops), len(near), -1).max(axis=0) >= -_SLACK / 2
    rows, columns = np.nonzero(near)
    return rows, columns


def _reached(points: Floats, of: Searched, rows: Rows, columns: Rows) -> tuple[Rows, Rows, Bools]:
    """Return those pairs that are within `REACH`, and whether their outlines alone may be within the threshold."""
    likely, by_outline = np.zeros((2, len(rows)), bool)
    for row, pairs in _by_row(rows):
        crops, references = points[:, row], of.references.points[columns[pairs]]
        lengths = np.square(crops).sum(axis=1)[:, None] + np.square(references).sum(axis=1)
        squares = lengths - 2 * _products(crops, references.T, outlines.ODD)
        likely[pairs] = squares[_COARSE].min(axis=0) <= REACH**2 + _SLACK
        by_outline[pairs] = squares.min(axis=0) <= of.threshold / OUTLINE_WEIGHT + _SLACK
    return rows[likely], columns[likely], by_outline[likely]


def _narrowed(
    of: Searched, rows: Rows, columns: Rows, by_outline: Bools, windows: Mapping[int, Floats]
) -> tuple[Rows, Rows, Bools]:
    """Return the pairs that are near by outline or may be so by detail, and which by detail.

    `windows` are the details of queries' windows, by row.
    """
    by_detail = np.zeros(len(rows), bool)
    for row, pairs in _by_row(rows):
        similarities = _products(windows[row], of.references.details(columns[pairs]).T, _COSINES**2 // 2)
        by_detail[pairs] = similarities.max(axis=0) >= 1 - of.threshold - _SLACK
    near = by_outline | by_detail
    return rows[near], columns[near], by_detail[near]


def _by_row(rows: Rows) -> Iterator[tuple[int, slice]]:
    """Yield each row of pairs that are sorted by row, with the pairs that it has, `_CANDIDATES` at most at a time."""
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    for start, stop in itertools.pairwise([*starts.tolist(), len(rows)]):
        for part in _parts(stop - start, _CANDIDATES):
            yield int(rows[start]), slice(start + part.start, start + part.stop)


def _measured(queries: Images, references: Images, by_detail: Bools, threshold: float) -> npt.NDArray[np.float64]:
    """Return distances of k pairs, infinite where they are out of reach or beyond the threshold by outline alone."""
    measured = np.full(len(queries), np.inf)
    likely = outlines.gaps(queries, references) <= REACH
    shaped = np.flatnonzero(likely & ~by_detail)
    likely[shaped] = outline_distances(queries[shaped], references[shaped]) <= threshold
    measured[likely] = distances(queries[likely], references[likely])
    return measured


def _products(points: Floats, table: Floats, odd: int) -> Floats:
    """Return the greater inner products (n, k) of vectors (n, d) and their mirror images with columns (d, k)."""
    products: Floats = points[:, :odd] @ table[:odd]
    np.abs(products, out=products)
    products += points[:, odd:] @ table[odd:]
    return products


def _kept(points: Floats) -> Floats:
    """Return outlines (..., 84) along the axes that are kept, odd and even, and the lengths of the rest: (..., 46)."""
    odd, even = np.split(points, [outlines.ODD], axis=-1)
    rest = np.concatenate([odd[..., :-_ODD], even[..., :-_EVEN]], axis=-1)
    length = np.linalg.norm(rest, axis=-1, keepdims=True)
    return np.concatenate([odd[..., -_ODD:], even[..., -_EVEN:], length], axis=-1)


def _details(images: Images, scale: float, moves: int) -> Floats:
    """Return normalised details of enlarged images' windows along cosines, and the lengths of the rest: (n, w, 65)."""
    placed = np.stack([np.eye(WINDOW, SIDE, MARGIN + move, dtype=np.float32) for move in range(-moves, moves + 1)])
    sides, cosines = placed.sum(axis=1), (_BASIS @ placed).reshape(-1, SIDE)
    detail = details(images, scale, np.float32)
    lengths = sides @ np.square(detail).sum(axis=1) @ sides.T + np.float32(FLOOR)
    products = cosines @ (detail.sum(axis=1) / np.float32(np.sqrt(3))) @ cosines.T
    by_window = products.reshape(len(images), len(sides), _COSINES, len(sides), _COSINES).transpose(0, 1, 3, 4, 2)
    values = (by_window / np.sqrt(lengths)[..., None, None]).reshape(len(images), len(sides) ** 2, _COSINES**2)
    # The slack keeps the root of a small difference from being less than the length.
    rest = np.sqrt(1 + _SLACK - FLOOR / lengths.reshape(values.shape[:2]) - np.square(values).sum(axis=-1))
    return np.concatenate([values, rest[..., None]], axis=-1)


def _parts(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def _cosines() -> Floats:
    """Return the lowest cosines of the orthonormal DCT-II of a window's side, odd ones first, shape (8, 22).

    SciPy's, in float32, differ in the last bit. No pair depends on it: these bounds have a slack.
    """
    orders = np.array([*range(1, _COSINES, 2), *range(0, _COSINES, 2)])[:, None]
    waves = np.cos(np.pi * orders * (2 * np.arange(WINDOW) + 1) / (2 * WINDOW))
    return (waves * np.sqrt(np.where(orders, 2, 1) / WINDOW)).astype(np.float32)


_BASIS = _cosines()
