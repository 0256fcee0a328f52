"""A table of rows by image id, stored in files of some hundred rows each, so that a killed run loses little.

Files are complete once they have their names (`atomic_path`), are never written again, and are read as the files of
our own that they are. Each says what its rows are `of`, since a copied one has a name like any other, and has the
XXH3 of each column, which is compared when the column is first read. An image that several splits share is in one of
them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from builders.storage.files import atomic_path
from unknown_detection.evaluation.errors import EvaluationError

_METADATA = b"unknown_detection"
"""Key in a file's schema metadata: what its rows are of, and the environment that they were computed in."""

Columns = Mapping[str, npt.NDArray[Any]]
"""Columns by name, n rows each: vectors of text or numbers, or matrices of float32 or float64."""

Numbers = npt.NDArray[np.int64]
"""Numbers of rows of a split."""


class _Rows(NamedTuple):
    """A file of the table: the split that its rows were computed for, ids, other columns, and in which environment."""

    path: Path
    key: str
    ids: pa.ChunkedArray
    columns: Sequence[str]
    environment: Mapping[str, Any]


class RowTable:
    """Columns of values by row id, stored in the files of a folder.

    A split is named by `config/split`. Each file records its environment as JSON: what results depend on besides the
    model and the image. `of` names the model and the release; files of another model or release are refused.
    """

    def __init__(self, folder: Path, of: str = "") -> None:
        self.folder = folder
        self.of = of
        self._parts: dict[str, _Rows] = {}
        self._checked: set[tuple[Path, str]] = set()

    def has(self, key: str, ids: pa.ChunkedArray, environment: Mapping[str, Any] | None = None) -> npt.NDArray[Any]:
        """Return for each row whether the table has it, shape (n,): from any environment, or from the given one."""
        parts = [part for part in self._of(key) if environment in (None, part.environment)]
        return _find(parts, ids) >= 0

    def left(
        self, key: str, ids: pa.ChunkedArray, size: int, environment: Mapping[str, Any], *, alone: bool = True
    ) -> list[Numbers]:
        """Return which rows of a split must still be computed, cut into parts of at most `size` rows.

        Nothing is left if the table has all rows, from whatever environments. Otherwise all rows of a split are
        computed in one environment, and rows from others do not count: their files are deleted, or refused if this
        process is not `alone`.
        """
        if self.has(key, ids).all():
            return []
        for part in self._of(key):
            if part.key == key and part.environment != environment:
                if not alone:
                    others = differences(part.environment, environment)
                    raise EvaluationError(
                        f"Rows of {key} in {self.folder} were computed with {others}. Let all processes that fill a "
                        "folder use the same device, batch size, threads and versions."
                    )
                part.path.unlink()
        missing = np.flatnonzero(~self.has(key, ids, environment))
        return np.split(missing, np.flatnonzero(np.diff(missing // size)) + 1) if len(missing) else []

    def path(self, key: str, first: int, ids: pa.ChunkedArray) -> Path:
        """Return the file for a part of a split; `first` is the number of the part's first row."""
        digest = hashlib.sha256("\n".join(ids.to_pylist()).encode()).hexdigest()
        return self.folder / f"{key.replace('/', '.')}.{first:09d}-{digest[:12]}.arrow"

    def write(
        self, key: str, first: int, ids: pa.ChunkedArray, columns: Columns, environment: Mapping[str, Any]
    ) -> None:
        """Write a part; equal arguments produce equal bytes."""
        about = {"split": key, "environment": dict(environment)}
        write_columns(self.path(key, first, ids), {"id": ids, **columns}, self.of, **about)

    def read(self, key: str, ids: pa.ChunkedArray, names: Sequence[str] | None = None) -> dict[str, npt.NDArray[Any]]:
        """Read columns of the rows with these ids, in the order of the ids; `EvaluationError` if a row is missing."""
        parts = self._of(key)
        rows = _find(parts, ids)
        if (rows < 0).any():
            raise EvaluationError(
                f"{self.folder} lacks {int((rows < 0).sum()):,} of the {len(ids):,} rows of {key}. Run the command "
                "that wrote it again; it resumes."
            )
        starts = np.cumsum([0, *(len(part.ids) for part in parts)])
        files = np.searchsorted(starts, rows, side="right") - 1
        read: dict[str, npt.NDArray[Any]] = {}
        for file in np.unique(files).tolist():
            here, path = np.flatnonzero(files == file), parts[file].path
            columns = names or parts[file].columns
            table = read_columns(path, self.of, [name for name in columns if (path, name) not in self._checked])
            self._checked |= {(path, name) for name in columns}
            chosen = table.select(columns).take(rows[here] - starts[file])
            for name in chosen.column_names:
                values = to_numpy(chosen[name])
                if name not in read:
                    read[name] = np.empty((len(ids), *values.shape[1:]), values.dtype)
                read[name][here] = values
        return read

    def environments(self, key: str, ids: pa.ChunkedArray) -> list[Mapping[str, Any]]:
        """Return the distinct environments in which rows of a split were computed."""
        parts = self._of(key)
        ends = np.cumsum([len(part.ids) for part in parts])
        used = np.unique(np.searchsorted(ends, _find(parts, ids), side="right")).tolist()
        return [json.loads(text) for text in dict.fromkeys(json.dumps(parts[file].environment) for file in used)]

    def _of(self, key: str) -> list[_Rows]:
        """Return the files by name, those that were computed for a split first: of several values the first counts."""
        names = sorted(path.name for path in self.folder.glob("[!.]*.arrow"))
        self._parts = {name: self._parts.get(name) or self._open(name) for name in names}
        return sorted(self._parts.values(), key=lambda part: part.key != key)

    def _open(self, name: str) -> _Rows:
        table = read_columns(self.folder / name, self.of, ["id"])
        about = _about(table)
        if "environment" not in about:  # the index of a split has a name and a digest like any other
            raise _damaged(self.folder / name)
        return _Rows(self.folder / name, about["split"], table["id"], table.column_names[1:], about["environment"])


def block_column(number: int) -> str:
    """Return the column of a block, counted from 0."""
    return f"block_{number:02d}"


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """Name how an environment differs from the expected one, as in `batch_size 32 instead of 64`."""
    return ", ".join(
        f"{name} {found.get(name)} instead of {expected.get(name)}"
        for name in sorted({*found, *expected})
        if found.get(name) != expected.get(name)
    )


def write_columns(path: Path, columns: Mapping[str, Any], of: str, **about: Any) -> None:
    """Write columns to an Arrow file that records what they belong to; equal arguments produce equal bytes."""
    arrays = dict(columns)
    for name, values in columns.items():
        if isinstance(values, np.ndarray):
            arrays[name] = pa.array(np.ascontiguousarray(values).reshape(-1))
            if values.ndim > 1:
                arrays[name] = pa.FixedSizeListArray.from_arrays(arrays[name], values.shape[1])
    table = pa.table(arrays).combine_chunks()
    checksums = {name: _checksum(table[name]) for name in table.column_names}
    described = json.dumps({"of": of, "checksums": checksums, **about}, sort_keys=True)
    table = table.replace_schema_metadata({_METADATA: f"{xxhash.xxh3_64_hexdigest(described.encode())} {described}"})
    with atomic_path(path) as temporary, pa.ipc.new_file(str(temporary), table.schema) as writer:
        writer.write_table(table)


def read_columns(path: Path, of: str, compared: Sequence[str] | None = None, *, split: str = "") -> pa.Table:
    """Map an Arrow file into memory; `EvaluationError` if it is damaged, or belongs to another model or release.

    Of the columns those to be read are `compared` with their checksums, None for all. `split` is the one that the file
    is of, where that is not to be learned from it; files of earlier versions do not say it.
    """
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        about = _about(table)
        checksums, names = about["checksums"], table.column_names
        compared = names if compared is None else compared
        if {*names} != {*checksums} or any(_checksum(table[name]) != checksums[name] for name in compared):
            raise ValueError("other columns or values")
        if split and about.get("split", split) != split:
            raise ValueError("another split")
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise _damaged(path) from error
    if about["of"] != of:
        raise EvaluationError(
            f"{path} is of another model or release than its folder. Delete it, and run the command that wrote the "
            "folder again: it resumes."
        )
    return table


def _damaged(path: Path) -> EvaluationError:
    return EvaluationError(f"{path} is damaged. Delete it, and run the command that wrote it again: it resumes.")


def _about(table: pa.Table) -> dict[str, Any]:
    """Return what a file says of its rows."""
    checksum, _, described = (table.schema.metadata or {})[_METADATA].partition(b" ")
    if xxhash.xxh3_64_hexdigest(described) != checksum.decode():
        raise ValueError(described)
    said: dict[str, Any] = json.loads(described)
    return said


def _checksum(column: pa.ChunkedArray) -> str:
    """Return the XXH3 of a column's type, length and values."""
    values = column.combine_chunks()
    checksum = xxhash.xxh3_64(f"{values.type} {len(values)} {values.null_count}".encode())
    if not pa.types.is_string(values.type):
        checksum.update(to_numpy(column).data)
    elif len(values):
        _, starts, texts = values.buffers()
        offsets = np.frombuffer(starts, np.int32)[values.offset : values.offset + len(values) + 1]
        checksum.update(offsets - offsets[0])
        checksum.update(memoryview(texts)[offsets[0] : offsets[-1]])
    return checksum.hexdigest()


def to_numpy(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return a column's values as an array."""
    values = column.combine_chunks()
    if pa.types.is_fixed_size_list(values.type):
        return np.asarray(values.flatten().to_numpy()).reshape(len(values), values.type.list_size)
    if pa.types.is_string(values.type):
        return np.array(values.to_pylist(), dtype=np.str_)
    return np.asarray(values.to_numpy())


def _find(parts: Iterable[_Rows], ids: pa.ChunkedArray) -> Numbers:
    """Return each row's place among those of all parts, one after another, shape (n,); -1 for none."""
    known = pa.chunked_array([chunk for part in parts for chunk in part.ids.chunks], pa.string())
    places = pc.index_in(ids, value_set=known.combine_chunks())
    return np.asarray(pc.fill_null(places, -1).to_numpy(), dtype=np.int64)
