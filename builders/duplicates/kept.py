"""Finds the pixels that builds keep of a release's splits, and reads those of its shards where none are kept.

Tested by `tests/builders/duplicates/test_table_of_pixels.py`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from builders.duplicates.distance import scaled
from builders.duplicates.exact import index_digests
from builders.duplicates.pixels import Pixels, is_of, pixel_writer, sealed_rows
from builders.executors.base import ONE_CORE, Progress, Resources
from builders.release import images
from builders.release.entries import SplitEntry
from builders.release.layout import PIXELS, Layout
from builders.release.reader import RowGroup, row_groups


def kept_pixels(layout: Layout, key: str, entry: SplitEntry) -> Pixels | None:
    """Return the images of a split (`config/split`) as they are compared, None if they are not all kept.

    An index-only release does not say into how many shards its build had cut a split, nor whether another build cut
    it otherwise. The seals do: those files are taken that are of the rows.
    """
    digests = _digests(layout, entry)
    for paths in _cuts(layout, key):
        rows = [sealed_rows(path) or 0 for path in paths]
        starts = itertools.accumulate(rows[:-1], initial=0)
        if sum(rows) == entry.rows and all(
            is_of(path, digests.slice(start, count).to_pylist())
            for path, start, count in zip(paths, starts, rows, strict=True)
        ):
            return Pixels(tuple((path, 0, count) for path, count in zip(paths, rows, strict=True)))
    return None


@dataclass(frozen=True)
class PixelTask:
    """A `builders.executors.base.Task` that reads the images of a shard and keeps them as they are compared.

    `groups` are the shard's row groups, and its rows in `index` begin at `start`.
    """

    groups: tuple[RowGroup, ...]
    index: Path
    start: int
    target: Path
    resources: ClassVar[Resources] = ONE_CORE

    def run(self, progress: Progress) -> None:
        """Read, decode, shrink and write the images; raises `UndecodableError` for one that does not decode."""
        rows = sum(len(group.rows) for group in self.groups)
        digests = index_digests(self.index).slice(self.start, rows).to_pylist()
        found = (
            image
            for group in self.groups
            for image in group.each(lambda data: (len(data), scaled(images.decode(data).convert("RGB"))))
        )
        with pixel_writer(self.target) as writer:
            for digest, (size, small) in zip(digests, found, strict=True):
                writer.add(small, digest)
                progress(1, size)


def pixel_tasks(layout: Layout, key: str, entry: SplitEntry) -> list[PixelTask]:
    """Return the tasks after which the images of a split that has shards are kept."""
    of_shard = itertools.groupby(row_groups(layout.root, key, entry, np.arange(entry.rows)), lambda group: group.path)
    groups = {path: tuple(of_path) for path, of_path in of_shard}
    tasks, start, digests = [], 0, _digests(layout, entry)
    for number, file in enumerate(entry.data):
        of_file = groups.get(layout.root / file.path, ())
        rows = sum(len(group.rows) for group in of_file)
        target = layout.pixels(key, number, len(entry.data))
        if not is_of(target, digests.slice(start, rows).to_pylist()):
            tasks.append(PixelTask(of_file, layout.root / entry.index.path, start, target))
        start += rows
    return tasks


def _digests(layout: Layout, entry: SplitEntry) -> pa.ChunkedArray:
    return index_digests(layout.root / entry.index.path)


def _cuts(layout: Layout, key: str) -> list[list[Path]]:
    """Return the files that builds kept of a split, a list for each number of shards, in the order of the shards."""
    config, _, name = key.partition("/")
    paths = layout.inside(f"{PIXELS}/{config}").glob(f"{name}-?????-of-?????.rgb")
    by_cut = sorted((path.stem[-5:], path) for path in paths)
    return [[path for _, path in cut] for _, cut in itertools.groupby(by_cut, lambda of: of[0])]
