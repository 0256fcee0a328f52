"""The types of upstream datasets: a declaration (`Source`), and an index of its images without pixels.

A source module declares one `Source` value, with the layouts that a copy may have. An image has the same `source_id`
in every layout, so a plan does not depend on how a copy is laid out.

Tested by `tests/builders/sources/test_errors.py`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.release.entries import Licence as Licence  # every source declares one
from builders.release.schema import Column
from builders.sources.obtain import Obtain
from builders.sources.readers.layouts import CopyLayout, find_partition, layouts_of
from builders.storage.parquet import LARGE, spilled
from builders.storage.paths import store_of

Container = Literal["file", "span", "parquet", "pickle", "mat", "targz", "made"]
"""The container from which an image's bytes are read.

`file`: `file` is an image file. `span`: `size` bytes at `offset` of `file` (an image inside an uncompressed tar or an
LMDB database). `made`: nothing is read; the image is generated from the row's id. In all others the image is row
number `offset` of the container `file`, which is unpacked first (`builders.sources.unpack`); it may lie inside an
archive (`archive.tar.gz/member`).
"""

IN_PLACE: tuple[Container, ...] = ("file", "span", "made")
"""The containers that need no unpacking."""

Encoding = Literal["encoded", "rgb32", "planar32", "none"]
"""The encoding of an image's bytes.

`encoded`: an image file. `rgb32`: 32 rows of 32 RGB pixels, 3,072 bytes, interleaved. `planar32`: the same pixels, one
colour after the other. `none`: no bytes (`made`).
"""

Int64 = npt.NDArray[np.int64]

Rows = npt.NDArray[np.integer]
"""Row numbers of a source's index: in 32 bits where a plan keeps them, as it does tens of millions."""

RGB32_BYTES = 32 * 32 * 3

_IN_MEMORY = 1 << 28
"""Bytes of a source's index that stay in memory (ours); more is spilled. ImageNet's takes half of it; writing it would
take a fifth of the time in which all of ImageNet is planned."""

_BLOCK = 1 << 16
"""Texts that are Python's at a time (ours): of ten million at once, 900 MB would be."""

LARGEST_IMAGE = 1 << 28
"""Bytes of an image file at most (ours). The largest picture of a source, of Caltech-256, has 63 MB decoded."""


PARTITION_SCHEMA = pa.schema(
    [
        ("class_id", pa.dictionary(pa.int32(), pa.string())),
        ("source_id", pa.string()),
        ("file", pa.string()),
        ("offset", pa.int64()),
        ("size", pa.int64()),
    ]
)
"""Columns of one piece: `file` is relative to the source's root, with forward slashes; `size` is -1 where unknown.

A source's own columns (`Source.columns`) stand behind them.
"""


@dataclass(frozen=True)
class Expected:
    """Image counts of the owner's complete partition: in total and, where known, by class.

    `class_sizes` are the sizes of the smallest and the largest class, if the owner states only these.
    """

    total: int
    per_class: Mapping[str, int] | None = None
    class_sizes: tuple[int, int] | None = None

    @classmethod
    def each(cls, classes: Iterable[str], images: int) -> Expected:
        """Return the counts of a partition with equally many images of each class."""
        return cls.of(dict.fromkeys(classes, images))

    @classmethod
    def of(cls, per_class: Mapping[str, int]) -> Expected:
        """Return the counts of a partition by class."""
        return cls(sum(per_class.values()), per_class)


@dataclass(frozen=True)
class Stray:
    """A file or folder among the images that is not an image of the source; `reason` says why."""

    path: str
    reason: str


@dataclass(frozen=True)
class PartitionIndex:
    """The index of one partition as found on disk: its layout, its container, and one row an image.

    `form` is the encoding of the bytes. `missing` are the ids of the owner's list, if there is one, for which the copy
    has no image, and `hint` is a possible reason for a low count; neither is an error by itself. `listed` counts that
    list's images by class, where a source's counts are not known otherwise. `edition` must be the same in all
    partitions of a copy.
    """

    partition: str
    layout: str
    how: Container
    table: pa.Table = field(repr=False)
    strays: tuple[Stray, ...] = ()
    missing: pa.Array = field(default_factory=lambda: pa.array([], pa.string()), repr=False)
    form: Encoding = "encoded"
    hint: str = ""
    edition: str = ""
    listed: Mapping[str, int] | None = field(default=None, repr=False)

    @functools.cached_property
    def images_by_class(self) -> Mapping[str, int]:
        """The number of images by class id, for the classes that have any."""
        counts = pc.value_counts(self.table["class_id"])
        names = counts.field("values").cast(pa.string()).to_pylist()
        return dict(zip(names, counts.field("counts").to_pylist(), strict=True))

    def stacked(self) -> pa.Table:
        """Return the table with the constant columns `partition`, `how` and `form` appended."""
        zeros = pa.repeat(pa.scalar(0, pa.int16()), self.table.num_rows)
        table = self.table
        for name in ("partition", "how", "form"):
            table = table.append_column(name, pa.DictionaryArray.from_arrays(zeros, [getattr(self, name)]))
        return table


@dataclass(frozen=True)
class Source:
    """An upstream dataset: its facts, its licence, and how a copy of it is read.

    `key` names it in plans, flags (`--<key> DIR`) and declarations. `obtain` says how to get a copy; it is None for a
    source that this project makes itself, which has no folder and no flag.

    `classes` maps every class id to its name, in the owner's order. `expected` maps each partition to its complete
    size, of the edition that `edition` names. `accepted` are the layouts of a copy, in the order of trying.

    `arrays` marks a source whose images are pixel arrays upstream: rows hold them as PNG and are identified by their
    pixels, so that every layout gives equal rows. `shared_sides` are the shorter sides that all images of an owner's
    edition may share, where they have many sizes otherwise; None where no copy shows by its images' sizes that it was
    resized. `columns` are what the source says of each image beside its class; the pieces' tables have them, and so
    has every row of a release that comes from the source. `contents` is a digest of all images of a person's own
    folder, which no published size or digest says anything of: shards that were made of others are written anew.
    """

    key: str
    title: str
    edition: str
    licence: Licence
    citation: str
    obtain: Obtain | None
    classes: Callable[[], Mapping[str, str]]
    expected: Callable[[], Mapping[str, Expected]]
    accepted: tuple[CopyLayout, ...]
    arrays: bool = False
    shared_sides: tuple[int, ...] | None = None
    columns: tuple[Column, ...] = ()
    contents: str = ""

    @property
    def on_disk(self) -> bool:
        """Whether a person has a copy of it in a folder."""
        return self.obtain is not None

    @property
    def layouts(self) -> tuple[str, ...]:
        """One line for each accepted layout, for the message that the source is missing."""
        return tuple(
            f"{partition}: {layout.description.format(partition=partition)}"
            for partition in self.expected()
            for layout in layouts_of(self, partition)
        )

    def scan(self, root: Path, partitions: Sequence[str]) -> list[PartitionIndex]:
        """Return one piece for each requested partition; others are not looked for.

        Raises:
            BuildError: one is missing, or they are of different editions.
        """
        pieces = [find_partition(self, root, partition) for partition in partitions]
        if len({piece.edition for piece in pieces}) > 1:
            layouts = " and ".join(f"{piece.partition} as {piece.layout}" for piece in pieces)
            raise BuildError(
                f"{self.title}: {root} has its partitions in different editions: {layouts}. Add the missing "
                "part of one of the two editions."
            )
        return pieces


@dataclass(frozen=True)
class SourceIndex:
    """The index of a copy of a source in `root`: its partitions, with row numbers that continue from one to the next.

    Columns of rows are those of the pieces' tables, and `partition`, `how` and `form`.
    """

    source: Source
    root: Path
    pieces: tuple[PartitionIndex, ...]

    @functools.cached_property
    def table(self) -> pa.Table:
        """The rows of all partitions."""
        return pa.concat_tables([piece.stacked() for piece in self.pieces]).unify_dictionaries()

    @functools.cached_property
    def starts(self) -> Int64:
        """The number of the first row of each partition, then the total; shape (partitions + 1,)."""
        return np.cumsum([0, *(piece.table.num_rows for piece in self.pieces)])

    @property
    def num_rows(self) -> int:
        """The number of images."""
        return int(self.starts[-1])

    def piece_of(self, rows: Rows) -> Int64:
        """Return for each row number the position of its partition in `pieces`."""
        return np.searchsorted(self.starts, rows, side="right") - 1

    def take(self, names: Sequence[str], rows: Rows) -> pa.Table:
        """Return columns of the given rows, in their order."""
        return take_rows(self.table.select(list(names)), rows)

    @property
    def layouts(self) -> dict[str, str]:
        """The layout that was recognised, by partition."""
        return {piece.partition: piece.layout for piece in self.pieces}

    def rows_of(self, partitions: Sequence[str]) -> Rows:
        """Return the ascending row numbers of the images in some partitions."""
        selected = [piece.partition in partitions for piece in self.pieces]
        return np.flatnonzero(np.repeat(selected, np.diff(self.starts))).astype(np.int32)

    def find(self, ids: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Return the row number of each id, null where no image has it."""
        rows = pc.index_in(ids, value_set=self.table["source_id"].combine_chunks())
        return (rows.combine_chunks() if isinstance(rows, pa.ChunkedArray) else rows).cast(pa.int64())


def open_source(source: Source, root: Path, partitions: Sequence[str]) -> SourceIndex:
    """Index the given partitions of a source (keys of `source.expected()`) in the folder that the user gave.

    Raises:
        BuildError: `root` is not a folder, holds no known layout of a partition, or has an image twice.
    """
    with store_of(root).cached_listings(root):
        if source.on_disk and not root.is_dir():
            raise BuildError(f"{source.title}: there is no folder {root}. Give the right one with --{source.key}.")
        pieces, in_memory = [], 0
        for piece in source.scan(root, partitions):
            table = spilled([piece.table.unify_dictionaries()], max(_IN_MEMORY - in_memory, LARGE))
            pieces.append(dataclasses.replace(piece, table=table))
            in_memory += table.nbytes
        index = SourceIndex(source, root, tuple(pieces))
    source_id = repeated_text([piece.table["source_id"] for piece in index.pieces])
    if source_id is not None:
        duplicates = index.table.filter(pc.equal(index.table["source_id"], source_id))
        places = " and ".join(duplicates["file"][:2].to_pylist())
        raise BuildError(f"{source.title}: {root} has the image {source_id} twice ({places}). Remove one of the two.")
    return index


def repeated_text(columns: Sequence[pa.ChunkedArray]) -> str | None:
    """Return the least text that occurs twice in some columns together, None if none does.

    Columns whose texts ascend from chunk to chunk have none twice, which is so for most sources. Others are compared
    by 64-bit hashes, 8 bytes a row, where Arrow's distinct count would take 500.
    """
    chunks = sorted((chunk for column in columns for chunk in column.chunks if len(chunk)), key=lambda c: c[0].as_py())
    if all(a[-1].as_py() < b[0].as_py() for a, b in itertools.pairwise(chunks)) and all(
        pc.all(pc.less(chunk[:-1], chunk[1:]), min_count=0).as_py() for chunk in chunks
    ):
        return None
    texts = pa.chunked_array(chunks, pa.string())
    blocks = (texts.slice(start, _BLOCK).to_pylist() for start in range(0, len(texts), _BLOCK))
    hashes = np.sort(np.concatenate([np.array(list(map(hash, block)), np.int64) for block in blocks]))
    if not (hashes[1:] == hashes[:-1]).any():
        return None
    counts = pc.value_counts(texts)
    repeated: str | None = pc.min(counts.field("values").filter(pc.greater(counts.field("counts"), 1))).as_py()
    return repeated  # None where two texts share a hash


def take_rows(table: pa.Table, rows: Rows) -> pa.Table:
    """Return rows of a table, in the given order.

    Arrow's `take` joins all chunks of a column of text before it takes any of them; its `filter` copies what is kept.
    """
    first, end = (int(rows.min()), int(rows.max()) + 1) if len(rows) else (0, 0)
    mask = np.zeros(end - first, np.bool_)
    mask[rows - first] = True
    selected = table.slice(first, end - first).filter(pa.array(mask))
    return selected.take(pa.array(np.cumsum(mask, dtype=np.int32)[rows - first] - 1))


def partition_table(
    class_ids: pa.DictionaryArray,
    source_ids: pa.Array,
    files: pa.Array,
    offsets: pa.Array | None = None,
    sizes: pa.Array | None = None,
    own: Mapping[str, pa.Array] | None = None,
) -> pa.Table:
    """Assemble a piece's table from its columns; without offsets and sizes every row is a whole file.

    `own` has the source's own columns by name.
    """
    rows = len(source_ids)
    zeros = pa.repeat(pa.scalar(0, pa.int64()), rows) if offsets is None else offsets
    unknown = pa.repeat(pa.scalar(-1, pa.int64()), rows) if sizes is None else sizes
    columns = {"class_id": class_ids, "source_id": source_ids, "file": files, "offset": zeros, "size": unknown}
    table = pa.table(columns, PARTITION_SCHEMA)
    for name, values in (own or {}).items():
        table = table.append_column(name, values)
    return table
