"""Per-class quotas: cuts a split's ranked candidates down to its size.

Tested by `tests/builders/plan/test_planner.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.benchmark import AllImages, Half, Largest, Originals, PerClass, Quota, Rest, Split, Total
from builders.plan.ranking import even_shares, first_of_each, largest_remainders
from builders.sources.base import SourceIndex

Rows = npt.NDArray[np.int64]


class IndexArrays:
    """A source's index as NumPy arrays of class and partition codes."""

    def __init__(self, index: SourceIndex) -> None:
        self.index = index
        table = index.table
        self.ids = table["source_id"].combine_chunks()
        self.class_codes, self.class_ids = _codes(table["class_id"])
        self.partition_codes, self.partitions = _codes(table["partition"])
        self.names = index.source.classes()
        self._inside: dict[tuple[str, ...], npt.NDArray[np.bool_]] = {}

    def rows(self, class_ids: Sequence[str], partitions: Sequence[str]) -> Rows:
        """Ascending row numbers of the images of some classes in some partitions."""
        wanted = np.isin(self.class_ids, list(class_ids))[self.class_codes]
        return np.flatnonzero(wanted & self.in_partitions(partitions))

    def in_partitions(self, partitions: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Mask of the images in some partitions; cached, because every split of a source needs it several times."""
        names = tuple(partitions)
        if names not in self._inside:
            self._inside[names] = np.isin(self.partitions, list(names))[self.partition_codes]
        return self._inside[names]

    def values(self, column: str) -> npt.NDArray[np.float64]:
        """The values of one of the source's own columns of numbers."""
        found: npt.NDArray[np.float64] = self.index.table[column].to_numpy().astype(np.float64)
        return found

    def mask(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Mask of some rows over all images."""
        found = np.zeros(len(self.class_codes), np.bool_)
        found[rows] = True
        return found

    def tally(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Count rows by partition and class; shape (partitions, classes)."""
        width = len(self.class_ids)
        cells = self.partition_codes[rows].astype(np.int64) * width + self.class_codes[rows]
        return np.bincount(cells, minlength=len(self.partitions) * width).reshape(-1, width)


def within_quota(split: Split, view: IndexArrays, order: Rows) -> Rows:
    """Cut ranked candidates, best first, down to the split's quota."""
    quota = split.quota
    if isinstance(quota, AllImages | Originals | Rest):
        return order
    if isinstance(quota, Total):
        return _taken_total(quota, split, view, order)
    if isinstance(quota, Largest):
        return _largest(quota, view, order)
    sizes = np.bincount(view.class_codes[order], minlength=len(view.class_ids))
    if isinstance(quota, Half):
        quotas = np.array([round(size * 0.5) for size in sizes.tolist()], dtype=np.int64)
    else:
        quotas = np.minimum(quota.images, sizes // 2 if quota.half else sizes)
    return first_of_each(view.class_codes, order, quotas)


def _taken_total(quota: Total, split: Split, view: IndexArrays, order: Rows) -> Rows:
    left = min(quota.images, len(order) // 2) if quota.half else quota.images
    chosen = []
    for partition in split.partitions:
        pool = order[view.in_partitions([partition])[order]]
        sizes = np.bincount(view.class_codes[pool], minlength=len(view.class_ids))
        quotas = largest_remainders(min(left, len(pool)), sizes.tolist())
        chosen.append(first_of_each(view.class_codes, pool, np.array(quotas, dtype=np.int64)))
        left -= len(chosen[-1])
    return order[view.mask(np.concatenate(chosen))[order]]


def _largest(quota: Largest, view: IndexArrays, order: Rows) -> Rows:
    """Take the rows of the largest values; the order that is returned stays that of the candidates."""
    values = view.values(quota.by)
    candidates = order[values[order] > 0]
    ids = np.array(view.ids.take(pa.array(candidates)).to_pylist(), dtype=np.str_)
    best = candidates[np.lexsort((ids, -values[candidates]))]
    if quota.evenly:
        sizes = np.bincount(view.class_codes[best], minlength=len(view.class_ids)).tolist()
        by_id = [str(class_id) for class_id in view.class_ids]
        best = first_of_each(view.class_codes, best, np.array(even_shares(quota.images, sizes, by_id), np.int64))
    return order[view.mask(best[: quota.images])[order]]


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


def _codes(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.str_]]:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.unify_dictionaries().combine_chunks()
    return array.indices.to_numpy(), np.array(array.dictionary.to_pylist(), dtype=np.str_)
