"""Tables that a build keeps for its later runs, each with a seal that tells whether it is still as it was written.

What they say goes into the release, whose digests are made from them: nothing else would notice that one changed on
the disk, or lies under the name of another. Such a table is as good as none.

Tested by `tests/builders/storage/test_kept_tables.py`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from builders.errors import BuildError
from builders.storage.files import atomic_path
from builders.storage.parquet import UNREADABLE, read_parquet

_SEAL = b"seal"


def write_kept(path: Path, table: pa.Table) -> None:
    """Write a table of strings, numbers and truth values, with its metadata; it is complete once it is there."""
    sealed = table.replace_schema_metadata({**(table.schema.metadata or {}), _SEAL: _seal(path, table)})
    with atomic_path(path) as temporary:
        pq.write_table(sealed, temporary, compression="zstd")


def find_kept(path: Path) -> pa.Table | None:
    """Read a table that `write_kept` wrote; None if it is not there, or not as it was written."""
    if not path.is_file():
        return None
    try:
        table = read_parquet(path)
        table.validate(full=True)
        return table if (table.schema.metadata or {}).get(_SEAL) == _seal(path, table) else None
    except UNREADABLE:
        return None


def read_kept(path: Path) -> pa.Table:
    """Read a table that this run has written, or found whole."""
    if (table := find_kept(path)) is None:
        raise changed_meanwhile(path)
    return table


def changed_meanwhile(path: Path) -> BuildError:
    """Return the error of a table that was whole when the run looked for it."""
    return BuildError(f"{path} was changed while the build ran. Give the same command again, which makes it anew.")


def _seal(path: Path, table: pa.Table) -> bytes:
    """Return SHA-256 over the file's name, the metadata, and the names, types and cells of all columns."""
    digest = hashlib.sha256(path.name.encode())
    for key, value in sorted((table.schema.metadata or {}).items()):
        digest.update(b"" if key == _SEAL else b"\n%b %b" % (key, value))
    for name in table.column_names:
        digest.update(f"\n{name} {table[name].type}\n".encode())
        cells = pc.fill_null(table[name].cast(pa.large_string()), "\0").combine_chunks()
        _, ends, text = cells.buffers()
        if len(cells):
            offsets = np.frombuffer(ends, np.int64)[cells.offset : cells.offset + len(cells) + 1]
            digest.update((offsets - offsets[0]).tobytes())
            digest.update(memoryview(text or b"")[offsets[0] : offsets[-1]])
    return digest.hexdigest().encode()
