"""Finds the partitions of a source in the user's folder or below it, trying the source's layouts in order.

Archives and mirrors add levels of folders, so a dataset is looked for in the folders below the user's, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from builders.errors import BuildError
from builders.sources.base import AbsentPartitionError, Home, OtherDataError, PartitionIndex, Source
from builders.sources.readers.folders import child_names, escape_name, is_hidden, relative
from builders.storage.folders import folders_in, is_readable
from unknown_detection.words import first_few

DEPTH = 4
"""Levels below the user's folder that are searched. Kaggle's ImageNet has three, `ILSVRC/Data/CLS-LOC`."""

WIDTH = 40
"""A folder with more subfolders than this holds classes rather than datasets, and is not searched."""

FOLDERS = 1000
"""Folders searched before the search ends: the user may have given the root of a disk."""


def find_partition(source: Source, root: Path, partition: str) -> PartitionIndex:
    """Find a partition in the user's folder or, if it is not there, in a folder below.

    Within a folder the first layout that fits is used.

    Raises:
        AbsentPartitionError: the partition is missing.
        BuildError: it is there twice, or contradicts itself.
    """
    layouts = source.layouts_of(partition)
    errors: list[OtherDataError] = []

    def read(folder: Path) -> PartitionIndex | None:
        for layout in layouts:
            try:
                if (found := layout.find(Home(source, root, folder, partition))) is not None:
                    return found
            except OtherDataError as error:
                errors.append(error)
        return None

    matches, skipped = search_below(root, read)
    if len(matches) > 1:
        places = " and ".join(f"{relative(folder, root)} ({found.layout})" for folder, found in matches[:2])
        raise BuildError(
            f"{source.title}: the partition {partition} is in more than one place of {root}: {places}. "
            f"Give one of them with --{source.key}."
        )
    if matches:
        return matches[0][1]
    if errors:
        raise errors[0]
    names = [escape_name(name) for name in child_names(root)]
    unread = f"; not searched: {first_few(skipped)}" if skipped else ""
    accepted = " or ".join(layout.description.format(partition=partition) for layout in layouts)
    raise AbsentPartitionError(
        f"{source.title}: the partition {partition} ({source.expected()[partition].total:,} images) is not in {root}, "
        f"which holds {first_few(names, 5) or 'nothing'}{unread}. Accepted layouts are {accepted}. "
        f"Give the folder that holds it with --{source.key}."
    )


def search_below(
    root: Path, read: Callable[[Path], PartitionIndex | None]
) -> tuple[list[tuple[Path, PartitionIndex]], list[str]]:
    """Call `read` on a folder and on the folders below it, level by level and sorted by name.

    Folders below one in which something was found belong to it and are not searched. Hidden folders are never
    searched, and links out of `root` are not followed. Returns the folders in which something was read, with that,
    and those that were not searched, with the reason.
    """
    matches: list[tuple[Path, PartitionIndex]] = []
    skipped: list[str] = []
    top = root.resolve()
    seen = {top}
    level, searched = [(root, top)], 0
    for depth in range(DEPTH + 1):
        below: list[tuple[Path, Path]] = []
        for folder, real in level:
            if searched == FOLDERS:
                return matches, [*skipped, f"all after the first {FOLDERS:,} folders"]
            searched += 1
            if (match := read(folder)) is not None:
                matches.append((folder, match))
            elif depth < DEPTH:
                names = [name for name in folders_in(folder) if not is_hidden(name)]
                for path in (folder / name for name in names if len(names) <= WIDTH):
                    # What is no link is where its folder is: to resolve looks at each folder of a path.
                    target = path.resolve() if path.is_symlink() else real / path.name
                    if reason := _closed(path, target, top):
                        skipped.append(f"{escape_name(relative(path, root))} ({reason})")
                    elif target not in seen:
                        seen.add(target)
                        below.append((path, target))
        level = below
    return matches, skipped


def _closed(path: Path, target: Path, top: Path) -> str:
    """Return why a folder, which really is `target`, is not searched; empty if it is."""
    if not target.is_relative_to(top):
        return "a link to another place"
    if not is_readable(path):
        return "no permission"
    return "" if os.fsencode(path.name).decode("utf-8", "replace") == path.name else "its name is not UTF-8"
