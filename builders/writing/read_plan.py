"""Read plans: the location and size of each planned image's bytes, and the cut into shards.

Shards are cut by image bytes, so sizes are looked up, but only for the rows of the plan, never for a whole source.
Images in containers are unpacked first (`builders.writing.packs`).

Tested by `tests/builders/writing/test_shards.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.benchmark import Config, Part
from builders.generate.contract import Generator
from builders.plan.planner import PlannedSplit
from builders.plan.ranking import keyed_order
from builders.release.digests import lines_digest
from builders.sources.base import IN_PLACE, SourceIndex
from builders.sources.sizes import look_up_sizes
from builders.storage.atomic import atomic_path
from builders.writing.packs import Pack, Unpacked
from builders.writing.shards import SHARD_BYTES

STAGING = "staging"
"""Key of the folder of pack files in the column `root`, which otherwise has source keys."""

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ReadPlan:
    """A planned split with the locations of its images.

    `table` has the plan's columns and `root`, `file`, `offset`, `size`, `form`. `parts` are the plans that the split
    is joined from, or only its own. Shard i is the rows `starts[i]:starts[i + 1]`. `digest` changes with any
    row, the order of rows, or a shard's start. `packs` must be unpacked before the images can be read.
    """

    parts: tuple[PlannedSplit, ...]
    table: pa.Table
    starts: tuple[int, ...]
    digest: str
    packs: tuple[Pack, ...] = ()

    @property
    def config(self) -> Config:
        """The config of the split."""
        return self.parts[0].config

    @property
    def name(self) -> str:
        """Name of the split, without its config."""
        return self.key.partition("/")[2]

    @property
    def key(self) -> str:
        """`config/split`."""
        return self.parts[0].split_key

    @property
    def labels(self) -> tuple[str, ...]:
        """The in-distribution classes, which `label` numbers."""
        return self.parts[0].labels

    @property
    def image_generator(self) -> Generator | None:
        """Generator of the images; None if the source's bytes are copied, as in every joined split."""
        return self.parts[0].split.image_generator

    @property
    def shards(self) -> int:
        """Number of shards."""
        return len(self.starts) - 1

    def rows_of(self, shard: int) -> pa.Table:
        """The rows of one shard."""
        return self.table.slice(self.starts[shard], self.starts[shard + 1] - self.starts[shard])

    def bytes_of(self, shard: int) -> int:
        """Image bytes of one shard."""
        return int(pc.sum(self.rows_of(shard)["size"]).as_py() or 0)


def locate(
    planned: PlannedSplit,
    index: SourceIndex,
    unpacked: Unpacked | None,
    *,
    advance: Callable[[int], None],
    shard_bytes: int = SHARD_BYTES,
) -> ReadPlan:
    """Locate the images of a planned split and cut it into shards.

    Args:
        planned: the plan.
        index: the source that it was planned from.
        unpacked: positions of the index's images from containers; None if there are no containers.
        advance: called with the number of images located since the last call.
        shard_bytes: image bytes per shard; only the last image of a shard may exceed them.

    Raises:
        BuildError: a file of the index no longer exists or cannot be read.
    """
    rows = pa.array(planned.rows)
    places = index.table.select(["how", "file", "offset", "size", "form"]).take(rows)
    files = places["file"].combine_chunks()
    roots = pa.array([index.source.key] * len(rows), pa.string())
    packs: tuple[Pack, ...] = ()
    offsets = places["offset"].to_numpy().copy()
    sizes = places["size"].to_numpy().copy()
    how = places["how"].cast(pa.string()).to_numpy(zero_copy_only=False)
    if unpacked is not None:
        inside = np.flatnonzero(~np.isin(how, IN_PLACE))
        found = unpacked.find(planned.rows[inside])
        offsets[inside], sizes[inside] = unpacked.offsets[found], unpacked.sizes[found]
        packs = tuple(unpacked.packs[number] for number in np.unique(unpacked.pack_of[found]))
        files = _replaced(files, inside, [unpacked.packs[number].path.name for number in unpacked.pack_of[found]])
        roots = _replaced(roots, inside, [STAGING] * len(inside))
    look_up_sizes(index, files, np.flatnonzero((how == "file") & (sizes < 0)), sizes, advance)
    table = planned.table
    columns = {"root": roots, "file": files, "offset": pa.array(offsets), "size": pa.array(sizes)}
    for name, column in (columns | {"form": places["form"].cast(pa.string())}).items():
        table = table.append_column(name, column)
    generator = planned.split.image_generator
    # Generated images count by their pixels: their encoded size is not known yet, and may depend on the encoder's
    # version.
    shard_sizes = sizes if generator is None else np.full(len(sizes), generator.nominal_bytes, dtype=np.int64)
    starts = shard_starts(shard_sizes, shard_bytes)
    return ReadPlan((planned,), table, starts, _digest(planned.table, starts), packs)


def join(parts: Sequence[ReadPlan], order: Callable[[pa.Table], Int64], *, shard_bytes: int = SHARD_BYTES) -> ReadPlan:
    """Join the located parts of one split and cut it into shards.

    Args:
        parts: all parts of the split, in declared order; a split without parts is returned unchanged.
        order: returns the order of the rows, as row numbers of the concatenated tables of the parts.
        shard_bytes: image bytes per shard.

    Raises:
        ValueError: a part has generated images, whose packs have other columns than source files.
    """
    if not isinstance(parts[0].parts[0].split, Part):
        (whole,) = parts
        return whole
    if any(part.image_generator is not None for part in parts):
        raise ValueError(f"a part of {parts[0].key} has generated images")
    table = pa.concat_tables(part.table for part in parts)
    table = table.take(pa.array(order(table))).combine_chunks()
    starts = shard_starts(table["size"].to_numpy(), shard_bytes)
    packs = {pack.path: pack for part in parts for pack in part.packs}
    return ReadPlan(
        tuple(planned for part in parts for planned in part.parts),
        table,
        starts,
        _digest(table, starts),
        tuple(packs.values()),
    )


def keyed(seed: int, key: str) -> Callable[[pa.Table], Int64]:
    """Return the order of a joined split's rows: by the SHA-256 of seed, config, split and row id."""
    config, _, split = key.partition("/")
    return lambda table: keyed_order(table["id"].combine_chunks(), seed=seed, config=config, split=split)


def packed_rows(index: SourceIndex, splits: Sequence[PlannedSplit]) -> Int64:
    """Rows of an index that some split needs and whose images are in containers, ascending."""
    if not splits or all(piece.how in IN_PLACE for piece in index.pieces):
        return np.zeros(0, np.int64)
    in_place = pc.is_in(index.table["how"].cast(pa.string()), value_set=pa.array(IN_PLACE)).to_numpy()
    rows = np.unique(np.concatenate([split.rows for split in splits]))
    wanted: Int64 = rows[~in_place[rows]]
    return wanted


def shard_starts(sizes: Int64, shard_bytes: int) -> tuple[int, ...]:
    """Cut n images into shards with equal numbers of bytes.

    Args:
        sizes: bytes of each image.
        shard_bytes: greatest number of bytes in a shard, give or take one image.

    Returns:
        First row of each shard, and n at the end. There is at least one shard, even of no images.
    """
    total = int(sizes.sum())
    shards = max(1, -(-total // shard_bytes))
    ends = np.cumsum(sizes)
    # Integer arithmetic: shard i starts after the first row at which i/shards of all bytes are reached.
    inner = [int(np.searchsorted(ends, total * i // shards, side="left")) + 1 for i in range(1, shards)]
    starts = sorted({0, *(start for start in inner if start < len(sizes))})
    return (*starts, len(sizes))


def write_plan(located: ReadPlan, path: Path) -> None:
    """Write a read plan as an Arrow file, which workers map into memory."""
    with atomic_path(path) as temporary, pa.ipc.new_file(str(temporary), located.table.schema) as writer:
        writer.write_table(located.table)


def _digest(plan: pa.Table, starts: tuple[int, ...]) -> str:
    rows = lines_digest(plan, ("id", "label", "role", "class_id"))
    return hashlib.sha256(f"{rows} {starts}".encode()).hexdigest()


def _replaced(column: pa.Array, rows: Int64, values: list[str]) -> pa.Array:
    names = np.array(column.to_pylist(), dtype=object)
    names[rows] = values
    return pa.array(names.tolist(), pa.string())
