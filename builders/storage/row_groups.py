"""Reads the metadata of row groups in Parquet files that somebody else wrote."""

from __future__ import annotations

import pyarrow.parquet as pq


def row_group(parquet: pq.ParquetFile, group: int) -> pq.RowGroupMetaData:
    """Return the metadata of a row group whose columns can be asked for.

    `RowGroupMetaData.column` of pyarrow 26 ends the process with SIGABRT where a column's metadata contradict the
    schema. Reading a row runs into the same contradiction, and raises.

    Raises:
        OSError, pa.ArrowException: a column's metadata are wrong, or its first page cannot be read.
    """
    next(parquet.iter_batches(batch_size=1, row_groups=[group]), None)
    return parquet.metadata.row_group(group)
