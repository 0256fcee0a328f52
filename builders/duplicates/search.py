"""Finds all pairs of queries and references that are near-duplicates: their distance is at most the threshold.

`builders.duplicates.distance` defines the distance. Only pairs whose outlines are no further apart than `REACH` are
compared at all (`builders.duplicates.outlines`); a pair is found if both hold, whatever else is searched with it.

The threshold was chosen by recall and precision on CIFAR-100's pairs that Barz and Denzler judged ("Do We Train on
Test Data? Purging CIFAR of Near-Duplicates", Journal of Imaging 6(6), 2020) and by changed copies of photographs
(`benchmarks.duplicates.cifair`; `docs/benchmarks/duplicates.md` has the figures, also of CIFAR-10, and says how held
out they are). So a pair that is found is probably one photograph, and the distances are published with the pairs for
users who want to be surer. What is taken for one wrongly is mostly of one simple outline: an apple or a bottle on
white. What is missed is mostly cut out of the photograph quite differently, or turned. The reach has all near pairs of
half 0 of CIFAR-100; a larger one costs time.

One matrix product with float32 gives the gaps of all pairs, with a slack for its rounding error, and Fourier
transforms with float32 give the distances of detail of those that remain, with another. `outlines.gaps` and `distance`
decide on what these leave, so the same pairs are found however images are batched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import fft

from builders.duplicates import outlines
from builders.duplicates.distance import (
    AGREEING,
    FLOOR,
    MARGIN,
    MOVES,
    RICH,
    SCALES,
    SIDE,
    WINDOW,
    Images,
    contrasts,
    details,
    distance,
    distances,
    outline_distances,
    scarcity,
)

__all__ = ["THRESHOLD", "Index", "Pairs", "distance", "find_pairs"]

THRESHOLD: float = 0.096
REACH: float = 0.8

# Outlines have a length of at most 1, so the rounding error of an inner product of 86 float32 numbers of such size is
# below 1e-5; that of a transform of 1,024 is of the same order.
_SLACK = 1e-3

# Block sizes: the product of 32 queries' variants and 2,048 references is 5 MB; 256 pairs' transforms are 16 MB.
_QUERIES = 256
_AT_ONCE = 32
_REFERENCES = 2048
_CANDIDATES = 256

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Pairs:
    """k pairs within the threshold, sorted by query, distance and reference: row numbers int64, distances float32."""

    queries: Rows
    references: Rows
    distances: Floats


class Index:
    """The references, uint8 (m, 32, 32, 3), prepared for any number of searches; m may be 0.

    `outlines` is float32 (86, m), a column (r, 1, -|r|² / 2) for each outline r. Its product with
    (v, (REACH² - |v|²) / 2, 1) is (REACH² - |v - r|²) / 2.
    """

    def __init__(self, references: Images) -> None:
        self.images = references
        self.outlines = np.ones((outlines.STEPS + 2, len(references)), np.float32)
        for rows in _parts(len(references), _REFERENCES):
            vectors = outlines.of_references(references[rows])
            self.outlines[: outlines.STEPS, rows] = vectors.T
            self.outlines[-1, rows] = _squares(vectors) / -2


def find_pairs(
    queries: Images, references: Images | Index, *, threshold: float = THRESHOLD, advance: Callable[[int], object]
) -> Pairs:
    """Find every pair within `REACH` whose `distance` is at most the threshold.

    `queries` and `references` are uint8 (n, 32, 32, 3), and n may be 0; `advance` is called with numbers of queries.
    """
    index = references if isinstance(references, Index) else Index(references)
    rows_and_distances: list[tuple[int, float, int]] = []
    for block_rows in _parts(len(queries), _QUERIES):
        block = queries[block_rows]
        rows, columns = _within_reach(index, block)
        for pairs in _likely(block, index.images, rows, columns, threshold):
            measured = distances(block[rows[pairs]], index.images[columns[pairs]])
            near = measured <= threshold
            found = (rows[pairs][near] + block_rows.start, measured[near].astype(np.float32), columns[pairs][near])
            rows_and_distances.extend(zip(*(values.tolist() for values in found), strict=True))
        advance(len(block))
    rows_and_distances.sort()
    table = np.array(rows_and_distances).reshape(-1, 3)
    return Pairs(table[:, 0].astype(np.int64), table[:, 2].astype(np.int64), table[:, 1].astype(np.float32))


def _within_reach(index: Index, queries: Images) -> tuple[Rows, Rows]:
    """Return rows of the queries and references whose gap is at most `REACH`."""
    near_pairs: list[tuple[Rows, Rows]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    for block in _parts(len(queries), _AT_ONCE):
        variants = outlines.of_variants(queries[block])
        points = variants.transpose(1, 0, 2).reshape(-1, outlines.STEPS)
        left = np.column_stack([points, (REACH**2 - _squares(points)) / 2, np.ones(len(points), np.float32)])
        for part in _parts(len(index.images), _REFERENCES):
            products = (left @ index.outlines[:, part]).reshape(outlines.VARIANTS, len(variants), -1).max(axis=0)
            rows, columns = np.nonzero(products >= -_SLACK / 2)
            near_outlines = index.outlines[: outlines.STEPS, part][:, columns].T
            near = outlines.gaps(variants[rows], near_outlines) <= REACH
            near_pairs.append((rows[near] + block.start, columns[near] + part.start))
    rows, columns = (np.concatenate(parts) for parts in zip(*near_pairs, strict=True))
    return rows, columns


def _likely(queries: Images, references: Images, rows: Rows, columns: Rows, threshold: float) -> Iterator[Rows]:
    """Yield, some at a time, the numbers of those pairs whose distance may be at most the threshold."""
    order = np.argsort(rows, kind="stable")
    for part in _parts(len(order), _CANDIDATES):
        pairs = order[part]
        query_rows, query = np.unique(rows[pairs], return_inverse=True)
        reference_rows, reference = np.unique(columns[pairs], return_inverse=True)
        spectra, lengths = _query_spectra(queries[query_rows])
        centres, norms = _reference_spectra(references[reference_rows])
        best = np.full(len(pairs), -1.0, np.float32)
        for version in range(spectra.shape[1]):
            products = (spectra[query, version] * centres[reference]).sum(axis=1)
            moved = fft.irfft2(products, s=(SIDE, SIDE))[:, _MOVES[:, None], _MOVES]
            similar = moved / np.sqrt(lengths[query, version] * norms[reference][:, None, None])
            np.maximum(best, similar.max(axis=(1, 2)), out=best)
        contrast = np.minimum(contrasts(queries[query_rows])[query], contrasts(references[reference_rows])[reference])
        is_likely = best >= 1 - threshold / scarcity(contrast) - _SLACK
        shaped = np.flatnonzero(~is_likely & ((contrast <= RICH + _SLACK) | (best >= 1 - AGREEING - _SLACK)))
        by_outline = outline_distances(queries[rows[pairs[shaped]]], references[columns[pairs[shaped]]])
        is_likely[shaped] = by_outline <= threshold + _SLACK
        if is_likely.any():
            yield pairs[is_likely]


def _query_spectra(images: Images) -> tuple[npt.NDArray[np.complex64], Floats]:
    """Return transforms (n, 10, 3, 32, 17) of details of the query's versions, and their windows' squared lengths.

    The versions are five scales of the image and of its mirror image; the lengths have the shape (n, 10, 7, 7).
    """
    mirrored = images[:, :, ::-1]
    versions = np.stack([details(view, scale, np.float32) for view in (images, mirrored) for scale in SCALES], axis=1)
    sums = np.zeros((*versions.shape[:2], SIDE + 1, SIDE + 1))
    sums[:, :, 1:, 1:] = np.square(versions).sum(axis=2).cumsum(axis=2, dtype=np.float64).cumsum(axis=3)
    first = MARGIN + np.sort(_MOVES)
    low, high = first[:, None], first[:, None] + WINDOW
    squares = (sums[:, :, high, first + WINDOW] - sums[:, :, low, first + WINDOW] - sums[:, :, high, first]) + sums[
        :, :, low, first
    ]
    return fft.rfft2(versions), (squares + FLOOR).astype(np.float32)


def _reference_spectra(images: Images) -> tuple[npt.NDArray[np.complex64], Floats]:
    """Return conjugate transforms (n, 3, 32, 17) of the centres of details, and their squared lengths (n,)."""
    centres = np.zeros((len(images), 3, SIDE, SIDE), np.float32)
    inside = slice(MARGIN, SIDE - MARGIN)
    centres[:, :, inside, inside] = details(images, 1.0, np.float32)[:, :, inside, inside]
    return np.conj(fft.rfft2(centres)), (np.square(centres).sum(axis=(1, 2, 3)) + FLOOR).astype(np.float32)


def _squares(vectors: Floats) -> Floats:
    """Return squared lengths along the last axis."""
    squares: Floats = np.einsum("...i,...i->...", vectors, vectors)
    return squares


def _parts(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


_MOVES = np.arange(-MOVES, MOVES + 1)
