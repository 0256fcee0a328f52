"""Searches the images of finished splits for near-duplicates, in tasks: images become thumbnails, which are compared.

Tested by `tests/builders/audit/test_duplicates.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

from builders.duplicates.distance import SIDE, Images, scaled
from builders.duplicates.search import Index, Pairs, find_pairs
from builders.executors.base import (
    ONE_CORE,
    Executor,
    Meter,
    Progress,
    ProgressCounter,
    Resources,
    once_per_worker,
)
from builders.release import images
from builders.release.entries import SplitEntry
from builders.release.reader import RowGroup, row_groups
from builders.storage.paths import store_of

_QUERIES = 1024
"""Queries of a task: a few seconds for 60,000 references."""


@dataclass(frozen=True)
class ThumbnailTask:
    """A `builders.executors.base.Task` that writes the thumbnails of a row group into a .npy file of all rows."""

    group: RowGroup
    array: Path
    resources: ClassVar[Resources] = ONE_CORE

    def run(self, progress: Progress) -> None:
        """Read, decode, shrink and write the images."""
        counted = ProgressCounter(len(self.group.rows), progress)
        array = np.lib.format.open_memmap(self.array, "r+")
        thumbnails = self.group.each(lambda data: (len(data), scaled(images.decode(data))))
        for number, (size, thumbnail) in enumerate(thumbnails, self.group.first):
            array[number] = thumbnail
            counted.add(size)
        array.flush()


def write_thumbnails(
    splits: Sequence[tuple[Path, str, SplitEntry]], scratch: Path, executor: Executor, meter: Meter
) -> list[Path]:
    """Write the thumbnails of splits (release folder, `config/split`, entry) into .npy files, (rows, 32, 32, 3) each.

    Raises:
        BuildError: a split has no images here, a shard cannot be read, or an image does not decode.
    """
    tasks: list[ThumbnailTask] = []
    files = [scratch / f"{number}.npy" for number in range(len(splits))]
    for path, (root, key, split) in zip(files, splits, strict=True):
        np.lib.format.open_memmap(path, "w+", np.uint8, (split.rows, SIDE, SIDE, 3)).flush()
        tasks += [ThumbnailTask(group, path) for group in row_groups(root, key, split, np.arange(split.rows))]
    meter.step("reading images", sum(split.rows for _, _, split in splits))
    executor.run(tasks, meter.advance)
    return files


def _mapped(path: Path) -> Images:
    array: Images = store_of(path).array(path, mapped=True)
    return array


@dataclass(frozen=True)
class _PreparedIndex:
    """Makes the index of the references in a .npy file, once in each worker."""

    references: Path

    def __call__(self) -> Index:
        return Index(_mapped(self.references))


@dataclass(frozen=True)
class SearchTask:
    """A `builders.executors.base.Task` that searches for the queries `start` to `stop` of a .npy file."""

    queries: Path
    references: Path
    start: int
    stop: int
    resources: ClassVar[Resources] = ONE_CORE

    def run(self, progress: Progress) -> Pairs:
        """Find the pairs; numbers of queries are those in the file."""
        # Each worker has one core: threads of the matrix product would wait for each other.
        with threadpool_limits(1, user_api="blas"):
            index = once_per_worker(_PreparedIndex(self.references))
            queries = _mapped(self.queries)[self.start : self.stop]
            pairs = find_pairs(np.asarray(queries), index, advance=lambda count: progress(count, 0))
        return Pairs(pairs.queries + self.start, pairs.references, pairs.distances)


def find_in_files(queries: Path, references: Path, executor: Executor, meter: Meter) -> Pairs:
    """Find the pairs that `find_pairs` of `builders.duplicates.search` does, with both sets in .npy files."""
    count = len(_mapped(queries))
    starts = range(0, count, _QUERIES)
    tasks = [SearchTask(queries, references, start, min(start + _QUERIES, count)) for start in starts]
    results = [Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))]
    results += executor.run(tasks, meter.advance)
    return Pairs(
        np.concatenate([part.queries for part in results]),
        np.concatenate([part.references for part in results]),
        np.concatenate([part.distances for part in results]),
    )
