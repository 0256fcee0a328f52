"""Indexes of `doctor --write-index`, which somebody else wrote, compared with a copy of few images."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from builders.doctor.index import _COLUMNS, _KEY, read_index_file
from builders.doctor.lines import differences_csv, kinds_table
from builders.doctor.sides import compare_sides
from tests.fuzz.target import Target

_FILE, _SOUND = "dtd.parquet", "sound.parquet"
_DESCRIBED = b'{"format":1,"source":"dtd","edition":"release 1.0.1 (2014)","by":"bytes"}'
_NAMES = [f"banded/banded_{number:04}.jpg" for number in range(12)]


def _index(described: bytes = _DESCRIBED, **changed: pa.Array) -> bytes:
    columns = {
        "partition": pa.array(["images"] * 12),
        "class_id": pa.array(["banded"] * 12),
        "source_id": pa.array(_NAMES),
        "sha256": pa.array([hashlib.sha256(name.encode()).digest() for name in _NAMES]),
        "width": pa.array([300] * 12),
        "height": pa.array([200] * 12),
        "channels": pa.array([3] * 12),
        "bytes": pa.array([20_000] * 12),
    }
    table = pa.table({name: (columns | changed)[name].cast(kind) for name, kind in _COLUMNS.items()})
    buffer = io.BytesIO()
    encodings = {
        "source_id": "DELTA_BYTE_ARRAY",
        "width": "PLAIN",
        "height": "PLAIN",
        "channels": "PLAIN",
        "bytes": "PLAIN",
    }
    pq.write_table(
        table.replace_schema_metadata({_KEY: described}),
        buffer,
        compression="zstd",
        use_dictionary=["partition", "class_id"],
        column_encoding=encodings,
    )
    return buffer.getvalue()


def _long_text() -> bytes:
    """An index of one text, a megabyte long, in each of 100,000 rows: some kilobytes, and 100 GB in memory."""
    rows = 100_000
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * 1_000_000]))
    zeros = pa.array([0] * rows)
    columns = {"partition": text, "class_id": text, "sha256": pa.array([bytes(32)] * rows), "width": zeros}
    columns |= {"height": zeros, "channels": zeros, "bytes": zeros, "source_id": pa.array(["a"] * rows)}
    table = pa.table({name: columns[name].cast(kind) for name, kind in _COLUMNS.items()})
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({_KEY: _DESCRIBED}), buffer, compression="zstd")
    return buffer.getvalue()


def good() -> list[bytes]:
    """Indexes over bytes and over pixels, of more than one class, and of no row."""
    two = pa.array(["banded", "blotchy"] * 6)
    return [
        _index(),
        _index(_DESCRIBED.replace(b'"bytes"', b'"pixels"')),
        _index(class_id=two, width=pa.array(range(12))),
    ]


def cases() -> dict[str, bytes]:
    """Indexes that say odd things of themselves, and that hold odd values."""
    return {
        "no object": _index(b"[1]"),
        "nested": _index(b'{"format":1,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        "a later format": _index(b'{"format":2}'),
        "a text as format": _index(b'{"format":"1"}'),
        "no source": _index(b'{"format":1,"by":"bytes"}'),
        "controls in the source": _index(_DESCRIBED.replace(b"dtd", b"\\u001b[31m")),
        "ids twice": _index(source_id=pa.array(_NAMES[:6] * 2)),
        "ids that are paths": _index(source_id=pa.array([f"../../{name}" for name in _NAMES])),
        "controls in ids": _index(source_id=pa.array([f"\x1b[31m{name}\n" for name in _NAMES])),
        "no pixels": _index(width=pa.array([-5] * 12), channels=pa.array([-1] * 12)),
        "rows without values": _index(source_id=pa.array([None, *_NAMES[1:]])),
        "a long text": _long_text(),
    }


def read(folder: Path) -> object:
    """Compare the index with a sound one, on either side, and write what differs."""
    side = read_index_file(folder / _FILE)
    sound = read_index_file(folder / _SOUND)
    found = []
    for pair in ((side, sound), (sound, side)):
        equal, differences = compare_sides(*pair)
        found.append((equal, kinds_table(differences), differences_csv(differences)))
    assert all(line.isprintable() for _, lines, _ in found for line in lines)
    return found


TARGETS = (Target("doctor-index", _FILE, good, read, cases, others=lambda: {_SOUND: _index()}),)
