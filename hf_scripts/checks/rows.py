"""Tasks that check one file each: an index, a shard or sealed residuals, read in small batches.

An index is checked against the manifest, and what lies beside it is compared with the index, row by row.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from builders.duplicates.distance import Images
from builders.duplicates.pixels import Pixels
from builders.errors import BuildError, first_line, os_errors_as_build_errors
from builders.executors.base import ONE_CORE, Progress, Resources
from builders.release.digests import IDENTITY, rows_digest
from builders.release.entries import FileEntry, SplitEntry
from builders.release.schema import ID_OVERLAP, ROLES, demo_metadata
from builders.storage.parquet import (
    UNREADABLE,
    image_batch_rows,
    open_parquet,
    open_streamed,
    read_rows,
    row_batches,
    row_group,
)
from builders.storage.sealed_files import SCHEMA, check_size, read_sealed_header
from hf_scripts.checks.images import Decoded, check_images, concatenate
from hf_scripts.checks.index_walk import IndexWalk
from hf_scripts.checks.manifest import check_file
from hf_scripts.checks.problems import Problems
from hf_scripts.checks.values import HEX_SHA256, SplitFacts, check_values

ROW_GROUP_BYTES = 100_000_000
"""Upper limit on the image bytes of one row group, as the Hub recommends for image datasets."""

PART_BYTES = 1 << 26
"""Bytes of row groups that one task reads at least (ours): a second or two of decoding."""

_FEW_ROWS = 10_000
_ROW_BYTES = 16
"""Bytes of an index that each row takes at least: half of its digest, which cannot be compressed. Ours."""

_INDEX_BATCH_ROWS = 8192


@dataclass(frozen=True)
class Outcome:
    """The result of one task: the problems found, and the number of rows read; None if some rows could not be read.

    `decoded` are the images of a shard whose split was compared by pixels or similarity.
    """

    problems: Problems
    rows: int | None = None
    decoded: Decoded = field(default_factory=Decoded)


def joined_outcome(parts: Sequence[Outcome]) -> Outcome:
    """Join the outcomes of the parts of a file, up to one that was not read to its end."""
    problems, rows, decoded = Problems(), 0, list[Decoded]()
    for part in parts:
        problems.merge(part.problems)
        if part.rows is None:
            return Outcome(problems)
        rows += part.rows
        decoded.append(part.decoded)
    return Outcome(problems, rows, concatenate(decoded))


@dataclass(frozen=True)
class FileTask:
    """Checks the size and digest of one file of a release."""

    root: Path
    file: FileEntry

    @property
    def size(self) -> int:
        """Bytes that are checked."""
        return self.file.size

    def check(self, progress: Progress, indexes: IndexWalk) -> Outcome:
        """Check the file, and report its rows and bytes as done."""
        problems = self.check_whole()
        outcome = Outcome(problems)
        if "file missing" not in problems.counts:
            try:
                outcome = self.check_contents(problems, indexes)
            except UNREADABLE as error:
                problems.add("Parquet", f"{self.file.path}: cannot be read as Parquet: {first_line(error)}")
        progress(outcome.rows or 0, self.size)
        return outcome

    def check_whole(self) -> Problems:
        """Check what concerns all bytes of the file."""
        return check_file(self.root, self.file)

    def check_contents(self, problems: Problems, indexes: IndexWalk) -> Outcome:
        """Check the contents of a file that exists; subclasses override this. May raise `UNREADABLE`."""
        return Outcome(problems)


@dataclass(frozen=True)
class FilesTask:
    """A `builders.executors.base.Task` that checks files in turn, which walk through the index of a split together."""

    tasks: tuple[FileTask, ...]
    resources: ClassVar[Resources] = ONE_CORE

    @property
    def size(self) -> int:
        """Bytes that are checked."""
        return sum(task.size for task in self.tasks)

    def run(self, progress: Progress) -> list[Outcome]:
        """Check the files, and report their rows and bytes as done."""
        with IndexWalk() as indexes:
            return [task.check(progress, indexes) for task in self.tasks]


_COMPARED = ["id", "role", "class_id", "source", "content_sha256"]
"""Columns by which rows are compared with those of other splits."""


@dataclass(frozen=True)
class IndexTask(FileTask):
    """Checks the index of a split: its cells, and that the manifest's digest and parts describe its rows."""

    split: SplitFacts
    entry: SplitEntry

    def check_contents(self, problems: Problems, indexes: IndexWalk) -> Outcome:
        """Check structure and schema, every cell, the ids, and the digest over the rows."""
        path = self.file.path
        with open_streamed(self.root / path) as parquet:
            _check_structure(parquet, path, problems)
            claimed, size = parquet.metadata.num_rows, (self.root / path).stat().st_size
            if not _check_schema(parquet.schema_arrow, self.split.schema(image=False), path, problems):
                return Outcome(problems)
            # Few bytes can stand for many equal rows, which would take far more memory.
            if claimed > _FEW_ROWS and claimed * _ROW_BYTES > size:
                problems.add("Parquet", f"{path}: claims {claimed:,} rows, too many for its {size:,} bytes")
                return Outcome(problems)
            rows = 0
            for batch in row_batches(parquet, _INDEX_BATCH_ROWS):
                check_values(pa.Table.from_batches([batch]), self.split, path, rows, problems)
                rows += batch.num_rows
            overlaps = ID_OVERLAP in self.split.columns
            table = read_rows(parquet, ["label", *_COMPARED, *[ID_OVERLAP.name] * overlaps])
        self._check_identity(table.select(IDENTITY), problems)
        if not _is_sound(table):
            return Outcome(problems)
        if len(self.entry.parts) > 1:  # `check_values` says that all rows are of the only part, others how many
            self._check_parts(table, problems)
        if overlaps and (count := len(table) - table[ID_OVERLAP.name].null_count) != self.entry.overlaps:
            listed = "no number" if self.entry.overlaps is None else f"{self.entry.overlaps:,}"
            wrong = f"{count:,} rows have an id_overlap, and manifest.json lists {listed}"
            problems.add("overlaps", f"{self.split.key}: {wrong}")
        return Outcome(problems, rows)

    def _check_identity(self, rows: pa.Table, problems: Problems) -> None:
        counted = pc.value_counts(rows["id"])
        repeated = counted.filter(pc.greater(counted.field("counts"), 1)).field("values")
        for value in repeated[:100]:
            places = np.flatnonzero(pc.equal(rows["id"], value).to_numpy(zero_copy_only=False))
            numbers = ", ".join(map(str, places[:3]))
            problems.add("id repeated", f"{self.file.path}: the id {value} is repeated, in rows {numbers}")
        if (
            not any(column.null_count for column in rows.columns)
            and (digest := rows_digest(rows)) != self.entry.digest
        ):
            listed = f"not {self.entry.digest} as manifest.json lists"
            problems.add("rows digest", f"{self.split.key}: the rows have the digest {digest}, {listed}")

    def _check_parts(self, rows: pa.Table, problems: Problems) -> None:
        """Check the number of rows of each role and source of a joined split."""
        counts: Counter[tuple[str, str]] = Counter()
        for part in self.entry.parts:
            counts[part.role, part.source] += part.rows
        counted = rows.group_by(["role", "source"]).aggregate([([], "count_all")]).to_pylist()
        present = {(ROLES[row["role"]], row["source"]): row["count_all"] for row in counted}
        for role, source in sorted(counts.keys() | present.keys()):
            expected, count = counts[role, source], present.get((role, source), 0)
            if expected != count:
                rows_of = f"{count:,} rows of role {role} from {source}"
                problems.add("parts", f"{self.split.key}: has {rows_of}, and its parts have {expected:,}")


def _is_sound(rows: pa.Table) -> bool:
    """Whether the cells by which splits are compared have values of the right form; other checks report wrong ones."""
    roles = rows["role"]
    if any(rows[name].null_count for name in _COMPARED):
        return False
    inside = pc.and_(pc.greater_equal(roles, 0), pc.less(roles, len(ROLES)))
    digests = pc.match_substring_regex(rows["content_sha256"], HEX_SHA256)
    return bool(pc.all(pc.and_(inside, digests), min_count=0).as_py())


class _Beside(NamedTuple):
    """Rows of a row group, the first one's number in the file, and as many rows of the index, None if not known."""

    group: int
    first: int
    rows: pa.RecordBatch
    of_index: pa.Table | None


class ShardPart(NamedTuple):
    """Row groups of a file that one task reads, the number of rows before them, and the bytes that they stand for."""

    groups: slice
    row: int
    size: int


WHOLE = ShardPart(slice(None), 0, 0)


def parts_of(metadata: pq.FileMetaData, size: int, least: int = PART_BYTES) -> list[ShardPart]:
    """Divide a file of `size` bytes into parts of row groups that have `least` bytes or a little more."""
    parts, start, row, rows, left, held = list[ShardPart](), 0, 0, 0, size, 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        rows, held = rows + group.num_rows, held + group.total_byte_size
        if held >= least and held < left and number + 1 < metadata.num_row_groups:
            parts.append(ShardPart(slice(start, number + 1), row, held))
            start, row, rows, left, held = number + 1, row + rows, 0, left - held, 0
    return [*parts, ShardPart(slice(start, None), row, left)]


@dataclass(frozen=True)
class RowsTask(FileTask):
    """Compares the rows of a file with those of the index from row `first` on; `index` is None if unusable."""

    split: SplitFacts
    index: str | None
    first: int

    def _beside_index(self, parquet: pq.ParquetFile, indexes: IndexWalk, part: ShardPart = WHOLE) -> Iterator[_Beside]:
        """Yield the rows of a part of the file, some of a row group at a time, with what the index has of them."""
        schema, first = self.split.schema(image=False).remove_metadata(), part.row
        for group in range(parquet.num_row_groups)[part.groups]:
            for batch in row_batches(parquet, image_batch_rows(parquet, group), groups=[group]):
                index = None
                if self.index is not None:
                    index = indexes.rows(self.root / self.index, schema, self.first + first, batch.num_rows)
                yield _Beside(group, first, batch, index)
                first += batch.num_rows

    def _compare(self, first: int, rows: pa.Table, index: pa.Table, problems: Problems) -> None:
        """Compare rows with the index, column by column; a cell without a value differs from one that has any."""
        path, count = self.file.path, min(rows.num_rows, index.num_rows)
        extra = pa.array(np.arange(rows.num_rows) >= count)
        problems.add_rows(
            "row not in the index", extra, lambda i: f"{path} row {first + i}: the row is not in {self.index}"
        )
        for name in rows.column_names if count else ():
            expected, values = index[name].slice(0, count), rows[name].slice(0, count)
            if not values.equals(expected):
                nulls = pc.not_equal(pc.is_null(values), pc.is_null(expected))
                problems.add_rows(
                    f"{name} differs from the index",
                    pc.coalesce(pc.not_equal(values, expected), nulls),
                    lambda i, name=name, expected=expected, values=values: (  # type: ignore[misc]
                        f"{path} row {first + i}: {name} is {values[i]}, and {expected[i]} in {self.index}"
                    ),
                )


@dataclass(frozen=True)
class DataTask(RowsTask):
    """Checks a part of a shard of images, of which the first part's task checks what concerns the whole file.

    With `decode` every image is decoded, and scaled `into` a file if its split was compared by similarity.
    """

    decode: bool
    part: ShardPart = WHOLE
    into: Path | None = None

    @property
    def size(self) -> int:
        """Bytes of the part."""
        return self.part.size or self.file.size

    @property
    def _is_first(self) -> bool:
        return not self.part.groups.start

    def check_whole(self) -> Problems:
        """Check size and digest of the file."""
        return super().check_whole() if self._is_first else Problems()

    def check_contents(self, problems: Problems, indexes: IndexWalk) -> Outcome:
        """Check structure and schema, every image, and that the rows are those of the index."""
        path, decoded, read, sizes = self.file.path, list[Decoded](), 0, Counter[int]()
        of_file = problems if self._is_first else Problems()  # the first part's task tells of it
        with open_streamed(self.root / path) as parquet, self._keeping() as keep:
            if self._is_first:
                _check_structure(parquet, path, problems)
            if not _check_schema(parquet.schema_arrow, self.split.schema(image=True), path, of_file):
                return Outcome(problems)
            for group, first, rows, index in self._beside_index(parquet, indexes, self.part):
                decoded.append(
                    check_images(rows, path, first, problems, split=self.split, decode=self.decode, keep=keep)
                )
                if index is not None:
                    self._compare(first, pa.Table.from_batches([rows]).drop_columns("image"), index, problems)
                lengths = pc.binary_length(pc.struct_field(rows.column("image"), "bytes"))
                sizes[group] += pc.sum(lengths, min_count=0).as_py()
                read += rows.num_rows
        for group, size in sizes.items():
            if size > ROW_GROUP_BYTES:
                wrong = f"{size:,} image bytes, more than the limit of {ROW_GROUP_BYTES:,}"
                problems.add("row group", f"{path} row group {group}: {wrong}")
        found = concatenate(decoded)
        if self.into is not None:
            found = replace(found, pixels=Pixels(((self.into, 0, read),)))
        return Outcome(problems, read, found)

    @contextlib.contextmanager
    def _keeping(self) -> Iterator[Callable[[Images], object] | None]:
        """Yield what appends scaled images to the file for them, if there is to be one."""
        if self.into is None:
            yield None
            return
        with contextlib.ExitStack() as stack:
            # An error of this file is none of the shard's.
            kept = f"keep scaled images in {self.into.parent}"
            with os_errors_as_build_errors(kept):
                opened = stack.enter_context(self.into.open("wb"))

            def keep(images: Images) -> None:
                with os_errors_as_build_errors(kept):
                    opened.write(images.data)
                    opened.flush()

            yield keep


@dataclass(frozen=True)
class SealedTask(RowsTask):
    """Checks a file of sealed residuals as far as possible without the originals: ids, and the residuals' headers."""

    def check_contents(self, problems: Problems, indexes: IndexWalk) -> Outcome:
        """Check the schema, the header of each residual, and that the ids are those of the index."""
        path, read = self.file.path, 0
        with open_parquet(self.root / path, pre_buffer=False) as parquet:
            _check_structure(parquet, path, problems)
            expected = SCHEMA.with_metadata(demo_metadata(demo=self.split.demo))
            if not _check_schema(parquet.schema_arrow, expected, path, problems):
                return Outcome(problems)
            for _, first, rows, index in self._beside_index(parquet, indexes):
                if index is not None:
                    self._compare(first, pa.Table.from_batches([rows]).select(["id"]), index, problems)
                cells = zip(rows["id"].to_pylist(), rows["sealed"].to_pylist(), strict=True)
                for number, (name, sealed) in enumerate(cells, start=first):
                    try:
                        check_size(read_sealed_header(sealed or b"", str(name)), str(name), self.split.prepared)
                    except BuildError as error:
                        reason = str(error).partition(". ")[0]
                        problems.add("sealed residual", f"{path} row {number}: {reason}")
                read += rows.num_rows
        return Outcome(problems, read)


def _check_schema(schema: pa.Schema, expected: pa.Schema, path: str, problems: Problems) -> bool:
    """Check columns, types and metadata, which has the features. Returns False for wrong columns or types."""
    if not schema.equals(expected):
        columns, found = (", ".join(f"{column.name} {column.type}" for column in s) for s in (expected, schema))
        problems.add("columns", f"{path}: wrong columns: expected {columns}; found {found}")
        return False
    if not schema.equals(expected, check_metadata=True):
        differing = (schema.metadata or {}).items() ^ (expected.metadata or {}).items()
        keys = ", ".join(sorted({key.decode("utf-8", "replace") for key, _ in differing}))
        place = f"(in {keys or 'a column'})"
        problems.add("features", f"{path}: the schema's metadata is not that of a release {place}")
    return True


def _check_structure(parquet: pq.ParquetFile, path: str, problems: Problems) -> None:
    """Check that a file has no row group without rows, at which `datasets` (5.2) fails, and in each a page index."""
    for group in range(parquet.num_row_groups):
        metadata, where = row_group(parquet, group), f"{path} row group {group}"
        if not metadata.num_rows:
            problems.add("row group", f"{where}: has no rows, which datasets cannot read")
            continue
        for number in range(metadata.num_columns):
            column = metadata.column(number)
            # Columns of images and residuals have no statistics, hence an offset index alone.
            has_statistics = column.path_in_schema not in ("image.bytes", "image.path", "sealed")
            if not column.has_offset_index or (has_statistics and not column.has_column_index):
                problems.add("page index", f"{where}: {column.path_in_schema} has no page index")
