"""Opens a copy of a source: finds its partitions in a folder, and joins them to one index.

Tested by `tests/builders/sources/test_errors.py` and `tests/builders/sources/test_repeated.py`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.sources.base import PartitionIndex, Source, SourceIndex
from builders.sources.readers.layouts import find_partition
from builders.storage.folders import cached_listings
from builders.storage.parquet import LARGE, spilled

_IN_MEMORY = 1 << 28
"""Bytes of a source's index that stay in memory (ours); more is spilled. ImageNet's takes half of it; writing it would
take a fifth of the time in which all of ImageNet is planned."""

_BLOCK = 1 << 16
"""Texts that are Python's at a time (ours): of ten million at once, 900 MB would be."""


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
