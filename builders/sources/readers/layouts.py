"""Finds the partitions of a source in the user's folder or below it, by trying its layouts in order.

Archives and mirrors add levels of folders, so a dataset is looked for in the folders below the user's, too.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from builders.errors import NAMED, BuildError, more
from builders.sources.base import OtherDataError, PartitionIndex, Source
from builders.sources.readers.folders import child_names, escape_name, relative
from builders.storage.paths import store_of

DEPTH = 4
"""Levels below the user's folder that are searched. Kaggle's ImageNet has three, `ILSVRC/Data/CLS-LOC`."""

WIDTH = 40
"""A folder with more subfolders than this holds classes rather than datasets, and is not searched."""

FOLDERS = 1000
"""Folders searched before the search ends: the user may have given the root of a disk."""

Finder = Callable[[Path, Path], PartitionIndex | None]
"""Reads the partition from a folder below the user's root; returns None if the folder has not the layout."""


@dataclass(frozen=True)
class CopyLayout:
    """One accepted layout of one partition: a description for messages, and the function that reads it."""

    partition: str
    description: str
    find: Finder


def alike(
    partitions: Sequence[str], *shapes: tuple[str, Callable[[str, Path, Path], PartitionIndex | None]]
) -> tuple[CopyLayout, ...]:
    """Declare layouts that every partition of a source may have, in the order in which they are tried.

    A shape is a description, in which the partition's name replaces `{partition}`, and a function that takes the
    partition before a `Finder`'s arguments.
    """
    return tuple(
        CopyLayout(partition, description.format(partition=partition), functools.partial(find, partition))
        for partition in partitions
        for description, find in shapes
    )


@dataclass(frozen=True)
class Search:
    """A search of the user's folder for a source's layouts, with the same rules and messages for all sources.

    The layouts are looked for in the user's folder and, if it has none of them, in the folders below. Within a folder
    the first layout that fits is used; a partition in two folders is refused.
    """

    layouts: tuple[CopyLayout, ...]

    @property
    def descriptions(self) -> tuple[str, ...]:
        """One line of description for each accepted layout."""
        return tuple(f"{layout.partition}: {layout.description}" for layout in self.layouts)

    def scan(self, source: Source, root: Path, partitions: Sequence[str]) -> list[PartitionIndex]:
        """Return one piece for each requested partition; other partitions are not looked for.

        Raises:
            BuildError: a partition is missing, is there twice, or contradicts itself.
        """
        return [self._find(source, root, partition) for partition in partitions]

    def _find(self, source: Source, root: Path, partition: str) -> PartitionIndex:
        layouts = [layout for layout in self.layouts if layout.partition == partition]
        errors: list[OtherDataError] = []

        def read(home: Path) -> PartitionIndex | None:
            for layout in layouts:
                try:
                    if (piece := layout.find(root, home)) is not None:
                        return piece
                except OtherDataError as error:
                    errors.append(error)
            return None

        matches, skipped = search_below(root, read)
        if len(matches) > 1:
            places = " and ".join(f"{relative(home, root)} ({piece.layout})" for home, piece in matches[:2])
            raise BuildError(
                f"{source.title}: the partition {partition} is in more than one place of {root}: {places}. "
                f"Give one of them with --{source.key}."
            )
        if matches:
            return matches[0][1]
        if errors:
            raise errors[0]
        names = [escape_name(name) for name in child_names(root)]
        unread = f"; not searched: {', '.join(skipped[:NAMED])}{more(skipped)}" if skipped else ""
        raise BuildError(
            f"{source.title}: the partition {partition} ({source.expected()[partition].total:,} images) is not in "
            f"{root}, which holds {', '.join(names[:5]) or 'nothing'}{more(names, 5)}{unread}. Accepted layouts are "
            f"{' or '.join(layout.description for layout in layouts)}. Give the folder that holds it with "
            f"--{source.key}."
        )


def search_below(
    root: Path, read: Callable[[Path], PartitionIndex | None]
) -> tuple[list[tuple[Path, PartitionIndex]], list[str]]:
    """Call `read` on a folder and the folders below it, level by level and by name.

    Folders below one in which something was found belong to it and are not searched. Hidden folders are never
    searched, and links out of `root` are not followed.

    Returns:
        The folders in which something was read, with that, and those that were not searched, with the reason.
    """
    matches: list[tuple[Path, PartitionIndex]] = []
    skipped: list[str] = []
    top = root.resolve()
    seen = {top}
    level, searched = [root], 0
    for depth in range(DEPTH + 1):
        below: list[Path] = []
        for home in level:
            if searched == FOLDERS:
                return matches, [*skipped, f"all after the first {FOLDERS:,} folders"]
            searched += 1
            if (match := read(home)) is not None:
                matches.append((home, match))
            elif depth < DEPTH:
                names = [name for name in store_of(home).folders(home) if not name.startswith(".")]
                for path in (home / name for name in names if len(names) <= WIDTH):
                    if reason := _closed(path, top):
                        skipped.append(f"{escape_name(relative(path, root))} ({reason})")
                    elif (target := path.resolve()) not in seen:
                        seen.add(target)
                        below.append(path)
        level = below
    return matches, skipped


def _closed(path: Path, top: Path) -> str:
    """Return why a folder is not searched; empty if it is."""
    if not path.resolve().is_relative_to(top):
        return "a link to another place"
    if not store_of(path).is_readable(path):
        return "no permission"
    return "" if os.fsencode(path.name).decode("utf-8", "replace") == path.name else "its name is not UTF-8"
