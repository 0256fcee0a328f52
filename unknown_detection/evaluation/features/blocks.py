"""Stores columns of many rows as files with a block of rows each, so that a killed run loses little.

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

from unknown_detection.evaluation.errors import EvaluationError, first_line
from unknown_detection.evaluation.files import atomic_path

METADATA = b"unknown_detection"
"""Key in a file's schema metadata that holds the total number of rows and the environment they were computed in."""

_NAME = re.compile(r"(\d{9})-(\d{9})\.arrow")

Arrays = Mapping[str, npt.NDArray[Any]]
"""Columns by name, n rows each: vectors of text or numbers, or matrices of float32 or float64."""


class RowBlocks:
    """Columns of n rows in a folder, one file per block of consecutive rows. One process writes at a time.

    Args:
        folder: has no other files; need not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, rows: int, size: int, environment: Mapping[str, Any]) -> list[range]:
        """Return the blocks left to compute, so that all rows are computed in the same environment.

        Nothing is left if all rows exist, whatever their environment. Otherwise damaged
        blocks and those of another size or environment are deleted, as are files that a killed run did not finish.

        Args:
            rows: total number of rows.
            size: rows of every block but the last.
            environment: the environment that results depend on besides the model and the image, as JSON values.

        Returns:
            Row numbers of each missing block, in order.
        """
        if self._tiles(rows) and self.is_sound():
            return []
        wanted = {_name(block): block for block in (range(n, min(n + size, rows)) for n in range(0, rows, size))}
        expected = {"rows": rows, "computed": dict(environment)}
        for path in sorted(self.folder.glob("*")):
            if path.name not in wanted or not _is_sound(path) or _told(path) != expected:
                path.unlink()
        return [block for block in wanted.values() if not self.has(block)]

    def write(self, block: range, columns: Arrays, rows: int, environment: Mapping[str, Any]) -> None:
        """Write one block; equal arguments produce equal bytes."""
        table = pa.table({name: _to_arrow(values) for name, values in columns.items()})
        assert len(table) == len(block)
        told = {"rows": rows, "computed": dict(environment)}
        table = table.replace_schema_metadata({METADATA: json.dumps(told, sort_keys=True)})
        with (
            atomic_path(self.folder / _name(block)) as temporary,
            pa.ipc.new_file(str(temporary), table.schema) as writer,
        ):
            writer.write_table(table)

    def has(self, block: range) -> bool:
        """Return whether a block was written; after `begin`, only those of its size and environment were."""
        return (self.folder / _name(block)).exists()

    def remove_unfinished(self) -> None:
        """Delete the files that killed writers left, which nobody may be writing any more."""
        for path in sorted(self.folder.glob(".*")):
            path.unlink()

    def is_whole(self) -> bool:
        """Return whether there are files of all rows."""
        first = next(iter(self.paths()), None)
        return first is not None and self._tiles(int((_told(first) or {}).get("rows", -1)))

    def is_sound(self) -> bool:
        """Return whether all rows exist and can be read."""
        return self.is_whole() and all(map(_is_sound, self.paths()))

    def environment(self) -> Mapping[str, Any]:
        """Return the environment in which the first block was computed."""
        found: Mapping[str, Any] = (_told(self.paths()[0]) or {}).get("computed", {})
        return found

    def read(self, names: Sequence[str] | None = None) -> dict[str, npt.NDArray[Any]]:
        """Read columns of all rows, in order.

        Raises:
            EvaluationError: rows or columns are missing, or a block is damaged.
        """
        if not self.is_whole():
            raise EvaluationError(
                f"{self.folder} is incomplete: it has only {len(self.paths()):,} blocks of its rows. Run the command "
                "that wrote them again; it resumes."
            )
        blocks = list(map(_read_block, self.paths()))
        wanted = blocks[0].column_names if names is None else names
        return {name: np.concatenate([_to_numpy(block[name]) for block in blocks]) for name in wanted}

    def paths(self) -> list[Path]:
        """Return the files of the blocks that exist, in order."""
        return sorted(path for path in self.folder.glob("*.arrow") if _NAME.fullmatch(path.name))

    def _tiles(self, rows: int) -> bool:
        """Return whether the blocks cover all rows without gaps."""
        ends = [0, *(_range(path).stop for path in self.paths())]
        return ends[-1] == rows and [_range(path).start for path in self.paths()] == ends[:-1]


class ReusableFeatures:
    """The rows of a split whose features exist already in other splits.

    Args:
        ids: ids of the split's rows; an id stands for one image in the whole release.
        others: the same model's features of other splits. Incomplete ones, and those computed in another environment,
            are not used; if several splits have an image, the first is used.
        environment: as for `RowBlocks.begin`.

    Attributes:
        has: whether each row's features exist, shape (n,).
    """

    def __init__(self, ids: Sequence[str], others: Iterable[RowBlocks], environment: Mapping[str, Any]) -> None:
        used = [one for one in others if one.is_whole() and one.environment() == environment]
        known = [id_ for one in used for id_ in one.read(("id",))["id"].tolist()]
        self._paths = [path for one in used for path in one.paths()]
        self._starts = np.cumsum([0, *(len(_range(path)) for path in self._paths)])
        found = pc.index_in(pa.array(ids, pa.string()), value_set=pa.array(known, pa.string()))
        self._row: npt.NDArray[np.int64] = pc.fill_null(found, -1).to_numpy().astype(np.int64)
        self.has: npt.NDArray[np.bool_] = self._row >= 0

    def take(self, numbers: npt.NDArray[np.int64]) -> Arrays:
        """Read existing features of some rows, at least one, without the columns of the split itself."""
        rows = self._row[numbers]
        files = np.searchsorted(self._starts, rows, side="right") - 1
        order = np.argsort(files, kind="stable")
        parts = [
            read_rows(self._paths[file], rows[files == file] - self._starts[file], without=("id", "label"))
            for file in np.unique(files).tolist()
        ]
        back = np.argsort(order)
        return {name: np.concatenate([part[name] for part in parts])[back] for name in parts[0]}


def read_rows(path: Path, rows: npt.NDArray[np.int64], without: Sequence[str] = ()) -> dict[str, npt.NDArray[Any]]:
    """Read columns of some rows of one block.

    Raises:
        EvaluationError: the block is damaged.
    """
    table = _read_block(path)
    return {name: _to_numpy(table[name])[rows] for name in table.column_names if name not in without}


def _name(block: range) -> str:
    return f"{block.start:09d}-{block.stop:09d}.arrow"


def _range(path: Path) -> range:
    start, stop = (int(number) for number in path.stem.split("-"))
    return range(start, stop)


def _told(path: Path) -> dict[str, Any] | None:
    """Read a block's metadata; None if the file is not a block."""
    try:
        with pa.memory_map(str(path)) as file:
            found: dict[str, Any] = json.loads(pa.ipc.open_file(file).schema.metadata[METADATA])
            return found
    except (pa.ArrowException, OSError, ValueError):
        return None


def _is_sound(path: Path) -> bool:
    """Whether a block can be read."""
    try:
        _read_block(path)
    except EvaluationError:
        return False
    return True


def _read_block(path: Path) -> pa.Table:
    """Map a block into memory.

    Raises:
        EvaluationError: it is cut, or has other rows than its name says.
    """
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, first_line(error)) from error
    if len(table) != len(_range(path)):
        raise _damaged(path, f"it has {len(table):,} rows")
    return table


def _damaged(path: Path, reason: str) -> EvaluationError:
    return EvaluationError(
        f"{path} is damaged ({reason}). Run the command that wrote it again: it replaces damaged blocks."
    )


def _to_arrow(values: npt.NDArray[Any]) -> pa.Array:
    if values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).reshape(-1)), values.shape[1])


def _to_numpy(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    values = column.combine_chunks()
    if pa.types.is_fixed_size_list(values.type):
        return np.asarray(values.flatten().to_numpy()).reshape(len(values), values.type.list_size)
    if pa.types.is_string(values.type):
        return np.array(values.to_pylist(), dtype=np.str_)
    return np.asarray(values.to_numpy())
