"""Reads names and labels from a Hub mirror's Parquet files without their images, within bounds of memory.

Faithful variants are read: text and bytes in any of Arrow's types for them, labels of any integer type.

Of 40,000 damaged files (bits flipped anywhere, cut, any integer of the footer or of a page header replaced) none made
pyarrow 26 crash or hang, so files are read in this process. Two things had to be bounded: it reserves memory for as
many rows as the footer claims, and a short file may repeat one long value a million times.

Tested by `tests/builders/sources/readers/test_parquet.py`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from builders.errors import BuildError, one_line
from builders.sources.base import OtherDataError
from builders.storage.files import require_regular
from builders.storage.parquet import open_parquet, row_batches

IMAGE_COLUMNS = ("image", "img")
"""Names of the image column in mirrors."""

NAME_COLUMNS = ("filename", "image_file_path")
"""Names of a column of file names in mirrors; it is read instead of `image.path`."""

ADVICE = "Take the Parquet files that the Hub serves for the dataset itself"
"""The next step where a mirror cannot be used."""

_ROWS = 256
"""Rows that are decoded at a time: one long value that a file repeats fills memory at most so often."""

_IMAGES = 64
"""Images that are read at a time."""

_LONGEST_NAME = 4096
"""Bytes of the longest file name with its folders: PATH_MAX of Linux."""

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())

_MIRROR = "Parquet mirror"


# A folder if there is one, and a file name that starts with what its class is called there.
_NAME = r"^(?:(?:.*/)?(?P<folder>[^/]+)/)?(?P<file>(?P<start>[^/]+)_[^/_]+)$"


@dataclass(frozen=True)
class Shard:
    """The names and labels of one Parquet file: each row's file name and label number, and the label names if given.

    `names` is all null if names were not requested, `labels` if the file has none and none are required. `advice` is
    the next step for a mirror that cannot be used, as a sentence without its full stop.
    """

    title: str
    path: Path
    names: pa.Array
    labels: pa.Array
    label_names: tuple[str, ...] | None
    advice: str = ADVICE

    @property
    def file_names(self) -> pa.Array:
        """The file names without folders."""
        return pc.replace_substring_regex(self.names, pattern="^.*/", replacement="")

    def refuse(self, wrong: pa.Array, problem: str) -> None:
        """Refuse the file if any row is marked wrong; the message names the first one.

        In `problem`, which says what is wrong with such a row, `{name}` and `{label}` are filled in from it.
        """
        row = pc.index(wrong, True).as_py()
        if row >= 0:
            text = problem.format(name=one_line(self.names[row].as_py()), label=self.labels[row].as_py())
            raise OtherDataError(f"{self.title}: {text} (row {row} of {self.path}). {self.advice}.")

    def refuse_labels(self, count: int, problem: str = "") -> None:
        """Refuse labels that are missing, or not between 0 and `count` - 1."""
        inside = pc.and_(pc.greater_equal(self.labels, 0), pc.less(self.labels, count))
        problem = problem or f"the label {{label}} is not from 0 to {count - 1}"
        self.refuse(pc.fill_null(pc.invert(inside), True), problem)

    def refuse_other_labels(self, names: Sequence[str]) -> None:
        """Refuse labels outside the source's numbering, and label names in another order than the source's."""
        if self.label_names is not None and self.label_names != tuple(names):
            pairs = enumerate(itertools.zip_longest(self.label_names, names))
            number, wrong_name = next((number, theirs) for number, (theirs, own) in pairs if theirs != own)
            raise OtherDataError(
                f"{self.title}: the label names of {self.path} are not in the dataset's own order "
                f"({one_line(repr(wrong_name))} is number {number}). {self.advice}."
            )
        self.refuse_labels(len(names))

    def in_label_folders(self, key: str, folder_of: Callable[[str], str | None]) -> pa.Array:
        """Return the file names, each below the folder that its label's name stands for.

        Label numbers alone say nothing: mirrors of one dataset number its classes differently. `folder_of` returns
        the folder of a label's name, None if it is of no class of the source with this key.
        """
        if self.label_names is None:
            raise BuildError(
                f"{self.title}: {self.path} has label numbers without names, and mirrors number the classes "
                "differently. Take Parquet files with ClassLabel names or the images in folders."
            )
        folders = [folder_of(name) for name in self.label_names]
        unknown = sorted(name for name, folder in zip(self.label_names, folders, strict=True) if folder is None)
        if unknown:
            raise OtherDataError(
                f"{self.title}: the label name {one_line(repr(unknown[0]))} of {self.path} is none of its classes. "
                f"Give a copy of {self.title} with --{key}."
            )
        self.refuse_labels(len(folders), "the label {label} has no name")
        return pc.binary_join_element_wise(pa.array(folders).take(self.labels), self.file_names, "/")

    def in_folders_of_starts(self, folders: Mapping[str, str]) -> pa.Array:
        """Return the file names; one without a folder gets the folder that the start of the name stands for.

        `folders` are by what stands before the last underscore of a file name.
        """
        parts = pc.extract_regex(self.names, _NAME)
        positions = pc.index_in(pc.struct_field(parts, "start"), pa.array(list(folders)))
        own = pc.struct_field(parts, "folder")
        folder = pc.if_else(pc.equal(own, ""), pa.array(list(folders.values())).take(positions), own)
        return pc.coalesce(pc.binary_join_element_wise(folder, pc.struct_field(parts, "file"), "/"), self.names)


def read_shard(
    title: str,
    path: Path,
    *,
    image: str = "image",
    label: str = "label",
    beside: str = "",
    named: bool = True,
    labelled: bool = True,
    advice: str = ADVICE,
) -> Shard:
    """Read names and labels of a Parquet file with a column of images (bytes, path) and one of label numbers.

    The columns are called `image` and `label` (or `<label>s`); another one, `beside`, may be required and is not read.
    Names are read if `named`, since mirrors of arrays have none, and labels are required if `labelled`.

    Raises:
        OtherDataError: the file has other columns, or rows without names although they are required.
        BuildError: the file is damaged or not Parquet.
    """
    with open_mirror(title, path) as file:
        schema = file.schema_arrow
        label = f"{label}s" if label not in schema.names and f"{label}s" in schema.names else label
        has_labels = labelled or label in schema.names
        _require_columns(title, path, schema, image, label if has_labels else "", beside, advice)
        column = next((name for name in NAME_COLUMNS if _is_text(schema, name)), f"{image}.path")
        table = _read_columns(title, path, file, [column] * named + [label] * has_labels)
        nulls = pa.nulls(table.num_rows)
        names = _text(title, path, table, column) if named else nulls.cast(pa.string())
        labels = pc.cast(table[label].combine_chunks() if has_labels else nulls, pa.int64())
    shard = Shard(title, path, names, labels, _label_names(title, path, schema.metadata or {}, label), advice)
    if named:
        if len(names) and names.null_count == len(names):
            raise OtherDataError(
                f"{title}: {path} holds images without file names, which cannot be matched with the owner's images. "
                f"{advice}."
            )
        shard.refuse(pc.is_null(names), "image.path has no file name")
    return shard


def read_codes(title: str, path: Path, classes: Sequence[str], *, image: str = "image") -> npt.NDArray[np.int64]:
    """Return the labels of a mirror's file whose rows have no names; `BuildError` if its classes are others."""
    shard = read_shard(title, path, image=image, named=False)
    shard.refuse_other_labels(classes)
    codes: npt.NDArray[np.int64] = shard.labels.to_numpy()
    return codes


def read_texts(title: str, path: Path, columns: Sequence[str], advice: str = ADVICE) -> list[pa.Array]:
    """Read columns of text.

    Raises:
        OtherDataError: the file lacks one.
        BuildError: the file is damaged or not Parquet.
    """
    with open_mirror(title, path) as file:
        missing = [name for name in columns if not _is_text(file.schema_arrow, name)]
        if missing:
            raise OtherDataError(f"{title}: {path} lacks the columns of text {' and '.join(missing)}. {advice}.")
        table = _read_columns(title, path, file, columns)
        return [_text(title, path, table, name) for name in columns]


def unpack_parquet(path: Path, rows: npt.NDArray[np.int64]) -> Iterator[Sequence[pa.Buffer]]:
    """Yield the images of the given rows in batches; see `builders.sources.unpack`."""
    first = 0
    with open_mirror(_MIRROR, path) as file:
        image = next((name for name in IMAGE_COLUMNS if name in file.schema_arrow.names), IMAGE_COLUMNS[0])
        _require_columns(_MIRROR, path, file.schema_arrow, image)
        for group in range(file.num_row_groups):
            end = first + file.metadata.row_group(group).num_rows
            if ((rows >= first) & (rows < end)).any():
                for batch in row_batches(file, _IMAGES, [f"{image}.bytes"], [group]):
                    inside = rows[(rows >= first) & (rows < first + len(batch))] - first
                    if len(inside):
                        yield _images(path, batch.column(image), inside)
                    first += len(batch)
            first = end
        if len(rows) and rows[-1] >= first:
            raise _damaged(_MIRROR, path, f"it had more than {first:,} rows when it was indexed")


def _images(path: Path, column: pa.StructArray, rows: npt.NDArray[np.int64]) -> list[pa.Buffer]:
    content = pc.struct_field(column, "bytes")
    if content.type == pa.binary_view():  # Arrow takes no rows of it
        content = content.cast(pa.large_binary())
    images = content.take(pa.array(rows))
    if images.null_count:
        raise BuildError(f"{path} has a row without image bytes. Download that file of the mirror again.")
    return [image.as_buffer() for image in images]


@contextlib.contextmanager
def open_mirror(title: str, path: Path) -> Generator[pq.ParquetFile]:
    """Open a Parquet file inside the block; what pyarrow raises about it becomes a `BuildError`.

    Page checksums are verified where the file has them; `datasets` writes none.

    Raises:
        BuildError: the file is not a regular one, not Parquet, encrypted or damaged, or claims more rows than bytes.
    """
    require_regular(path)
    try:
        with open_parquet(path, page_checksum_verification=True) as file:
            rows, size = file.metadata.num_rows, path.stat().st_size
            if rows > size:  # an image takes more than a byte
                raise _damaged(title, path, f"its footer claims {rows:,} rows in {size:,} bytes")
            yield file
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise _damaged(title, path, error) from error


def _damaged(title: str, path: Path, problem: object) -> BuildError:
    """Return the error for a file that cannot be read; `problem` says why, in pyarrow's words or in ours."""
    reason = one_line(str(problem).strip().partition("\n")[0]).rstrip(".")
    return BuildError(f"{title}: {one_line(path)} cannot be read as Parquet ({reason}). Download it again.")


def _require_columns(
    title: str, path: Path, schema: pa.Schema, image: str, numbers: str = "", beside: str = "", advice: str = ADVICE
) -> None:
    """Refuse a file without the column `image` (a struct of bytes and path), `numbers` (integers) or `beside`."""
    types = dict(zip(schema.names, schema.types, strict=True))
    parts = {field.name: field.type for field in types[image]} if isinstance(types.get(image), pa.StructType) else {}
    has_images = parts.get("bytes") in (pa.binary(), pa.large_binary(), pa.binary_view()) and (
        _holds_text(parts.get("path")) or parts.get("path") == pa.null()
    )
    if has_images and (not numbers or types.get(numbers) in _INTEGERS) and (not beside or beside in types):
        return
    others = f" and {beside}" if beside else f" and {numbers} (numbers)" if numbers else ""
    found = (name if has_images or name != image else f"{name} ({types[name]})" for name in schema.names)
    raise OtherDataError(
        f"{title}: {path} lacks the columns {image} (bytes, path){others} (found: {one_line(', '.join(found))}). "
        f"{advice}."
    )


def _is_text(schema: pa.Schema, name: str) -> bool:
    return name in schema.names and _holds_text(schema.field(name).type)


def _holds_text(kind: pa.DataType | None) -> bool:
    kind = kind.value_type if isinstance(kind, pa.DictionaryType) else kind
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _read_columns(title: str, path: Path, file: pq.ParquetFile, columns: Sequence[str]) -> pa.Table:
    """Read existing columns, and refuse file names that are too long for any file system."""
    batches: list[pa.RecordBatch] = []
    for batch in row_batches(file, _ROWS, columns):
        batches.append(batch)
        for column in batch.columns:
            text = pc.struct_field(column, "path") if pa.types.is_struct(column.type) else column
            # As binary, whose lengths Arrow computes for all types of text.
            lengths = pc.binary_length(text.cast(pa.large_binary())) if _holds_text(text.type) else pa.array([0])
            if (longest := pc.max(lengths).as_py() or 0) > _LONGEST_NAME:
                raise _damaged(title, path, f"it has a file name of {longest:,} bytes")
    table = pa.Table.from_batches(batches) if batches else file.read(columns=list(columns))
    if table.num_rows != file.metadata.num_rows or {name.partition(".")[0] for name in columns} != set(
        table.column_names
    ):
        raise _damaged(title, path, "its pages have other rows or columns than its footer claims")
    return table.combine_chunks()


def _text(title: str, path: Path, table: pa.Table, column: str) -> pa.Array:
    """Return a text column, such as `image.path`, as valid UTF-8."""
    outer, _, field = column.partition(".")
    values = table[outer].combine_chunks()
    values = pc.struct_field(values, field) if field else values
    try:
        # Arrow believes a file that its text is UTF-8, but checks a cast from bytes.
        return values.cast(pa.large_binary()).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise _damaged(title, path, f"a file name in {column} is not UTF-8") from error


def _label_names(title: str, path: Path, metadata: Mapping[bytes, bytes], label: str) -> tuple[str, ...] | None:
    """Return the label names of a column by number as `datasets` writes them; None if the file has none."""
    try:
        node: Any = json.loads(metadata.get(b"huggingface", b"{}"))
        for step in ("info", "features", label, "names"):
            node = node.get(step) or {}
        if node and not isinstance(node, list):
            raise ValueError("names are a list")
        "".join(node).encode()  # raises where a name is no text, or has half a character
    except (ValueError, RecursionError, AttributeError, TypeError) as error:
        raise OtherDataError(
            f"{title}: the metadata `huggingface` of {path} is not what `datasets` writes. Download the file again. "
            f"{ADVICE}."
        ) from error
    return tuple(node) or None
