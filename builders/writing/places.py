"""Where the images of planned splits lie: in files, inside tars, or in packs into which containers were unpacked.

Tested by `tests/builders/pipeline/test_run.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.generate.inputs import COMPANION_VALUE
from builders.plan.originals import companion_rows
from builders.plan.planner import PlannedSplit
from builders.sources.base import IN_PLACE, SourceIndex
from builders.sources.sizes import look_up_sizes
from builders.writing.packs import Pack, Unpacked

STAGING = "staging"
"""Root key of pack files, beside the source keys."""

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Located:
    """Places of some images: the columns `root`, `file`, `offset`, `size`, and the packs that some of them lie in."""

    columns: Mapping[str, pa.Array]
    sizes: Int64
    packs: tuple[Pack, ...]


@dataclass(frozen=True)
class Places:
    """Finds the images of sources.

    Args:
        indexes: sources by key.
        unpacked: where the images of a source are that lie in containers, by its key.
        advance: called with the number of images found since the last call.
    """

    indexes: Mapping[str, SourceIndex]
    unpacked: Mapping[str, Unpacked]
    advance: Callable[[int], None] = lambda _: None

    def find(self, key: str, rows: Int64) -> Located:
        """Find the images in some rows of a source's index.

        Raises:
            BuildError: a file of the index is no longer there or cannot be looked at.
        """
        index = self.indexes[key]
        places = index.take(["how", "file", "offset", "size"], rows)
        files = places["file"].combine_chunks()
        roots = pa.array([key] * len(rows), pa.string())
        packs: tuple[Pack, ...] = ()
        offsets, sizes = places["offset"].to_numpy().copy(), places["size"].to_numpy().copy()
        how = places["how"].cast(pa.string()).to_numpy(zero_copy_only=False)
        if (unpacked := self.unpacked.get(key)) is not None:
            inside = np.flatnonzero(~np.isin(how, IN_PLACE))
            found = unpacked.find(rows[inside])
            offsets[inside], sizes[inside] = unpacked.offsets[found], unpacked.sizes[found]
            packs = tuple(unpacked.packs[number] for number in np.unique(unpacked.pack_of[found]))
            files = _replaced(files, inside, [unpacked.packs[number].path.name for number in unpacked.pack_of[found]])
            roots = _replaced(roots, inside, [STAGING] * len(inside))
        look_up_sizes(index, files, np.flatnonzero((how == "file") & (sizes < 0)), sizes, self.advance)
        columns = {"root": roots, "file": files, "offset": pa.array(offsets), "size": pa.array(sizes)}
        return Located(columns, sizes, packs)

    def find_companions(self, planned: PlannedSplit) -> Located | None:
        """Find the images of another source that a split's generator takes; None if it takes none.

        Raises:
            BuildError: the other source has no image for one of the split's.
        """
        companions = planned.split.companions
        if companions is None:
            return None
        index = self.indexes[companions.of.key]
        rows = companion_rows(index, companions.partitions[0], planned.table["source_id"])
        found = self.find(companions.of.key, rows)
        columns = {f"companion_{name}": column for name, column in found.columns.items()}
        hashes = index.take(["original_hash"], rows)["original_hash"].combine_chunks()
        return Located({**columns, f"{COMPANION_VALUE}original_hash": hashes}, found.sizes, found.packs)


def rows_taken(indexes: Mapping[str, SourceIndex], splits: Sequence[PlannedSplit], key: str) -> list[Int64]:
    """The rows of a source that some splits take, each split's own and those of its companions."""
    rows = [split.rows for split in splits if split.split.source.key == key]
    for split in splits:
        companions = split.split.companions
        if companions is not None and companions.of.key == key:
            rows.append(companion_rows(indexes[key], companions.partitions[0], split.table["source_id"]))
    return rows


def packed_rows(index: SourceIndex, taken: Sequence[Int64]) -> Int64:
    """The rows among those taken of an index that lie in containers, ascending."""
    if not taken or all(piece.how in IN_PLACE for piece in index.pieces):
        return np.zeros(0, np.int64)
    rows = np.unique(np.concatenate(taken))
    in_place = np.array([piece.how in IN_PLACE for piece in index.pieces])
    wanted: Int64 = rows[~in_place[index.piece_of(rows)]]
    return wanted


def _replaced(column: pa.Array, rows: Int64, values: list[str]) -> pa.Array:
    names = np.array(column.to_pylist(), dtype=object)
    names[rows] = values
    return pa.array(names.tolist(), pa.string())
