"""Long results in parts: rows in files of their own, each whole or not there, so that a killed run loses little.

Tested by `tests/evaluation/features/test_store.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evaluation.errors import EvaluationError
from evaluation.files import replacing

METADATA = b"unknown_detection"
"""Key in the schema's metadata of a part: how many rows there are in all, and how these were computed."""

_NAME = re.compile(r"(\d{9})-(\d{9})\.arrow")

Arrays = Mapping[str, npt.NDArray[Any]]
"""Columns by name, n rows each: vectors of text or numbers, or matrices of float32 or float64."""


class Parts:
    """Columns of n rows in a folder, cut into parts by row number. One process writes at a time.

    Args:
        folder: holds nothing else; need not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, rows: int, size: int, computed: Mapping[str, Any]) -> list[range]:
        """What is left to compute, so that all rows are there in the end and were computed in one way.

        Where all rows are there, that is nothing, however they were computed. Otherwise parts of another size, or that
        were computed otherwise, are removed, and so is what a killed run had not finished writing.

        Args:
            rows: how many there are in all.
            size: rows of every part but the last.
            computed: all that numbers depend on besides the model and the image, as JSON has it.

        Returns:
            Row numbers of each part that is missing, in order.
        """
        if self._tiles(rows):
            return []
        wanted = [range(start, min(start + size, rows)) for start in range(0, rows, size)]
        expected = {_name(part): _about(rows, computed) for part in wanted}
        for path in sorted(self.folder.glob("*")):
            if path.name not in expected or _metadata(path) != expected[path.name]:
                path.unlink()
        return [part for part in wanted if not (self.folder / _name(part)).exists()]

    def write(self, part: range, columns: Arrays, rows: int, computed: Mapping[str, Any]) -> None:
        """Write one part; equal arguments give equal bytes.

        Args:
            part: its row numbers.
            columns: its columns.
            rows: how many rows there are in all.
            computed: as for `begin`.
        """
        table = pa.table({name: _to_arrow(values) for name, values in columns.items()})
        assert len(table) == len(part)
        table = table.replace_schema_metadata({METADATA: json.dumps(_about(rows, computed), sort_keys=True)})
        with (
            replacing(self.folder / _name(part)) as temporary,
            pa.ipc.new_file(str(temporary), table.schema) as writer,
        ):
            writer.write_table(table)

    def is_whole(self) -> bool:
        """Whether all rows are there."""
        first = next(iter(self._paths()), None)
        return first is not None and self._tiles(int((_metadata(first) or {}).get("rows", -1)))

    def computed(self) -> Mapping[str, Any]:
        """How the first part was computed."""
        found: Mapping[str, Any] = (_metadata(self._paths()[0]) or {})["computed"]
        return found

    def read(self, names: Sequence[str] | None = None) -> dict[str, npt.NDArray[Any]]:
        """Columns of all rows, in order.

        Args:
            names: which; None for all.

        Raises:
            EvaluationError: rows are missing.
        """
        if not self.is_whole():
            raise EvaluationError(
                f"expected all rows in {self.folder}, found {len(self._paths()):,} parts of them; run the command "
                "that began them again, which goes on with the rest."
            )
        parts = [pa.ipc.open_file(pa.memory_map(str(path))).read_all() for path in self._paths()]
        wanted = parts[0].column_names if names is None else names
        return {name: np.concatenate([_to_numpy(part[name]) for part in parts]) for name in wanted}

    def take(self, rows: npt.NDArray[np.int64], without: Sequence[str] = ()) -> dict[str, npt.NDArray[Any]]:
        """Columns of some rows, in the order given; only these are read.

        Args:
            rows: row numbers, at least one; all rows are there.
            without: columns to leave out.
        """
        taken: dict[str, list[npt.NDArray[Any]]] = {}
        places: list[npt.NDArray[np.int64]] = []
        for path in self._paths():
            start, stop = (int(number) for number in path.stem.split("-"))
            here = np.flatnonzero((start <= rows) & (rows < stop))
            if len(here):
                places.append(here)
                table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
                for name in table.column_names:
                    if name not in without:
                        taken.setdefault(name, []).append(_to_numpy(table[name])[rows[here] - start])
        order = np.argsort(np.concatenate(places))
        return {name: np.concatenate(arrays)[order] for name, arrays in taken.items()}

    def _paths(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("*.arrow") if _NAME.fullmatch(path.name))

    def _tiles(self, rows: int) -> bool:
        """Whether the parts follow each other from the first row to the last."""
        end = 0
        for path in self._paths():
            start, after = (int(number) for number in path.stem.split("-"))
            if start != end:
                return False
            end = after
        return end == rows


def _name(part: range) -> str:
    return f"{part.start:09d}-{part.stop:09d}.arrow"


def _about(rows: int, computed: Mapping[str, Any]) -> dict[str, Any]:
    return {"rows": rows, "computed": dict(computed)}


def _metadata(path: Path) -> Any:
    """What a part says of itself; None for what is no part."""
    try:
        with pa.memory_map(str(path)) as file:
            return json.loads(pa.ipc.open_file(file).schema.metadata[METADATA])
    except (pa.ArrowInvalid, OSError, ValueError, TypeError, KeyError):
        return None


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
