"""The types of upstream datasets: a declaration (`Source`), and an index of its images without pixels.

A source module declares one `Source` value, with the layouts that a copy may have. An image has the same `source_id`
in every layout, so a plan does not depend on how a copy is laid out.

Tested by `tests/builders/sources/test_errors.py`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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

Container = Literal["file", "span", "parquet", "batch", "idx", "mat", "targz", "zip", "made"]
"""The container from which an image's bytes are read.

`file`: `file` is an image file. `span`: `size` bytes at `offset` of `file` (an image inside an uncompressed tar or an
LMDB database). `made`: nothing is read; the image is generated from the row's id. In all others the image is row
number `offset` of the container `file`, which is unpacked first (`builders.sources.unpack`); it may lie inside an
archive (`archive.tar.gz/member`).
"""

IN_PLACE: tuple[Container, ...] = ("file", "span", "made")
"""The containers that need no unpacking."""

Encoding = Literal["encoded", "rgb32", "planar32", "grey28", "none"]
"""The encoding of an image's bytes.

`encoded`: an image file. `rgb32`: 32 rows of 32 RGB pixels, 3,072 bytes, interleaved. `planar32`: the same pixels, one
colour after the other. `grey28`: 28 rows of 28 grey pixels. `none`: no bytes (`made`).
"""

Int64 = npt.NDArray[np.int64]

Rows = npt.NDArray[np.integer]
"""Row numbers of a source's index: in 32 bits where a plan keeps them, as it does tens of millions."""

Shape = tuple[int, ...]

RGB32: Shape = (32, 32, 3)
GREY28: Shape = (28, 28)

RGB32_BYTES = math.prod(RGB32)

ARRAY_SHAPES: Mapping[str, Shape] = {"rgb32": RGB32, "planar32": RGB32, "grey28": GREY28}
"""The shape of an image by the encoding of its bytes, where these are pixels."""

DEMO_MARKER = "DEMO.txt"
"""The file in a demo's root and in the folder of each of its sources that says that the images are made up."""

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
"""Columns of one partition: `file` is relative to the source's root, with forward slashes; `size` is -1 where unknown.

A source's own columns (`Source.columns`) stand behind them.
"""


@dataclass(frozen=True)
class Expected:
    """The image counts of a complete partition by its owner: in total and, where known, by class.

    `class_sizes` are the sizes of the smallest and the largest class, if the owner states only these.
    """

    total: int
    per_class: Mapping[str, int] | None = None
    class_sizes: tuple[int, int] | None = None

    @classmethod
    def each(cls, classes: Iterable[str], images: int) -> Expected:
        """Return the counts of a partition with equally many images in each class."""
        return cls.of(dict.fromkeys(classes, images))

    @classmethod
    def of(cls, per_class: Mapping[str, int]) -> Expected:
        """Return the counts of a partition, given by class."""
        return cls(sum(per_class.values()), per_class)


@dataclass(frozen=True)
class Stray:
    """A file or folder among the images that is no image of the source; `reason` says why."""

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

    name: str
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
        """The number of images of each class that has any, by class id."""
        counts = pc.value_counts(self.table["class_id"])
        names = counts.field("values").cast(pa.string()).to_pylist()
        return dict(zip(names, counts.field("counts").to_pylist(), strict=True))

    def stacked(self) -> pa.Table:
        """Return the table with `partition`, `how` and `form` as columns of one value each."""
        zeros = pa.repeat(pa.scalar(0, pa.int16()), self.table.num_rows)
        table = self.table
        for name, value in (("partition", self.name), ("how", self.how), ("form", self.form)):
            table = table.append_column(name, pa.DictionaryArray.from_arrays(zeros, [value]))
        return table


class OtherDataError(BuildError):
    """A folder looks like a layout of a source's partition, but holds other data.

    The search continues, and raises this only if it finds nothing else.
    """


class AbsentPartitionError(BuildError):
    """A folder and those below it hold nothing that looks like a partition of a source."""


@dataclass(frozen=True)
class Home:
    """A folder in which a source's partition is looked for: the one that the user gave (`root`), or one below it."""

    source: Source
    root: Path
    folder: Path
    partition: str

    def other_data(self, problem: str) -> OtherDataError:
        """Return the error for data of another source; `problem` says what shows it, as a clause without full stop."""
        title = self.source.title
        return OtherDataError(f"{title}: {problem}. Give a copy of {title} with --{self.source.key}.")


@dataclass(frozen=True)
class CopyLayout:
    """A layout in which copies are accepted: a description for messages, and a function that reads it if it is there.

    The partition's name replaces `{partition}` in the description. `partitions` are those that may be laid out so;
    without any, all may.
    """

    description: str
    find: Callable[[Home], PartitionIndex | None]
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """An upstream dataset: its facts, its licence, and how copies of it are read.

    `key` names it in plans, flags (`--<key> DIR`) and declarations. `obtain` says how to get a copy; it is None for a
    source that this project makes itself, which has no folder and no flag.

    `classes` maps every class id to its name, in the owner's order. `expected` maps each partition to its complete
    size, of the edition that `edition` names. `accepted` are the layouts of a copy, in the order of trying.

    `arrays` is the shape of a source's images if they are pixel arrays upstream: rows hold them as PNG and are
    identified by their pixels, so that every layout gives equal rows. `shared_sides` are the shorter sides that all
    images of an owner's edition may share, where they have many sizes otherwise, and `one_size` is the width and
    height of all images, where they have one; None where no copy shows by its images' sizes that it was resized.
    `columns` are what the source says of each image beside its class; the partitions' tables have them, and so has
    every row of a release that comes from the source. `contents` is a digest of all images of a person's own folder,
    which no published size or digest says anything of: shards that were made of others are written anew.
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
    arrays: Shape = ()
    shared_sides: tuple[int, ...] | None = None
    one_size: tuple[int, int] | None = None
    columns: tuple[Column, ...] = ()
    contents: str = ""

    @property
    def on_disk(self) -> bool:
        """Whether people have copies of the source in folders."""
        return self.obtain is not None

    @property
    def layouts(self) -> tuple[str, ...]:
        """The accepted layouts, one line each, for the message that the source is missing."""
        return tuple(
            f"{partition}: {layout.description.format(partition=partition)}"
            for partition in self.expected()
            for layout in self.layouts_of(partition)
        )

    def layouts_of(self, partition: str) -> list[CopyLayout]:
        """Return the layouts that a partition may have, in the order in which they are tried."""
        return [layout for layout in self.accepted if partition in (layout.partitions or (partition,))]


def is_demo(folder: Path) -> bool:
    """Whether a folder is a demo, or the folder of one of its sources."""
    return (folder / DEMO_MARKER).is_file()


@dataclass(frozen=True)
class SourceIndex:
    """The index of a copy of a source in `root`: its partitions, whose rows are numbered consecutively.

    Columns of rows are those of the partitions' tables, and `partition`, `how` and `form`.
    """

    source: Source
    root: Path
    partitions: tuple[PartitionIndex, ...]

    @functools.cached_property
    def table(self) -> pa.Table:
        """The rows of all partitions."""
        return pa.concat_tables([partition.stacked() for partition in self.partitions]).unify_dictionaries()

    @functools.cached_property
    def starts(self) -> Int64:
        """The number of each partition's first row, then the total; shape (partitions + 1,)."""
        return np.cumsum([0, *(partition.table.num_rows for partition in self.partitions)])

    @functools.cached_property
    def class_ids(self) -> npt.NDArray[np.str_]:
        """The classes of the images, those of every partition once."""
        chunks = self.table["class_id"].chunks  # which share one dictionary
        return np.array(chunks[0].dictionary.to_pylist() if chunks else [], dtype=np.str_)

    @functools.cached_property
    def class_codes(self) -> npt.NDArray[np.integer]:
        """The position in `class_ids` of each image's class."""
        # NumPy sorts 16-bit integers with a radix sort, ten times faster, and hardly any source has more classes.
        narrow = np.uint16 if len(self.class_ids) <= 1 << 16 else np.int32
        codes = [chunk.indices.to_numpy() for chunk in self.table["class_id"].chunks]
        return np.concatenate([np.empty(0, np.int32), *codes], dtype=narrow, casting="unsafe")

    @property
    def num_rows(self) -> int:
        """The number of images."""
        return int(self.starts[-1])

    def partition_of(self, rows: Rows) -> Int64:
        """Return the position in `partitions` of each row's partition."""
        return np.searchsorted(self.starts, rows, side="right") - 1

    def take(self, names: Sequence[str], rows: Rows) -> pa.Table:
        """Return some columns of the given rows, in the order of the rows."""
        return take_rows(self.table.select(list(names)), rows)

    def values(self, name: str, rows: Rows) -> pa.Array:
        """Return the values of some rows in a column."""
        values = self.take([name], rows)[name].combine_chunks()
        return pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values

    @property
    def layouts(self) -> dict[str, str]:
        """The layout that was recognised for each partition."""
        return {partition.name: partition.layout for partition in self.partitions}

    def rows_of(self, partitions: Collection[str], class_ids: Collection[str] | None = None) -> Rows:
        """Return the ascending row numbers of the images in some partitions, if given of some classes alone."""
        selected = [partition.name in partitions for partition in self.partitions]
        rows: Rows = np.flatnonzero(np.repeat(selected, np.diff(self.starts))).astype(np.int32)
        if class_ids is not None:
            rows = rows[np.isin(self.class_ids, list(class_ids))[self.class_codes[rows]]]
        return rows

    def by_partition(self, rows: Rows) -> list[Rows]:
        """Divide ascending rows by partition, in the order of the index."""
        bounds = itertools.pairwise(np.searchsorted(rows, self.starts).tolist())
        return [rows[start:stop] for start, stop in bounds]

    def class_sizes(self, rows: Rows) -> Int64:
        """Count rows by class."""
        return np.bincount(self.class_codes[rows], minlength=len(self.class_ids))

    def tally(self, rows: Rows) -> Int64:
        """Count ascending rows by partition and class; shape (partitions, classes)."""
        return np.array([self.class_sizes(inside) for inside in self.by_partition(rows)])

    def find(self, ids: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Return the row number of each id; null for an id that no image has."""
        rows = pc.index_in(ids, value_set=self.table["source_id"].combine_chunks())
        return (rows.combine_chunks() if isinstance(rows, pa.ChunkedArray) else rows).cast(pa.int64())


def take_rows(table: pa.Table, rows: Rows) -> pa.Table:
    """Return the given rows of a table, in the given order.

    Arrow's `take` joins all chunks of a column of text before it takes any of them; its `filter` copies what is kept.
    """
    first, end = (int(rows.min()), int(rows.max()) + 1) if len(rows) else (0, 0)
    mask = np.zeros(end - first, np.bool_)
    mask[rows - first] = True
    selected = table.slice(first, end - first).filter(pa.array(mask))
    return selected.take(pa.array(np.cumsum(mask, dtype=np.int32)[rows - first] - 1))


def partition_table(
    classes: Sequence[str],
    codes: npt.NDArray[np.integer],
    source_ids: pa.Array,
    files: pa.Array,
    offsets: pa.Array | None = None,
    sizes: pa.Array | None = None,
    own: Mapping[str, pa.Array] | None = None,
) -> pa.Table:
    """Assemble the table of a partition from columns; without offsets and sizes each row is an entire file.

    `codes` are the positions of the rows' classes in `classes`, and `own` has the source's own columns by name.
    """
    class_ids = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(classes, pa.string()))
    rows = len(source_ids)
    zeros = pa.repeat(pa.scalar(0, pa.int64()), rows) if offsets is None else offsets
    unknown = pa.repeat(pa.scalar(-1, pa.int64()), rows) if sizes is None else sizes
    columns = {"class_id": class_ids, "source_id": source_ids, "file": files, "offset": zeros, "size": unknown}
    table = pa.table(columns, PARTITION_SCHEMA)
    for name, values in (own or {}).items():
        table = table.append_column(name, values)
    return table
