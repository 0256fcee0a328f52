"""Opens a copy of a source: finds its partitions in the user's folder or below it, and joins them to one index.

The source's layouts are tried in order. Archives and mirrors add levels of folders, so a dataset is looked for in the
folders below the user's, too.

Tested by `tests/builders/sources/test_opening.py`, `test_errors.py` and `test_repeated.py`.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.sources.base import AbsentPartitionError, Home, OtherDataError, PartitionIndex, Source, SourceIndex
from builders.sources.readers.folders import child_names, escape_name, is_hidden, relative
from builders.storage.folders import cached_listings, folders_in, is_readable
from builders.storage.parquet import LARGE, spilled
from unknown_detection.words import first_few

DEPTH = 4
"""Levels below the user's folder that are searched. Kaggle's ImageNet has three, `ILSVRC/Data/CLS-LOC`."""

WIDTH = 40
"""A folder with more subfolders than this holds classes rather than datasets, and is not searched."""

FOLDERS = 1000
"""Folders searched before the search ends: the user may have given the root of a disk."""

_IN_MEMORY = 1 << 28
"""Bytes of a source's index that stay in memory (ours); more is spilled. ImageNet's takes half of it; writing it would
take a fifth of the time in which all of ImageNet is planned."""

_BLOCK = 1 << 16
"""Texts that are Python's at a time (ours): of ten million at once, 900 MB would be."""


def open_source(source: Source, root: Path, partitions: Sequence[str]) -> SourceIndex:
    """Index the given partitions (keys of `source.expected()`) of a source in the folder that the user gave.

    Raises:
        BuildError: `root` is not a folder, holds no known layout of a partition, or has an image twice.
    """
    with cached_listings(root):
        if source.on_disk and not root.is_dir():
            raise BuildError(f"{source.title}: there is no folder {root}. Give the right one with --{source.key}.")
        found, in_memory = [], 0
        for partition in scan(source, root, partitions):
            table = spilled([partition.table.unify_dictionaries()], max(_IN_MEMORY - in_memory, LARGE))
            found.append(dataclasses.replace(partition, table=table))
            in_memory += table.nbytes
        index = SourceIndex(source, root, tuple(found))
    source_id = repeated_text([partition.table["source_id"] for partition in index.partitions])
    if source_id is not None:
        duplicates = index.table.filter(pc.equal(index.table["source_id"], source_id))
        places = " and ".join(duplicates["file"][:2].to_pylist())
        raise BuildError(f"{source.title}: {root} has the image {source_id} twice ({places}). Remove one of the two.")
    return index


def scan(source: Source, root: Path, partitions: Sequence[str]) -> list[PartitionIndex]:
    """Find and index the requested partitions of a source; does not look for others.

    Raises:
        BuildError: one is missing, or they are of different editions.
    """
    found = [find_partition(source, root, name) for name in partitions]
    if len({partition.edition for partition in found}) > 1:
        layouts = " and ".join(f"{partition.name} as {partition.layout}" for partition in found)
        raise BuildError(
            f"{source.title}: {root} has its partitions in different editions: {layouts}. Add the missing "
            "part of one of the two editions."
        )
    return found


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


def repeated_text(columns: Sequence[pa.ChunkedArray]) -> str | None:
    """Return the least text that occurs twice in some columns taken together; None if none does.

    Columns whose texts ascend from chunk to chunk have none twice, which is so for most sources. Others are compared
    by 64-bit hashes, 8 bytes a row, where Arrow's distinct count would take 500.
    """
    chunks = sorted((chunk for column in columns for chunk in column.chunks if len(chunk)), key=lambda c: c[0].as_py())
    if all(a[-1].as_py() < b[0].as_py() for a, b in itertools.pairwise(chunks)) and all(
        pc.all(pc.less(chunk[:-1], chunk[1:]), min_count=0).as_py() for chunk in chunks
    ):
        return None
    texts = pa.chunked_array(chunks, pa.string())
    blocks = (texts.slice(start, _BLOCK).to_pylist() for start in range(0, len(texts), _BLOCK))
    hashes = np.sort(np.concatenate([np.array(list(map(hash, block)), np.int64) for block in blocks]))
    if not (hashes[1:] == hashes[:-1]).any():
        return None
    counts = pc.value_counts(texts)
    repeated: str | None = pc.min(counts.field("values").filter(pc.greater(counts.field("counts"), 1))).as_py()
    return repeated  # None where two texts share a hash
