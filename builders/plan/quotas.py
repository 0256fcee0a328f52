"""Per-class quotas: cuts a split's ranked candidates down to its size.

Tested by `tests/builders/plan/test_planner.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.benchmark import AllImages, Half, Largest, Originals, PerClass, Quota, Rest, Split, Total
from builders.plan.ranking import even_shares, first_of_each, largest_remainders
from builders.sources.base import SourceIndex

Rows = npt.NDArray[np.int64]

_RANKED_TOGETHER = 1 << 20
"""Rows that are ranked at a time (ours): 24 MB of numbers."""


class Ranks(Protocol):
    """The keyed ranks of a source's images for one split."""

    def words(self, rows: Rows) -> npt.NDArray[np.uint64]:
        """A number by which each of some rows is ranked, lowest first."""

    def ordered(self, rows: Rows, words: npt.NDArray[np.uint64]) -> Rows:
        """Put rows in the order of their ranks, given their words."""


class IndexArrays:
    """A source's index: class codes of all images as a NumPy array, and ids that are read by blocks.

    Attributes:
        index: the index.
        class_codes: position in `class_ids` of each image's class.
        class_ids: ids of the classes.
        partitions: the partitions, in which row numbers ascend.
        names: names of the source's classes, by id.
    """

    def __init__(self, index: SourceIndex) -> None:
        self.index = index
        self.class_codes, self.class_ids = _codes(index.column("class_id"))
        self.partitions = [piece.partition for piece in index.pieces]
        self.names = index.source.classes()

    def rows(self, class_ids: Sequence[str], partitions: Sequence[str]) -> Rows:
        """Ascending row numbers of the images of some classes in some partitions."""
        wanted = np.isin(self.class_ids, list(class_ids))
        return np.concatenate(
            [np.empty(0, np.int64)]
            + [
                np.flatnonzero(wanted[self.class_codes[start:stop]]) + start
                for start, stop in self._bounds(partitions)
            ]
        )

    def inside(self, rows: Rows, partitions: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Which of some rows are in some partitions."""
        return np.isin(self.partitions, list(partitions))[self.index.piece_of(rows)]

    def available(self, partitions: Sequence[str]) -> int:
        """Images in some partitions."""
        return sum(stop - start for start, stop in self._bounds(partitions))

    def ids(self, rows: Rows) -> pa.Array:
        """Source ids of some rows."""
        found = self.index.take(["source_id"], rows)["source_id"].combine_chunks()
        return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found

    def blocks_of_ids(self, rows: Rows) -> Iterator[tuple[slice, pa.Array]]:
        """Source ids of ascending rows, some at a time: which of the rows, and their ids."""
        bounds = np.searchsorted(rows, self.index.starts).tolist()
        starts = self.index.starts.tolist()
        for piece, first, start, stop in zip(self.index.pieces, starts, bounds, bounds[1:], strict=False):
            for inside, table in piece.table.blocks(["source_id"], rows[start:stop] - first):
                place = slice(start + inside.start, start + inside.stop)
                yield place, table["source_id"].combine_chunks()

    def values(self, column: str) -> npt.NDArray[np.float64]:
        """The values of one of the source's own columns of numbers."""
        found: npt.NDArray[np.float64] = self.index.column(column).to_numpy().astype(np.float64)
        return found

    def _bounds(self, partitions: Sequence[str]) -> list[tuple[int, int]]:
        """First row of each of some partitions, and the first behind it."""
        bounds = itertools.pairwise(self.index.starts.tolist())
        return [b for b, name in zip(bounds, self.partitions, strict=True) if name in partitions]

    def mask(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Mask of some rows over all images."""
        found = np.zeros(len(self.class_codes), np.bool_)
        found[rows] = True
        return found

    def tally(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Count ascending rows by partition and class; shape (partitions, classes)."""
        bounds = itertools.pairwise(np.searchsorted(rows, self.index.starts).tolist())
        return np.array([self.sizes(rows[start:stop]) for start, stop in bounds])

    def tally_all(self, partitions: Sequence[str]) -> npt.NDArray[np.int64]:
        """The same of all images of some partitions."""
        bounds = zip(itertools.pairwise(self.index.starts.tolist()), self.partitions, strict=True)
        width = len(self.class_ids)
        return np.array(
            [
                np.bincount(self.class_codes[start : stop if name in partitions else start], minlength=width)
                for (start, stop), name in bounds
            ]
        )

    def sizes(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Count rows by class."""
        return np.bincount(self.class_codes[rows], minlength=len(self.class_ids))


def within_quota(split: Split, view: IndexArrays, candidates: Rows, ranks: Ranks) -> Rows:
    """Cut ascending candidates down to the split's quota, by rank; returns ascending rows."""
    quota = split.quota
    if isinstance(quota, AllImages | Originals | Rest):
        return candidates
    if isinstance(quota, Total):
        return _taken_total(quota, split, view, candidates, ranks)
    if isinstance(quota, Largest):
        return _largest(quota, view, candidates)
    sizes = view.sizes(candidates)
    if isinstance(quota, Half):
        quotas = np.array([round(size * 0.5) for size in sizes.tolist()], dtype=np.int64)
    else:
        quotas = np.minimum(quota.images, sizes // 2 if quota.half else sizes)
    return first_by_rank(view, candidates, quotas, ranks)


def first_by_rank(view: IndexArrays, rows: Rows, quotas: npt.NDArray[np.int64], ranks: Ranks) -> Rows:
    """The first rows of each class by rank, up to its quota; takes and returns ascending rows.

    Of so many rows at a time only those are kept that can be among the first, so memory follows the quotas.
    """
    kept, words = np.empty(0, np.int64), np.empty(0, np.uint64)
    for start in range(0, len(rows), _RANKED_TOGETHER):
        some = rows[start : start + _RANKED_TOGETHER]
        kept, words = np.concatenate([kept, some]), np.concatenate([words, ranks.words(some)])
        mask = view.mask(first_of_each(view.class_codes, ranks.ordered(kept, words), quotas))[kept]
        kept, words = kept[mask], words[mask]
    return kept


def _taken_total(quota: Total, split: Split, view: IndexArrays, candidates: Rows, ranks: Ranks) -> Rows:
    left = min(quota.images, len(candidates) // 2) if quota.half else quota.images
    chosen = [np.empty(0, np.int64)]
    for partition in split.partitions:
        pool = candidates[view.inside(candidates, [partition])]
        quotas = largest_remainders(min(left, len(pool)), view.sizes(pool).tolist())
        chosen.append(first_by_rank(view, pool, np.array(quotas, dtype=np.int64), ranks))
        left -= len(chosen[-1])
    return np.sort(np.concatenate(chosen))


def _largest(quota: Largest, view: IndexArrays, rows: Rows) -> Rows:
    """Take the rows of the largest values; returns ascending rows."""
    values = view.values(quota.by)
    candidates = rows[values[rows] > 0]
    ids = np.array(view.ids(candidates).to_pylist(), dtype=np.str_)
    best = candidates[np.lexsort((ids, -values[candidates]))]
    if quota.evenly:
        sizes = np.bincount(view.class_codes[best], minlength=len(view.class_ids)).tolist()
        by_id = [str(class_id) for class_id in view.class_ids]
        best = first_of_each(view.class_codes, best, np.array(even_shares(quota.images, sizes, by_id), np.int64))
    return np.sort(best[: quota.images])


def not_drawn(quota: Quota, before: Sequence[str]) -> tuple[str, str]:
    """Rule and evidence for the images of a class that a split draws from but does not take.

    `before` are the keys of the splits that draw from the same images before it.
    """
    drawn = f"drawn for {' or '.join(before)}"
    if isinstance(quota, Rest):
        return ("in-other-split", drawn)
    if isinstance(quota, AllImages):
        return ("image-not-drawn", "every image of the class is taken")
    if isinstance(quota, Originals):
        return ("image-not-drawn", f"{quota.of.title} has no image made of it in {', '.join(quota.partitions)}")
    if isinstance(quota, Half):
        return ("image-not-drawn", "keyed rank beyond half of the class's images")
    if isinstance(quota, Largest):
        share = "the class's even share of " * quota.evenly
        return (
            "image-not-drawn",
            f"not among {share}the {quota.images:,} images with the greatest {quota.by} above 0",
        )
    first = f"{drawn}, or " if before else ""
    if isinstance(quota, PerClass):
        rank = f"keyed rank beyond the class's {quota.images}" + " (or half of a class that is short)" * quota.half
    else:
        rank = f"keyed rank beyond the class's share of {quota.images} images"
    return ("image-not-drawn", first + rank)


def _codes(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.str_]]:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.unify_dictionaries().combine_chunks()
    names = np.array(array.dictionary.to_pylist(), dtype=np.str_)
    # NumPy sorts 16-bit integers with a radix sort, ten times faster, and hardly any source has more classes.
    return array.indices.to_numpy().astype(np.uint16 if len(names) <= 1 << 16 else np.int32), names
