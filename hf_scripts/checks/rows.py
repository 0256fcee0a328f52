"""Checks the rows of shards and indexes: one file per task, read in small batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from builders.executors.base import ONE_CORE, Progress, Resources
from builders.release.digests import rows_digest
from builders.release.schema import ID_OVERLAP, ROLES, arrow_schema
from builders.release.split_entries import FileEntry, PartEntry, SplitEntry
from builders.storage.parquet import open_streamed, row_batches, row_group
from hf_scripts.checks.images import Decoded, check_images, concatenate
from hf_scripts.checks.manifest import check_file
from hf_scripts.checks.problems import Problems
from hf_scripts.checks.values import HEX_SHA256, SplitFacts, check_values

ROW_GROUP_BYTES = 100_000_000
"""Upper limit on the image bytes of one row group, as the Hub recommends for image datasets."""

_FEW_ROWS = 10_000
_ROW_BYTES = 16
"""Bytes of an index that each row takes at least: half of its digest, which cannot be compressed. Ours."""

_BATCH_ROWS = 256
_INDEX_BATCH_ROWS = 8192

UNREADABLE = (OSError, pa.ArrowException, UnicodeDecodeError)
"""Exceptions raised by reading a damaged Parquet file."""


@dataclass(frozen=True)
class Outcome:
    """The result of one task: problems, and the number of rows, None if the file could not be read to its end.

    `decoded` are the images of a shard whose split was compared by pixels or similarity.
    """

    problems: Problems
    rows: int | None = None
    decoded: Decoded = field(default_factory=Decoded)


@dataclass(frozen=True)
class FileTask:
    """A `builders.executors.base.Task` that checks the size and digest of one file of a release."""

    root: Path
    file: FileEntry
    resources: ClassVar[Resources] = ONE_CORE

    def run(self, progress: Progress) -> Outcome:
        """Check the file, and report its rows and bytes as done."""
        problems = check_file(self.root, self.file)
        outcome = Outcome(problems)
        if "file missing" not in problems.counts:
            try:
                outcome = self.check_contents(problems)
            except UNREADABLE as error:
                reason = str(error).splitlines()[0] if str(error) else type(error).__name__
                problems.add("Parquet", f"{self.file.path}: cannot be read as Parquet: {reason}")
        progress(outcome.rows or 0, self.file.size)
        return outcome

    def check_contents(self, problems: Problems) -> Outcome:
        """Check the content of a file that exists; here nothing. May raise `UNREADABLE`."""
        return Outcome(problems)


@dataclass(frozen=True)
class DataTask(FileTask):
    """Checks one shard.

    Its rows are compared with those of the file `index` from row `first` on, unless `index` is None. With `decode`,
    every image is decoded.
    """

    split: SplitFacts
    index: str | None
    first: int
    decode: bool

    def check_contents(self, problems: Problems) -> Outcome:
        """Check the schema and structure, and every row with its image."""
        decoded = Decoded()
        with open_streamed(self.root / self.file.path) as parquet:
            _check_structure(parquet, self.file.path, problems)
            if _check_schema(parquet.schema_arrow, self.split, self.file.path, problems, image=True):
                decoded = self._check_rows(parquet, problems)
            return Outcome(problems, parquet.metadata.num_rows, decoded)

    def _check_rows(self, parquet: pq.ParquetFile, problems: Problems) -> Decoded:
        decoded: list[Decoded] = []
        index = IndexRows(self.root / self.index, self.split, self.first) if self.index else None
        first = 0
        for group in range(parquet.num_row_groups):
            for batch in row_batches(parquet, _BATCH_ROWS, groups=[group]):
                rows = pa.Table.from_batches([batch])
                check_values(rows.drop_columns("image"), self.split, self.file.path, first, problems)
                decoded.append(
                    check_images(batch, self.file.path, first, problems, split=self.split, decode=self.decode)
                )
                if index is not None:
                    _compare(rows, index.take(batch.num_rows), self, first, problems)
                first += batch.num_rows
        return concatenate(decoded)


_COMPARED = ["id", "role", "class_id", "source", "content_sha256"]
"""Columns by which rows are compared with those of other splits."""


@dataclass(frozen=True)
class IndexTask(FileTask):
    """Checks the index of a split against its entry; `values` checks its cells too, for a split without shards."""

    split: SplitFacts
    entry: SplitEntry
    values: bool

    def check_contents(self, problems: Problems) -> Outcome:
        """Check the schema and structure, the ids, and that the rows are those of the entry and of its parts."""
        with open_streamed(self.root / self.file.path) as parquet:
            _check_structure(parquet, self.file.path, problems)
            sound = _check_schema(parquet.schema_arrow, self.split, self.file.path, problems, image=False)
            if not sound or not self._check_size(parquet, problems):
                return Outcome(problems)
            if self.values:
                first = 0
                for batch in row_batches(parquet, _INDEX_BATCH_ROWS):
                    check_values(pa.Table.from_batches([batch]), self.split, self.file.path, first, problems)
                    first += batch.num_rows
            overlaps = ID_OVERLAP in self.split.columns
            rows = parquet.read(columns=["label", *_COMPARED, *[ID_OVERLAP.name] * overlaps])
        self._check_identity(rows.select(["id", "label", "role", "content_sha256"]), problems)
        if not _is_sound(rows):
            return Outcome(problems)
        if self.entry.parts is not None:
            self._check_parts(rows, self.entry.parts, problems)
        if overlaps:
            self._check_overlaps(rows[ID_OVERLAP.name], problems)
        return Outcome(problems, rows.num_rows)

    def _check_size(self, parquet: pq.ParquetFile, problems: Problems) -> bool:
        """Refuse an index that would take far more memory than its size: few bytes can stand for many equal rows."""
        rows, size = parquet.metadata.num_rows, (self.root / self.file.path).stat().st_size
        if rows <= _FEW_ROWS or rows * _ROW_BYTES <= size:
            return True
        problems.add("Parquet", f"{self.file.path}: claims {rows:,} rows, too many for its {size:,} bytes")
        return False

    def _check_identity(self, rows: pa.Table, problems: Problems) -> None:
        counted = pc.value_counts(rows["id"])
        repeated = counted.filter(pc.greater(counted.field("counts"), 1)).field("values")
        for value in repeated[:100]:
            places = np.flatnonzero(pc.equal(rows["id"], value).to_numpy(zero_copy_only=False))
            numbers = ", ".join(map(str, places[:3]))
            problems.add("id repeated", f"{self.file.path}: the id {value} is repeated, in rows {numbers}")
        if any(column.null_count for column in rows.columns):
            problems.add("value missing", f"{self.file.path}: some cells have no value")
        elif (digest := rows_digest(rows)) != self.entry.digest:
            listed = f"not {self.entry.digest} as manifest.json lists"
            problems.add("rows digest", f"{self.split.key}: the rows have the digest {digest}, {listed}")

    def _check_parts(self, rows: pa.Table, parts: Sequence[PartEntry], problems: Problems) -> None:
        """Check the rows of each role and source of a joined split."""
        counts: Counter[tuple[str, str]] = Counter()
        for part in parts:
            counts[part.role, part.source] += part.rows
        counted = rows.group_by(["role", "source"]).aggregate([([], "count_all")])
        present = {(ROLES[row["role"]], row["source"]): row["count_all"] for row in counted.to_pylist()}
        for role, source in sorted(counts.keys() | present.keys()):
            expected, count = counts[role, source], present.get((role, source), 0)
            if expected != count:
                rows_of = f"{count:,} rows of role {role} from {source}"
                problems.add("parts", f"{self.split.key}: has {rows_of}, and its parts have {expected:,}")

    def _check_overlaps(self, values: pa.ChunkedArray, problems: Problems) -> None:
        """Check the number of rows whose class overlaps a known one."""
        overlapping, listed = len(values) - values.null_count, self.entry.overlaps
        if listed != overlapping:
            number = "no number" if listed is None else f"{listed:,}"
            problems.add(
                "overlaps",
                f"{self.split.key}: {overlapping:,} rows have an id_overlap, and manifest.json lists {number}",
            )


def _is_sound(rows: pa.Table) -> bool:
    """Whether the cells by which splits are compared have values of the right form; other checks report wrong ones."""
    roles = rows["role"]
    if any(rows[name].null_count for name in _COMPARED):
        return False
    inside = pc.and_(pc.greater_equal(roles, 0), pc.less(roles, len(ROLES)))
    digests = pc.match_substring_regex(rows["content_sha256"], HEX_SHA256)
    return bool(pc.all(pc.and_(inside, digests), min_count=0).as_py())


class IndexRows:
    """Reads an index from a given row on, a few rows at a time."""

    def __init__(self, path: Path, split: SplitFacts, first: int) -> None:
        self.batches = _index_batches(path, arrow_schema(split.label_names, split.columns, image=False))
        self.left: pa.Table | None = None
        while first > 0:
            first -= self.take(min(first, _INDEX_BATCH_ROWS)).num_rows or first

    def take(self, count: int) -> pa.Table:
        """The next `count` rows, or fewer at the end of the index."""
        while (self.left is None or self.left.num_rows < count) and (more := next(self.batches, None)) is not None:
            self.left = more if self.left is None else pa.concat_tables([self.left, more])
        if self.left is None:
            return pa.table({})
        taken, self.left = self.left.slice(0, count), self.left.slice(count)
        return taken


def _index_batches(path: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    try:
        with open_streamed(path) as parquet:
            if parquet.schema_arrow.equals(schema):
                for batch in row_batches(parquet, _INDEX_BATCH_ROWS):
                    yield pa.Table.from_batches([batch])
    except UNREADABLE:
        return  # reported by the task of the index


def _compare(rows: pa.Table, index: pa.Table, task: DataTask, first: int, problems: Problems) -> None:
    """Compare a shard's rows with the index, column by column."""
    path, count = task.file.path, min(rows.num_rows, index.num_rows)
    if index.num_rows < rows.num_rows:
        extra = pa.array(np.arange(rows.num_rows) >= index.num_rows)
        problems.add_rows(
            "row not in the index", extra, lambda i: f"{path} row {first + i}: the row is not in {task.index}"
        )
    for name in index.column_names:
        expected, values = index[name].slice(0, count), rows[name].slice(0, count)
        if not values.equals(expected):
            problems.add_rows(
                f"{name} differs from the index",
                _differ(values, expected),
                lambda i, name=name, expected=expected, values=values: (  # type: ignore[misc]
                    f"{path} row {first + i}: {name} is {values[i]}, and {expected[i]} in {task.index}"
                ),
            )


def _differ(values: pa.ChunkedArray, expected: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether cells differ; a cell without a value differs from one that has any."""
    return pc.coalesce(pc.not_equal(values, expected), pc.not_equal(pc.is_null(values), pc.is_null(expected)))


def _check_schema(schema: pa.Schema, split: SplitFacts, path: str, problems: Problems, *, image: bool) -> bool:
    """Check columns, types and metadata, which has the features. Returns False for wrong columns or types."""
    expected = arrow_schema(split.label_names, split.columns, image=image, demo=split.demo)
    if not schema.equals(expected):
        problems.add("columns", f"{path}: wrong columns: expected {_columns(expected)}; found {_columns(schema)}")
        return False
    if not schema.equals(expected, check_metadata=True):
        problems.add("features", f"{path}: {other_metadata(schema, expected)}")
    return True


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def other_metadata(schema: pa.Schema, expected: pa.Schema) -> str:
    """Describe how a schema's metadata, from which `datasets` reads features, differs."""
    differing = (schema.metadata or {}).items() ^ (expected.metadata or {}).items()
    keys = sorted({key.decode("utf-8", "replace") for key, _ in differing})
    return f"the schema's metadata is not that of a release (in {', '.join(keys) or 'a column'})"


def _check_structure(parquet: pq.ParquetFile, path: str, problems: Problems) -> None:
    """Check that parts of a file can be read quickly, by small row groups and a page index."""
    for group in range(parquet.num_row_groups):
        metadata = row_group(parquet, group)
        for number in range(metadata.num_columns):
            column = metadata.column(number)
            name = column.path_in_schema
            if name == "image.bytes" and column.total_uncompressed_size > ROW_GROUP_BYTES:
                size = column.total_uncompressed_size
                problems.add(
                    "row group",
                    f"{path} row group {group}: {size:,} image bytes, more than the limit of {ROW_GROUP_BYTES:,}",
                )
            # Columns of images have no statistics, hence an offset index alone.
            if not column.has_offset_index or not (column.has_column_index or name.startswith("image.")):
                problems.add("page index", f"{path} row group {group}: {name} has no page index")
