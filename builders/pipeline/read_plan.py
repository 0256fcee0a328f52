"""Turns a planned split into a read plan: where each image's bytes are, how many there are, where shards begin.

Images lie in files, inside tars, or in packs into which containers are unpacked. A container has its rows in another
order than the release, and often can only be read in large units (a Parquet row group, a pickle, a compressed array),
so reading single images would read each unit a hundred times. A pack has images of a container end to end, so that
each can be read by offset. It is written in one pass over the container, and removed when the release is done. The
images' lengths are kept, because a later run needs them to cut the same shards.

Shards are cut by real bytes, so sizes are looked up for the rows of the plan alone, never for a whole source.

Tested by `tests/builders/pipeline/test_shards.py` and `tests/builders/pipeline/test_run.py`.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.declare.benchmark import Config, Part
from builders.declare.quotas import Originals
from builders.generate.batches import SEALED_SUFFIX
from builders.generate.contract import COMPANION_VALUE, Generator
from builders.pipeline.shards import SHARD_BYTES
from builders.plan.candidates import companion_rows
from builders.plan.planner import PlannedSplit
from builders.release.digests import lines_digest
from builders.sources.base import IN_PLACE, SourceIndex
from builders.sources.sizes import look_up_sizes
from builders.sources.unpack import UNPACKERS
from builders.storage.byte_ranges import PACK_SUFFIX
from builders.storage.files import atomic_path
from builders.storage.paths import store_of

STAGING = "staging"
"""Root key of pack files, beside the source keys."""

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pack:
    """A file into which images are unpacked end to end, and what yields them in order, some at a time."""

    path: Path
    images: Callable[[], Iterable[Iterable[bytes | memoryview]]]

    def lengths(self) -> Int64:
        """Return the length of each image in bytes, in order; unpacks the images if that was never done."""
        if not self._lengths_path.exists():
            self.unpack()
        lengths: Int64 = store_of(self._lengths_path).array(self._lengths_path)
        return lengths

    def unpack(self) -> None:
        """Write the pack, then the lengths.

        Raises:
            BuildError: the images cannot be read.
        """
        lengths: list[int] = []
        with atomic_path(self.path) as temporary, temporary.open("wb") as sink:
            for images in self.images():
                lengths += [sink.write(image) for image in images]
        with atomic_path(self._lengths_path) as temporary, temporary.open("wb") as sink:
            np.save(sink, np.array(lengths, dtype=np.int64))

    @property
    def _lengths_path(self) -> Path:
        return self.path.with_suffix(".lengths.npy")


class _Unpacked(NamedTuple):
    """Places of images in packs: ascending rows of the index, their `file`, `offset` and `size`, and packs by name."""

    rows: Int64
    places: pa.Table
    packs: Mapping[str, Pack]


class Located(NamedTuple):
    """Where some images are: a table with `root`, `file`, `offset`, `size`, `form`, and the packs that they lie in."""

    table: pa.Table
    packs: tuple[Pack, ...]


class Places:
    """Finds the images of sources, and unpacks those of some splits that lie in containers.

    Args:
        indexes: sources by key.
        splits: the splits; each container is read once for all of them.
        staging: folder for the packs.
        advance: called with the number of images found since the last call.

    Raises:
        BuildError: a container cannot be read, or a row has no image bytes.
    """

    def __init__(
        self,
        indexes: Mapping[str, SourceIndex],
        splits: Sequence[PlannedSplit],
        staging: Path,
        advance: Callable[[int], None],
    ) -> None:
        self._indexes, self._staging, self._advance = indexes, staging, advance
        self._unpacked = {
            key: self._unpack(index, rows)
            for key, index in indexes.items()
            if len(rows := _packed_rows(index, splits))
        }

    def _unpack(self, index: SourceIndex, rows: Int64) -> _Unpacked:
        columns = index.take(["file", "offset", "how"], rows)
        files = columns["file"].combine_chunks().dictionary_encode()
        hows = columns["how"].cast(pa.string())
        codes, inside = files.indices.to_numpy(), columns["offset"].to_numpy()
        offsets, sizes = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        names = [""] * len(files.dictionary)
        packs: dict[str, Pack] = {}
        for file, code in sorted((file, code) for code, file in enumerate(files.dictionary.to_pylist())):
            positions = np.flatnonzero(codes == code)
            positions = positions[np.argsort(inside[positions], kind="stable")]
            numbers = inside[positions]
            # Named after the source, the file and the rows: a rerun finds it, and other rows get another.
            key = hashlib.sha256(f"{file}\n".encode() + numbers.tobytes()).hexdigest()[:16]
            names[code] = f"{index.source.key}-{key}{PACK_SUFFIX}"
            images = functools.partial(UNPACKERS[hows[int(positions[0])].as_py()], index.root / file, numbers)
            packs[names[code]] = pack = Pack(self._staging / names[code], images)
            sizes[positions] = lengths = pack.lengths()
            offsets[positions] = np.cumsum(lengths) - lengths
            self._advance(len(positions))
        pack_names = pa.array(names, pa.string()).take(files.indices)
        return _Unpacked(rows, pa.table({"file": pack_names, "offset": offsets, "size": sizes}), packs)

    def find(self, key: str, rows: Int64) -> Located:
        """Find the images in some rows of a source's index.

        Raises:
            BuildError: a file of the index is no longer there or cannot be looked at.
        """
        index = self._indexes[key]
        listed = index.take(["how", "file", "offset", "size", "form"], rows)
        files, roots = listed["file"].combine_chunks(), pa.repeat(key, len(rows))
        packs: tuple[Pack, ...] = ()
        offsets, sizes = listed["offset"].to_numpy().copy(), listed["size"].to_numpy().copy()
        how = listed["how"].cast(pa.string()).to_numpy(zero_copy_only=False)
        if (unpacked := self._unpacked.get(key)) is not None:
            inside = ~np.isin(how, IN_PLACE)
            places = unpacked.places.take(pa.array(np.searchsorted(unpacked.rows, rows[inside])))
            offsets[inside], sizes[inside] = places["offset"].to_numpy(), places["size"].to_numpy()
            files = pc.replace_with_mask(files, pa.array(inside), places["file"].combine_chunks())
            roots = pc.if_else(pa.array(inside), STAGING, roots)
            packs = tuple(unpacked.packs[name] for name in places["file"].unique().to_pylist())
        look_up_sizes(index, files, np.flatnonzero((how == "file") & (sizes < 0)), sizes, self._advance)
        columns = {"root": roots, "file": files, "offset": offsets, "size": sizes}
        return Located(pa.table({**columns, "form": listed["form"].cast(pa.string())}), packs)

    def find_companions(self, companions: Originals, planned: PlannedSplit) -> Located:
        """Find the images of another source that a split's generator takes; their columns are `companion_...`.

        Raises:
            BuildError: the other source has no image for one of the split's.
        """
        index = self._indexes[companions.of.key]
        rows = companion_rows(index, companions.partitions[0], planned.table["source_id"])
        table, packs = self.find(companions.of.key, rows)
        table = table.drop_columns("form")
        table = table.rename_columns([f"companion_{name}" for name in table.column_names])
        hashes = index.take(["original_hash"], rows)["original_hash"]
        return Located(table.append_column(f"{COMPANION_VALUE}original_hash", hashes), packs)


def _packed_rows(index: SourceIndex, splits: Sequence[PlannedSplit]) -> Int64:
    """Return the ascending rows in a source's containers that some splits need, also as companions."""
    key, in_place = index.source.key, np.array([piece.how in IN_PLACE for piece in index.pieces], bool)
    rows = [np.zeros(0, np.int64)]
    for split in splits if not in_place.all() else ():
        if split.split.source.key == key:
            rows.append(split.rows)
        if (companions := split.split.companions) is not None and companions.of.key == key:
            rows.append(companion_rows(index, companions.partitions[0], split.table["source_id"]))
    distinct = np.unique(np.concatenate(rows))
    packed: Int64 = distinct[~in_place[index.piece_of(distinct)]]
    return packed


def remove_packs(staging: Path, own: Iterable[Path]) -> None:
    """Remove the packs of a finished build, with their sealed residuals; the lengths are kept.

    On this machine all of them go, in a store this run's `own` alone.
    """
    store_of(staging).remove_staged(staging, (PACK_SUFFIX, SEALED_SUFFIX), own)


@dataclass(frozen=True)
class ReadPlan:
    """A planned split with its places.

    `table` has the plan's columns and `root`, `file`, `offset`, `size`, `form`, and where the generator is given
    companions theirs (`builders.generate.contract.COMPANION_COLUMNS`).

    `parts` are the plans that it is joined from, or its own alone. Shard i is the rows `starts[i]:starts[i + 1]`.
    `digest` changes with any row, its order, or a shard's start. `packs` are what must be unpacked before the images
    can be read.
    """

    parts: tuple[PlannedSplit, ...]
    table: pa.Table
    starts: tuple[int, ...]
    digest: str
    packs: tuple[Pack, ...] = ()

    @property
    def config(self) -> Config:
        """The config that the split is of."""
        return self.parts[0].config

    @property
    def key(self) -> str:
        """`config/split`."""
        return self.parts[0].split_key

    @property
    def image_generator(self) -> Generator | None:
        """What makes the images; None where the source's bytes pass, as in every split that is joined."""
        return self.parts[0].split.image_generator

    @property
    def is_sealed(self) -> bool:
        """Whether the release has sealed residuals of the images, which their batches make."""
        return self.image_generator is not None and self.image_generator.sealed is not None

    @property
    def shards(self) -> int:
        """Number of shards."""
        return len(self.starts) - 1

    def unpack(self) -> None:
        """Unpack the images that lie in containers, where their packs are not there.

        Raises:
            BuildError: a container cannot be read, or a row has no image bytes.
        """
        for pack in self.packs:
            if not pack.path.exists():
                pack.unpack()

    def rows_of(self, shard: int) -> pa.Table:
        """Return the rows of one shard."""
        return self.table.slice(self.starts[shard], self.starts[shard + 1] - self.starts[shard])


def _read_plan(parts: Sequence[PlannedSplit], table: pa.Table, sizes: Int64, packs: Iterable[Pack]) -> ReadPlan:
    """Cut a split into shards of these sizes of images."""
    config, starts = parts[0].config, shard_starts(sizes, SHARD_BYTES)
    rows = lines_digest(table, ("id", "label", "role", "class_id"))
    if own_columns := [column.name for column in (*config.source_columns, *config.overlap_columns)]:
        # A source's list or annotations, or the table of overlaps, may change while its images stay.
        rows += f" {json.dumps(table.select(own_columns).to_pydict())}"
    digest = hashlib.sha256(f"{rows} {starts}".encode()).hexdigest()
    return ReadPlan(tuple(parts), table, starts, digest, tuple(packs))


def locate(planned: PlannedSplit, places: Places) -> ReadPlan:
    """Find the bytes of a planned split, and of its companions, and cut it into shards.

    Raises:
        BuildError: a file of the index is no longer there or cannot be looked at.
    """
    split = planned.split
    found = [places.find(split.source.key, planned.rows)]
    if split.companions is not None:
        found.append(places.find_companions(split.companions, planned))
    table = planned.table
    for located in found:
        for name in located.table.column_names:
            table = table.append_column(name, located.table[name])
    sizes = table["size"].to_numpy()
    if (generator := split.image_generator) is not None:
        # Generated images are cut by their pixels: their encoded bytes are not known yet, and may differ with the
        # encoder's version.
        sizes = np.full(len(sizes), generator.nominal_bytes, np.int64)
    return _read_plan([planned], table, sizes, [pack for located in found for pack in located.packs])


def join_parts(parts: Sequence[ReadPlan], order: Callable[[pa.Array], Int64]) -> ReadPlan:
    """Put the located parts of one split together, in declared order, and cut the whole into shards.

    A split that has no parts comes alone and stays as it is. `order` gives the order of the rows, given their ids part
    by part.
    """
    if not isinstance(parts[0].parts[0].split, Part):
        (plan,) = parts
        return plan
    table = pa.concat_tables(part.table for part in parts)
    table = table.take(pa.array(order(table["id"].combine_chunks()))).combine_chunks()
    packs = {pack.path: pack for part in parts for pack in part.packs}
    planned = [own for part in parts for own in part.parts]
    return _read_plan(planned, table, table["size"].to_numpy(), packs.values())


def shard_starts(sizes: Int64, shard_bytes: int) -> tuple[int, ...]:
    """Cut images of some sizes into shards of equal bytes, at most `shard_bytes`, give or take one image.

    Returns the first row of each shard, and the number of images at the end; at least one shard, also of nothing.
    """
    total = int(sizes.sum())
    shards = max(1, -(-total // shard_bytes))
    ends = np.cumsum(sizes)
    # Integer arithmetic: shard i starts after the first row at which i/shards of all bytes are reached.
    inner = [int(np.searchsorted(ends, total * i // shards, side="left")) + 1 for i in range(1, shards)]
    starts = sorted({0, *(start for start in inner if start < len(sizes))})
    return (*starts, len(sizes))
