"""Turns planned splits into read plans: where each image's bytes are, how many they are, and where shards begin.

Images lie in files, inside tars, or in packs into which containers are unpacked. A container has its rows in another
order than the release, and often can only be read in large units (a Parquet row group, a pickle, a compressed array),
so reading single images would read each unit a hundred times. A pack has images of a container end to end, so that
each can be read by offset. It is written in one pass over the container, and removed when the release is done. The
images' lengths are kept, because a later run needs them to cut the same shards.

Shards are cut by real bytes, so sizes are looked up for the rows of the plan alone, never for a whole source.

Tested by `tests/builders/pipeline/test_shards.py`, `tests/builders/pipeline/test_run.py` and
`tests/builders/pipeline/test_other_copy.py`.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.declare.splits import Config, Part
from builders.executors.base import Advance, Meter
from builders.generate.contract import COMPANION_COLUMNS, COMPANION_VALUE, Generator
from builders.generate.sealed import CONTENT
from builders.pipeline.shards import SHARD_BYTES, record_of
from builders.plan.candidates import companion_rows
from builders.plan.planner import PlannedSplit
from builders.release.digests import lines_digest
from builders.release.entries import FileEntry
from builders.release.layout import RECORDS, Layout
from builders.release.schema import PLAN
from builders.sources.base import IN_PLACE, Rows, SourceIndex
from builders.sources.readers.folders import relative
from builders.sources.sizes import estimated_bytes, file_sizes
from builders.sources.unpack import UNPACKERS
from builders.storage.byte_ranges import PACK_SUFFIX, read_starts
from builders.storage.files import atomic_path, require_room
from builders.storage.folders import sizes_of
from builders.storage.kept_tables import changed_meanwhile, find_kept, read_kept, write_kept
from builders.storage.sealed_files import published_residuals

STAGING = "staging"
"""Root key of pack files, beside the source keys."""

_END = 64 * 1024
"""Bytes at either end of a container by which a copy is told from another (ours). They hold the directory of a Parquet
file or a zip, the checksum of a gz, and images of the others."""

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pack:
    """A file of images end to end, unpacked from a container, and a function that yields its images in batches.

    `ends` is a digest of the container's size, first and last bytes; empty where other digests say what is in it.
    """

    path: Path
    images: Callable[[], Iterable[Iterable[bytes | memoryview]]]
    ends: str = ""

    def lengths(self) -> Int64:
        """Return the bytes of each image, in order; unpacks the images first if that was never done."""
        if (recorded := find_kept(self._lengths_path)) is None:
            self.unpack()
            recorded = read_kept(self._lengths_path)
        lengths: Int64 = recorded["bytes"].to_numpy()
        return lengths

    def unpack(self) -> None:
        """Write the pack, and then the file with the lengths of its images."""
        lengths: list[int] = []
        with atomic_path(self.path) as temporary, temporary.open("wb") as sink:
            for images in self.images():
                lengths += [sink.write(image) for image in images]
        write_kept(self._lengths_path, pa.table({"bytes": pa.array(lengths, pa.int64())}))

    @property
    def _lengths_path(self) -> Path:
        return self.path.with_suffix(".lengths.parquet")


@dataclass(frozen=True)
class ReadPlan:
    """A split, joined from its parts if it has any, with the place of each image's bytes, cut into shards.

    `table` has the plan's columns and `root`, `file`, `offset`, `size`, `form`, and where the generator is given
    companions theirs (`builders.generate.contract.COMPANION_COLUMNS`). `image_generator` makes the images; None where
    images are copied from their source, as in every split that is joined.

    Shard i is the rows `starts[i]:starts[i + 1]`. `digest` changes with any row, its order, or a shard's start.
    `packs` are what must be unpacked before the images can be read. `contents` is the digest of a person's own
    folders, as `Source.contents`; empty for other sources. `copy` tells the containers that images are unpacked from,
    such as those of another person's copy, from others by their ends; empty without containers.
    """

    key: str
    config: Config
    image_generator: Generator | None
    parts: tuple[PlannedSplit, ...]
    table: pa.Table
    starts: tuple[int, ...]
    digest: str
    packs: tuple[Pack, ...] = ()
    contents: str = ""
    copy: str = ""

    @property
    def is_sealed(self) -> bool:
        """Whether the release stores sealed residuals of the images; the images' batches write them."""
        return self.image_generator is not None and self.image_generator.sealed is not None

    @property
    def shards(self) -> int:
        """The number of shards."""
        return len(self.starts) - 1

    def unpack(self) -> None:
        """Unpack images that lie in containers, unless their packs exist."""
        for pack in self.packs:
            if not pack.path.exists():
                pack.unpack()

    def record(self, layout: Layout, shard: int) -> pa.Table | None:
        """Return the index rows of a finished shard, with its record; None if there are none of this plan, whole."""
        written = find_kept(layout.shard(RECORDS, self.key, shard, self.shards))
        if written is None or not _are_of(written, self.rows_of(shard)):
            return None
        record = record_of(written)
        # A copy in another layout may have no containers.
        is_other = record.copy and self.copy and record.copy != self.copy
        return None if is_other or record.contents != self.contents else written

    def records(self, layout: Layout) -> list[pa.Table]:
        """Return those of all shards, which are finished."""
        records = [self.record(layout, shard) for shard in range(self.shards)]
        for shard, written in enumerate(records):
            if written is None:
                raise changed_meanwhile(layout.shard(RECORDS, self.key, shard, self.shards))
        return records

    def data_entries(self, layout: Layout, records: Sequence[pa.Table]) -> tuple[FileEntry, ...]:
        """Return the manifest's entries of those shards that have pixels; `records` are those of all."""
        entries = []
        for number, record in enumerate(map(record_of, records)):
            path = layout.shard("data", self.key, number, self.shards)
            if path.exists():
                entries.append(FileEntry(layout.relative(path), record.bytes, record.sha256))
        return tuple(entries)

    def rows_of(self, shard: int) -> pa.Table:
        """Return the rows of one shard."""
        return self.table.slice(self.starts[shard], self.starts[shard + 1] - self.starts[shard])


def _are_of(written: pa.Table, planned: pa.Table) -> bool:
    """Whether a record has the rows of a plan, without images that were left out, and not those of an earlier one."""
    dropped = pa.array([row_id for row_id, _ in record_of(written).dropped], pa.string())
    left = planned.filter(pc.invert(pc.is_in(planned["id"], value_set=dropped))) if len(dropped) else planned
    return all(written[name].equals(left[name]) for name in PLAN if name in written.column_names)


def locate_splits(
    splits: Sequence[PlannedSplit], indexes: Mapping[str, SourceIndex], layout: Layout, meter: Meter
) -> list[ReadPlan]:
    """Find the bytes of the images of some splits, and join the parts of splits that are declared in parts."""
    staging = layout.state / STAGING
    packed = {key: rows for key, index in indexes.items() if len(rows := _packed_rows(index, splits))}
    if packed and not staging.exists():
        # These lie on the disk twice during a build, or on their way to a store one at a time; until they are unpacked
        # their bytes are an estimate.
        require_room(layout.root, 2 * [estimated_bytes(indexes[key], rows) for key, rows in packed.items()])
    parts: dict[str, list[PlannedSplit]] = {}
    for split in splits:
        parts.setdefault(split.split_key, []).append(split)
    with meter.step("finding", sum(split.size for split in splits)) as advance:
        unpacked = {key: _unpacked(indexes[key], rows, staging, advance) for key, rows in packed.items()}
        return [_located(key, of_split, indexes, unpacked, layout, advance) for key, of_split in parts.items()]


def _packed_rows(index: SourceIndex, splits: Sequence[PlannedSplit]) -> Rows:
    """Return the ascending rows in a source's containers that some splits need, also as companions."""
    key, in_place = index.source.key, np.array([partition.how in IN_PLACE for partition in index.partitions], bool)
    rows: list[Rows] = [np.zeros(0, np.int32)]
    if in_place.all():
        return rows[0]
    for split in splits:
        if split.split.source.key == key:
            rows.append(split.rows)
        if (companions := split.split.companions) is not None and companions.source.key == key:
            rows.append(companion_rows(index, companions.partitions[0], split.table["source_id"]))
    distinct = np.unique(np.concatenate(rows))
    packed: Rows = distinct[~in_place[index.partition_of(distinct)]]
    return packed


def _located(
    key: str,
    parts: Sequence[PlannedSplit],
    indexes: Mapping[str, SourceIndex],
    unpacked: Mapping[str, _Unpacked],
    layout: Layout,
    advance: Advance,
) -> ReadPlan:
    """Find the images of a split's parts, put them in the order of the release, and cut the whole into shards."""
    tables, packs = [], dict[Path, Pack]()
    for part in parts:
        table, used = _with_places(part, indexes, unpacked, layout, advance)
        tables.append(table)
        packs |= {pack.path: pack for pack in used}
    ends = sorted(pack.ends for pack in packs.values())
    table, config, generator = pa.concat_tables(tables), parts[0].config, parts[0].split.image_generator
    if isinstance(parts[0].split, Part):
        order = np.argsort(np.concatenate([part.positions for part in parts]))
        table = table.take(pa.array(order)).combine_chunks()
    sizes = table["size"].to_numpy()
    if generator is not None:
        # Generated images are cut by their pixels: their encoded bytes are not known yet, and may differ with the
        # encoder's version.
        sizes = np.full(len(sizes), generator.nominal_bytes, np.int64)
    starts = shard_starts(sizes, SHARD_BYTES)
    rows = lines_digest(table, ("id", "label", "role", "class_id"))
    if own_columns := [column.name for column in (*config.source_columns, *config.overlap_columns)]:
        # A source's list or annotations, or the table of overlaps, may change while its images stay.
        rows += f" {json.dumps(table.select(own_columns).to_pydict())}"
    digest = hashlib.sha256(f"{rows} {starts}".encode()).hexdigest()
    contents = " ".join(part.split.source.contents for part in parts).strip()
    copy = hashlib.sha256("".join(ends).encode()).hexdigest() if any(ends) else ""
    return ReadPlan(key, config, generator, tuple(parts), table, starts, digest, tuple(packs.values()), contents, copy)


@dataclass(frozen=True, eq=False)
class _Unpacked:
    """The images in a source's containers that some splits need: ascending rows of its index, and where they are.

    `places` has `file`, `offset` and `size` of each row, and `packs` are these files by name.
    """

    rows: Rows
    places: pa.Table
    packs: Mapping[str, Pack]


def _unpacked(index: SourceIndex, rows: Rows, staging: Path, advance: Advance) -> _Unpacked:
    """Unpack the images in some rows of a source's containers into packs in `staging`; each container is read once."""
    columns = index.take(["file", "offset", "how"], rows)
    files = columns["file"].combine_chunks().dictionary_encode()
    hows = columns["how"].cast(pa.string())
    codes, inside = files.indices.to_numpy(), columns["offset"].to_numpy()
    offsets, sizes = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    names, packs = [""] * len(files.dictionary), dict[str, Pack]()
    for file, code in sorted((file, code) for code, file in enumerate(files.dictionary.to_pylist())):
        positions = np.flatnonzero(codes == code)
        positions = positions[np.argsort(inside[positions], kind="stable")]
        numbers = inside[positions]
        # Named after the source, the file and the rows: a rerun finds it, and other rows get another. So does another
        # copy of the source, where the one of before was the wrong one.
        ends = _ends_of(index.root, file)
        key = hashlib.sha256(f"{file}\n{ends}".encode() + numbers.tobytes()).hexdigest()[:16]
        names[code] = f"{index.source.key}-{key}{PACK_SUFFIX}"
        images = functools.partial(UNPACKERS[hows[int(positions[0])].as_py()], index.root / file, numbers)
        packs[names[code]] = pack = Pack(staging / names[code], images, ends)
        sizes[positions] = lengths = pack.lengths()
        offsets[positions] = np.cumsum(lengths) - lengths
        advance(len(positions))
    pack_names = pa.array(names, pa.string()).take(files.indices)
    return _Unpacked(rows, pa.table({"file": pack_names, "offset": offsets, "size": sizes}), packs)


def _ends_of(root: Path, file: str) -> str:
    """Return a digest of the size and both ends of a container, given as in an index; it may lie in an archive."""
    container = root / file
    while not container.is_file() and container != root:
        container = container.parent
    name = relative(container, root)
    (size,) = sizes_of(root, [name])
    ends = read_starts(root, [(name, 0, _END), (name, max(0, size - _END), _END)])
    return hashlib.sha256(b"".join([f"{size} ".encode(), *ends])).hexdigest()


def _with_places(
    planned: PlannedSplit,
    indexes: Mapping[str, SourceIndex],
    unpacked: Mapping[str, _Unpacked],
    layout: Layout,
    advance: Advance,
) -> tuple[pa.Table, list[Pack]]:
    """Return a split's table with the places of its images, and the packs that these lie in.

    What a split's generator takes beside an image, of another source or as a sealed residual, has the columns
    `companion_...`.
    """
    table, source, companions = planned.table, planned.split.source.key, planned.split.companions
    columns, packs = _places(indexes[source], planned.rows, unpacked.get(source), advance)
    if companions is not None:
        index = indexes[companions.source.key]
        rows = companion_rows(index, companions.partitions[0], table["source_id"])
        beside, used = _places(index, rows, unpacked.get(companions.source.key), advance)
        packs += used
        del beside["form"]
        columns |= {f"companion_{name}": column for name, column in beside.items()}
        columns[f"{COMPANION_VALUE}original_hash"] = index.take(["original_hash"], rows)["original_hash"]
    if planned.sealed and (generator := planned.split.generator) is not None:
        # The published residuals, which are in the folder by now.
        digest = hashlib.sha256("\n".join(file.sha256 for file in planned.sealed).encode()).hexdigest()[:16]
        files = [layout.inside(file.path) for file in planned.sealed]
        images = functools.partial(published_residuals, files, table["id"], generator.prepared)
        pack = Pack(layout.state / STAGING / f"sealed-{digest}{PACK_SUFFIX}", images)
        packs, sizes = [*packs, pack], pack.lengths()
        roots, names = (pa.repeat(name, len(sizes)) for name in (STAGING, pack.path.name))
        places = (roots, names, pa.array(np.cumsum(sizes) - sizes), pa.array(sizes))
        columns |= zip(COMPANION_COLUMNS, places, strict=True)
        columns[f"{COMPANION_VALUE}{CONTENT}"] = table["expected_sha256"]
        for column in generator.columns:
            columns[f"{COMPANION_VALUE}{column.name}"] = planned.expected[column.name]
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table, packs


def _places(
    index: SourceIndex, rows: Rows, unpacked: _Unpacked | None, advance: Advance
) -> tuple[dict[str, pa.Array], list[Pack]]:
    """Return `root`, `file`, `offset`, `size` and `form` of images of a source, given rows, and their packs."""
    listed = index.take(["how", "file", "offset", "size", "form"], rows)
    files, roots, packs = listed["file"].combine_chunks(), pa.repeat(index.source.key, len(rows)), list[Pack]()
    offsets, sizes = listed["offset"].to_numpy().copy(), listed["size"].to_numpy().copy()
    how = listed["how"].cast(pa.string()).to_numpy(zero_copy_only=False)
    if unpacked is not None:
        inside = ~np.isin(how, IN_PLACE)
        places = unpacked.places.take(pa.array(np.searchsorted(unpacked.rows, rows[inside])))
        offsets[inside], sizes[inside] = places["offset"].to_numpy(), places["size"].to_numpy()
        files = pc.replace_with_mask(files, pa.array(inside), places["file"].combine_chunks())
        roots = pc.if_else(pa.array(inside), STAGING, roots)
        packs = [unpacked.packs[name] for name in places["file"].unique().to_pylist()]
    unknown = (how == "file") & (sizes < 0)
    sizes[unknown] = file_sizes(index, files.filter(pa.array(unknown)), advance)
    columns = {"root": roots, "file": files, "offset": pa.array(offsets), "size": pa.array(sizes)}
    return {**columns, "form": listed["form"].cast(pa.string())}, packs


def shard_starts(sizes: Int64, shard_bytes: int) -> tuple[int, ...]:
    """Cut images of the given sizes into shards of equal bytes, at most `shard_bytes`, give or take one image.

    Returns the first row of each shard, and the number of images at the end; at least one shard, also of nothing.
    """
    total = int(sizes.sum())
    shards = max(1, -(-total // shard_bytes))
    ends = np.cumsum(sizes)
    # Integer arithmetic: shard i starts after the first row at which i/shards of all bytes are reached.
    inner = [int(np.searchsorted(ends, total * i // shards, side="left")) + 1 for i in range(1, shards)]
    starts = sorted({0, *(start for start in inner if start < len(sizes))})
    return (*starts, len(sizes))
