"""Parquet files of Hub mirrors: names, labels and images."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from builders.sources.opening import open_source
from builders.sources.readers import parquet
from builders.sources.registry import SOURCES
from tests.fuzz.target import Target

_FILE = "train-00000-of-00001.parquet"
_METADATA = b'{"info": {"features": {"label": {"names": ["apple_pie", "baby_back_ribs", "baklava"]}}}}'


def mirrors() -> list[bytes]:
    """Small files with every compression and encoding that a mirror may have, and with large bytes."""
    plain = {"use_dictionary": False, "compression": "none"}
    delta = {
        "label": "DELTA_BINARY_PACKED",
        "image.path": "DELTA_BYTE_ARRAY",
        "image.bytes": "DELTA_LENGTH_BYTE_ARRAY",
    }
    options: list[dict[str, object]] = [
        {"compression": "snappy"},
        {"compression": "zstd", "write_page_checksum": True},
        {"compression": "gzip", "data_page_version": "2.0"},
        {"compression": "none", "write_page_index": True},
        {**plain, "column_encoding": delta},
    ]
    return [_file(pa.binary(), **file_options) for file_options in options] + [_file(pa.large_binary())]


def _file(of_bytes: pa.DataType, **options: object) -> bytes:
    content = [bytes([number] * 30) for number in range(12)]
    names = pa.array([f"{number}.jpg" for number in range(12)])
    image = pa.StructArray.from_arrays([pa.array(content, of_bytes), names], ["bytes", "path"])
    table = pa.table({"image": image, "label": [number % 3 for number in range(12)]})
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({b"huggingface": _METADATA}), buffer, row_group_size=5, **options)
    return buffer.getvalue()


def read(folder: Path) -> object:
    """Index the mirror as a build does, and unpack every image."""
    index = open_source(SOURCES["food101"], folder, ("images",))
    rows = np.arange(index.table.num_rows)
    return index.table.to_pylist(), [
        bytes(image) for batch in parquet.unpack_parquet(folder / _FILE, rows) for image in batch
    ]


TARGETS = (Target("parquet-mirror", _FILE, mirrors, read),)
