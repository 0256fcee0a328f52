"""Stores columns of rows in files of one block each, so that a killed run loses little.

Files are complete once they have their names (`atomic_path`), and are read as the files of our own that they are.

Tested by `tests/evaluation/features/test_store.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.storage.files import atomic_path
from unknown_detection.evaluation.errors import EvaluationError

METADATA = b"unknown_detection"
"""Key in a file's schema metadata that holds the total number of rows and the environment they were computed in."""

_NAME = re.compile(r"(\d{9})-(\d{9})\.arrow")

Columns = Mapping[str, npt.NDArray[Any]]
"""Columns by name, n rows each: vectors of text or numbers, or matrices of float32 or float64."""


class RowBlocks:
    """Columns of n rows in a folder of their own, one file per block of consecutive rows.

    One process writes at a time. The environment is what results depend on besides the model and the image, as JSON.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, rows: int, size: int, environment: Mapping[str, Any]) -> list[range]:
        """Return the blocks of `size` rows left to compute, each as a range of row numbers, in order.

        Nothing is left if all rows exist, whatever their environment. Otherwise blocks of another size or environment
        are deleted, so that all rows are computed in one, as are files that a killed run did not finish.
        """
        if self._tiles(rows):
            return []
        blocks = {_name(block): block for block in (range(n, min(n + size, rows)) for n in range(0, rows, size))}
        expected = _metadata(rows, environment)
        for path in sorted(self.folder.glob("*")):
            if path.name not in blocks or _read(path).schema.metadata[METADATA] != expected:
                path.unlink()
        return [block for block in blocks.values() if not self.has(block)]

    def write(self, block: range, columns: Columns, rows: int, environment: Mapping[str, Any]) -> None:
        """Write one block; equal arguments produce equal bytes."""
        arrays = {name: pa.array(np.ascontiguousarray(values).reshape(-1)) for name, values in columns.items()}
        for name, values in columns.items():
            if values.ndim > 1:
                arrays[name] = pa.FixedSizeListArray.from_arrays(arrays[name], values.shape[1])
        table = pa.table(arrays)
        table = table.replace_schema_metadata({METADATA: _metadata(rows, environment)})
        with (
            atomic_path(self.folder / _name(block)) as temporary,
            pa.ipc.new_file(str(temporary), table.schema) as writer,
        ):
            writer.write_table(table)

    def has(self, block: range) -> bool:
        """Return whether a block was written; after `begin`, only those of its size and environment were."""
        return (self.folder / _name(block)).exists()

    def is_whole(self) -> bool:
        """Return whether there are files of all rows."""
        return bool(self.paths()) and self._tiles(self._first_metadata()["rows"])

    def environment(self) -> Mapping[str, Any]:
        """Return the environment in which the first block was computed."""
        return dict(self._first_metadata()["computed"])

    def read(self, names: Sequence[str] | None = None) -> dict[str, npt.NDArray[Any]]:
        """Read columns of all rows, in order; `EvaluationError` if rows are missing."""
        if not self.is_whole():
            raise EvaluationError(
                f"{self.folder} is incomplete: it has only {len(self.paths()):,} blocks of its rows. Run the command "
                "that wrote them again; it resumes."
            )
        blocks = [_read(path) for path in self.paths()]
        columns = blocks[0].column_names if names is None else names
        return {name: np.concatenate([_to_numpy(block[name]) for block in blocks]) for name in columns}

    def paths(self) -> list[Path]:
        """Return the files of the blocks that exist, in order."""
        return sorted(path for path in self.folder.glob("*.arrow") if _NAME.fullmatch(path.name))

    def _first_metadata(self) -> dict[str, Any]:
        return dict(json.loads(_read(self.paths()[0]).schema.metadata[METADATA]))

    def _tiles(self, rows: int) -> bool:
        """Return whether the blocks cover all rows without gaps."""
        ends = [0, *(_range(path).stop for path in self.paths())]
        return ends[-1] == rows and [_range(path).start for path in self.paths()] == ends[:-1]


class ReusableFeatures:
    """Features that other splits of the same model have already of a split's rows, by their ids.

    An id stands for one image in the whole release. Incomplete splits, and those computed in another environment, are
    not used; if several have an image, the first is. `has` says of each row whether its features exist, shape (n,).
    """

    def __init__(self, ids: Sequence[str], other_splits: Iterable[RowBlocks], environment: Mapping[str, Any]) -> None:
        used = [split for split in other_splits if split.is_whole() and split.environment() == environment]
        known = [id_ for split in used for id_ in split.read(("id",))["id"].tolist()]
        self._paths = [path for split in used for path in split.paths()]
        self._starts = np.cumsum([0, *(len(_range(path)) for path in self._paths)])
        positions = pc.index_in(pa.array(ids, pa.string()), value_set=pa.array(known, pa.string()))
        self._row: npt.NDArray[np.int64] = pc.fill_null(positions, -1).to_numpy().astype(np.int64)
        self.has: npt.NDArray[np.bool_] = self._row >= 0

    def take(self, numbers: npt.NDArray[np.int64]) -> Columns:
        """Read the existing features of at least one row, without `id` and `label`."""
        rows = self._row[numbers]
        files = np.searchsorted(self._starts, rows, side="right") - 1
        inverse = np.argsort(np.argsort(files, kind="stable"))
        parts = [
            _read(self._paths[file]).drop_columns(["id", "label"]).take(rows[files == file] - self._starts[file])
            for file in np.unique(files).tolist()
        ]
        return {
            name: np.concatenate([_to_numpy(part[name]) for part in parts])[inverse] for name in parts[0].column_names
        }


def _name(block: range) -> str:
    return f"{block.start:09d}-{block.stop:09d}.arrow"


def _range(path: Path) -> range:
    start, stop = (int(number) for number in path.stem.split("-"))
    return range(start, stop)


def _metadata(rows: int, environment: Mapping[str, Any]) -> bytes:
    return json.dumps({"rows": rows, "computed": dict(environment)}, sort_keys=True).encode()


def _read(path: Path) -> pa.Table:
    """Map a block into memory."""
    try:
        return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except (pa.ArrowException, OSError) as error:
        raise EvaluationError(
            f"{path} is damaged. Delete it, and run the command that wrote it again: it resumes."
        ) from error


def _to_numpy(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    values = column.combine_chunks()
    if pa.types.is_fixed_size_list(values.type):
        return np.asarray(values.flatten().to_numpy()).reshape(len(values), values.type.list_size)
    if pa.types.is_string(values.type):
        return np.array(values.to_pylist(), dtype=np.str_)
    return np.asarray(values.to_numpy())
