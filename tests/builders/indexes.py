"""Indexes of complete sources, for plans as large as the real ones."""

import numpy as np
import pyarrow as pa

from builders.sources.base import PartitionIndex, SourceIndex, partition_table


def made_up(partition, names, codes, ids, own=(), **fields):
    """The partition of a copy without files, from the ids of its images, their classes by number, and own columns."""
    ids = pa.array(ids, pa.string())
    absent = {column.name: pa.repeat(pa.scalar(column.absent, column.arrow), len(ids)) for column in own}
    return PartitionIndex(partition, "made up", "file", partition_table(names, codes, ids, ids, own=absent), **fields)


def named_index(source, images):
    """The index of a copy with the given images: the class of each by its id, for each partition."""
    names = list(source.classes())
    numbers = {name: number for number, name in enumerate(names)}
    partitions = (
        made_up(partition, names, [numbers[class_id] for class_id in of.values()], list(of), source.columns)
        for partition, of in images.items()
    )
    return SourceIndex(source, None, tuple(partitions))


def whole_indexes(benchmark):
    """The indexes of complete copies of all sources of a benchmark, by source key."""
    partitions = {}
    for split in benchmark.parts.values():
        partitions.setdefault(split.source, set()).update(split.partitions)
    return {source.key: whole_index(source, sorted(names)) for source, names in partitions.items()}


def whole_index(source, partitions):
    """The index of a complete copy, by the owner's counts, without one."""
    counts = {}
    for partition in partitions:
        expected = source.expected()[partition]
        counts[partition] = expected.per_class or {next(iter(source.classes())): expected.total}
    return counted_index(source, counts)


def counted_index(source, partitions, **fields):
    """The index of a copy that has so many images of each class of each partition."""
    indexes = []
    for partition, counts in partitions.items():
        codes = np.repeat(np.arange(len(counts)), list(counts.values()))
        ids = [f"{partition}/{number:07d}" for number in range(len(codes))]
        indexes.append(made_up(partition, list(counts), codes, ids, **fields))
    return SourceIndex(source, None, tuple(indexes))


def listed_rows(planned):
    """Source, id, class and label of the rows of a planned split of one source, as `list_text` takes them."""
    columns = (planned.table[name].to_pylist() for name in ("source_id", "class_id", "label"))
    return [(planned.split.source.key, *row) for row in zip(*columns, strict=True)]
