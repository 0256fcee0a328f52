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

Two bounds leave few pairs, on which `outlines.gaps` and `distance` decide, so the same pairs are found however images
are batched. Both are inner products along orthonormal axes, with the length of the rest as one more coordinate, so
they are upper bounds (Cauchy-Schwarz inequality). Mirroring an image negates its coordinates along *odd* axes and none
along *even* ones, so the same products give those with the mirror image. They are of float32, with a slack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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

# Block sizes: the product of 64 queries' nine crops and 256 references is 0.6 MB and stays in the cache.
_QUERIES = 64
_REFERENCES = 256
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
    """Reference images, uint8 (m, 32, 32, 3), prepared for any number of searches; m may be 0.

    `outlines` is float32 (48, m), a column (r, 1, -|r|² / 2) for each outline r along `axes`. Its product with
    (v, (REACH² - |v|²) / 2, 1) is (REACH² - |v - r|²) / 2. `details` is float32 (m, 65).
    """

    def __init__(self, references: Images) -> None:
        self.images = references
        self.axes = outlines.odd_and_even_axes(references[:: len(references) // 1024 + 1])
        self.outlines = np.ones((_ODD + _EVEN + 3, len(references)), np.float32)
        self.details = np.empty((len(references), _COSINES**2 + 1), np.float32)
        for rows in _parts(len(references), _CANDIDATES):
            points = _along(outlines.of_references(references[rows]), self.axes)
            self.outlines[:-2, rows], self.outlines[-1, rows] = points.T, np.square(points).sum(axis=1) / -2
            self.details[rows] = _details(references[rows], 1.0, 0)[:, 0]


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
            for within, of, (rows, columns, by_detail) in zip(found, searched, _bounded(searched, block), strict=True):
                if of.own is not None:
                    others = columns != rows + block_rows.start + of.own
                    rows, columns, by_detail = rows[others], columns[others], by_detail[others]
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


def _bounded(searched: Sequence[Searched], queries: Images) -> Iterator[tuple[Rows, Rows, Bools]]:
    """Yield for each references the rows of queries and of these that bounds allow to be near, and which by detail."""
    vectors = outlines.of_crops(queries)
    crops = [_crops(vectors, of.references) for of in searched]
    near = [_reached(of_index, of.references) for of_index, of in zip(crops, searched, strict=True)]
    rows = np.flatnonzero(np.any([reached.any(axis=1) for reached in near], axis=0))
    windows = np.concatenate([_details(queries[rows], scale, MOVES) for scale in SCALES], axis=1)
    for of, of_index, reached in zip(searched, crops, near, strict=True):
        yield _narrowed(of, of_index, reached, zip(rows.tolist(), windows, strict=True))


def _crops(vectors: Floats, index: Index) -> Floats:
    """Return outlines of crops (25, n, 84) as the index's are multiplied with them, (25, n, 48)."""
    points = _along(vectors, index.axes)
    squares = np.square(points).sum(axis=-1, keepdims=True)
    return np.concatenate([points, (REACH**2 - squares) / 2, np.ones_like(squares)], axis=-1)


def _reached(crops: Floats, index: Index) -> Bools:
    """Return which references may be within `REACH` of each query, (n, m)."""
    queries = crops.shape[1]
    coarse = crops.reshape(5, 5, queries, -1)[::2, ::2].reshape(9, queries, -1)
    near = np.zeros((queries, len(index.images)), bool)
    for part in _parts(len(index.images), _REFERENCES):
        near[:, part] = _greatest(coarse, index.outlines[:, part], _ODD) >= -_SLACK / 2
    return near


def _narrowed(
    of: Searched, crops: Floats, near: Bools, windows: Iterable[tuple[int, Floats]]
) -> tuple[Rows, Rows, Bools]:
    """Return rows of queries and references that finer bounds allow to be near; `near`, by the coarse one, is changed.

    `windows` are the details of queries' windows, by row.
    """
    by_detail = np.zeros_like(near)
    for row, query_windows in windows:
        reached = np.flatnonzero(near[row])
        for part in _parts(len(reached), _CANDIDATES):
            columns = reached[part]
            similarity = _greatest(query_windows[:, None], of.references.details[columns].T, _COSINES**2 // 2)[0]
            closeness = _greatest(crops[:, row, None], of.references.outlines[:, columns], _ODD)[0]
            by_detail[row, columns] = similarity >= 1 - of.threshold - _SLACK
            near[row, columns] = closeness >= (REACH**2 - of.threshold / OUTLINE_WEIGHT - _SLACK) / 2
    rows, columns = np.nonzero(near | by_detail)
    return rows, columns, by_detail[rows, columns]


def _measured(queries: Images, references: Images, by_detail: Bools, threshold: float) -> npt.NDArray[np.float64]:
    """Return distances of k pairs, infinite where they are out of reach or beyond the threshold by outline alone."""
    measured = np.full(len(queries), np.inf)
    likely = outlines.gaps(queries, references) <= REACH
    shaped = np.flatnonzero(likely & ~by_detail)
    likely[shaped] = outline_distances(queries[shaped], references[shaped]) <= threshold
    measured[likely] = distances(queries[likely], references[likely])
    return measured


def _greatest(points: Floats, table: Floats, odd: int) -> Floats:
    """Return the greatest inner products (n, k) of vectors (v, n, d), or their mirror images, and columns (d, k)."""
    flat = points.reshape(-1, len(table))
    products = np.abs(flat[:, :odd] @ table[:odd])
    products += flat[:, odd:] @ table[odd:]
    greatest: Floats = products.reshape(len(points), -1, table.shape[1]).max(axis=0)
    return greatest


def _along(vectors: Floats, axes: Floats) -> Floats:
    """Return outlines (..., 84) along the axes that are kept, odd and even, and the lengths of the rest: (..., 46)."""
    odd, even = np.split(vectors @ axes, [outlines.ODD], axis=-1)
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
