"""Indexes of complete sources, for plans as large as the real ones."""

import numpy as np
import pyarrow as pa

from builders.sources.base import PARTITION_SCHEMA, PartitionIndex, SourceIndex


def named_index(source, images):
    """The index of a copy with the given images: the class of each by its id, for each partition."""
    pieces = []
    for partition, of in images.items():
        names = list(source.classes())
        numbers = {name: number for number, name in enumerate(names)}
        ids = pa.array(list(of), pa.string())
        codes = pa.array([numbers[class_id] for class_id in of.values()], pa.int32())
        column = pa.DictionaryArray.from_arrays(codes, pa.array(names))
        zeros = pa.repeat(pa.scalar(0, pa.int64()), len(ids))
        table = pa.Table.from_arrays([column, ids, ids, zeros, zeros], schema=PARTITION_SCHEMA)
        for own in source.columns:
            table = table.append_column(own.name, pa.repeat(pa.scalar(own.absent, own.arrow), len(ids)))
        pieces.append(PartitionIndex(partition, "", "file", table))
    return SourceIndex(source, None, tuple(pieces))


def whole_indexes(benchmark):
    """The indexes of complete copies of all sources of a benchmark, by source key."""
    partitions = {}
    for _, split in benchmark.units.values():
        partitions.setdefault(split.source, set()).update(split.partitions)
    return {source.key: whole_index(source, sorted(names)) for source, names in partitions.items()}


def whole_index(source, partitions):
    """The index of a complete copy, by the owner's counts, without one."""
    pieces = []
    for partition in partitions:
        expected = source.expected()[partition]
        counts = expected.per_class or {next(iter(source.classes())): expected.total}
        names = list(source.classes())
        codes = np.repeat([names.index(name) for name in counts], list(counts.values()))
        ids = pa.array([f"{partition}/{number:07d}" for number in range(len(codes))])
        column = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(names))
        zeros = pa.repeat(pa.scalar(0, pa.int64()), len(codes))
        table = pa.Table.from_arrays([column, ids, ids, zeros, zeros], schema=PARTITION_SCHEMA)
        pieces.append(PartitionIndex(partition, "", "file", table))
    return SourceIndex(source, None, tuple(pieces))
