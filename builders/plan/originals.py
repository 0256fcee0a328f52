"""Relates images to the originals in another source that they are made of, such as published adversarial images.

Tested by `tests/builders/broad/test_adopted.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from builders.declare.benchmark import Originals
from builders.declare.quotas import Rows
from builders.errors import BuildError
from builders.sources.base import SourceIndex

ORIGINAL_ID = "original_id"
"""The column of an index with the ids of the images that its images are made of."""


def original_ids(index: SourceIndex, partitions: Sequence[str]) -> pa.Array:
    """Return the sorted ids of the originals of some partitions, each once."""
    ids = index.take([ORIGINAL_ID], index.rows_of(partitions))[ORIGINAL_ID].combine_chunks().unique()
    return ids.take(pc.array_sort_indices(ids))


def companion_rows(index: SourceIndex, partition: str, source_ids: pa.ChunkedArray) -> Rows:
    """Return the rows of a partition's images that are made of the given originals, in their order.

    Raises:
        BuildError: it has none that is made of one of them.
    """
    number = [piece.partition for piece in index.pieces].index(partition)
    positions = pc.index_in(source_ids, value_set=index.pieces[number].table[ORIGINAL_ID].combine_chunks())
    if positions.null_count:
        missing = source_ids.filter(pc.is_null(positions))
        raise BuildError(
            f"{index.source.title} in {index.root} has no image in {partition} that is made of {missing[0]}, nor of "
            f"{len(missing) - 1:,} others. Give the edition that the publisher used ({index.source.edition})."
        )
    rows: Rows = positions.to_numpy().astype("int64") + index.starts[number]
    return rows


def missing_originals(quota: Originals, derived: SourceIndex, source: SourceIndex) -> str:
    """Say which originals a source lacks, as a sentence without a full stop; empty if it has all."""
    originals = original_ids(derived, quota.partitions)
    missing = originals.filter(pc.is_null(source.find(originals)))
    if not len(missing):
        return ""
    return (
        f"{source.source.title} lacks {len(missing):,} of the {len(originals):,} images from which "
        f"{quota.of.title} has images in {', '.join(quota.partitions)}, such as {missing[0]}"
    )


def shared_originals(quota: Originals, derived: SourceIndex) -> str:
    """Say whether some partitions share their originals."""
    sets = {name: set(original_ids(derived, [name]).to_pylist()) for name in quota.partitions}
    originals, common = set.union(*sets.values()), set.intersection(*sets.values())
    if originals == common:
        return f"all {len(sets)} partitions share the same {len(originals):,} originals"
    counts = ", ".join(f"{name} {len(ids):,}" for name, ids in sets.items())
    return f"the partitions do not share all originals: {len(originals):,} in total, {len(common):,} in all ({counts})"
