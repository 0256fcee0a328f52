"""Loads the images of a split as 32 x 32 arrays, which the search for near-duplicates compares.

Tested by `tests/builders/audit/test_duplicates.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from builders.duplicates.distance import SIDE, scaled
from builders.executors.base import ONE_CORE, Executor, Meter, Progress, ProgressCounter, Resources
from builders.release import images
from builders.release.reader import RowGroup, row_groups
from builders.release.split_entries import SplitEntry


@dataclass(frozen=True)
class ThumbnailTask:
    """A `builders.executors.base.Task` that writes the thumbnails of a row group into an array on disk.

    Attributes:
        group: the rows.
        array: a .npy file with a place for every row that was asked for (`RowGroup.first`).
    """

    group: RowGroup
    array: Path
    resources: ClassVar[Resources] = ONE_CORE

    def run(self, progress: Progress) -> None:
        """Read, decode, shrink and write the images.

        Raises:
            BuildError: the shard cannot be read, or an image does not decode.
        """
        counted = ProgressCounter(len(self.group.rows), progress)
        pixels = np.empty((len(self.group.rows), SIDE, SIDE, 3), np.uint8)
        thumbnails = self.group.each(lambda data: (len(data), scaled(images.decode(data))))
        for number, (size, thumbnail) in enumerate(thumbnails):
            pixels[number] = thumbnail
            counted.add(size)
        array = np.lib.format.open_memmap(self.array, "r+")
        array[self.group.first : self.group.first + len(pixels)] = pixels
        array.flush()


def write_thumbnails(
    splits: Sequence[tuple[Path, str, SplitEntry]], scratch: Path, executor: Executor, meter: Meter
) -> list[Path]:
    """Write the thumbnails of some splits into .npy files, (rows, 32, 32, 3) each.

    Args:
        splits: the release folder, key (`config/split`) and entry of each.
        scratch: an empty folder for the files.
        executor: runs the tasks.
        meter: shows progress.

    Returns:
        The files, in the order of the splits.

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
