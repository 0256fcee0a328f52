"""Reads names and labels from a Hub mirror's Parquet files without reading the images.

Faithful variants are read: text and bytes in any of Arrow's types for them, labels of any integer type.

Tested by `tests/builders/sources/readers/test_parquet.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError, one_line
from builders.sources.base import OtherDataError, partition_table
from builders.sources.readers import parquet_columns as columns
from builders.sources.readers.folders import class_column, relative
from builders.storage.parquet import row_batches

IMAGE_COLUMNS = ("image", "img")
"""Names of the image column in mirrors."""

NAME_COLUMNS = ("filename", "image_file_path")
"""Names of a column of file names in mirrors; it is read instead of `image.path`."""

_ADVICE = columns.ADVICE

_IMAGES = 64
"""Images that are read at a time."""

_MIRROR = "Parquet mirror"


@dataclass(frozen=True)
class Shard:
    """One Parquet file: each row's file name and label number, and the label names if the schema has them.

    `names` is all null if names were not requested, `labels` if the file has none and none are required.
    """

    path: Path
    names: pa.Array
    labels: pa.Array
    label_names: tuple[str, ...] | None


def shard_table(
    root: Path, path: Path, class_ids: Sequence[str], codes: npt.NDArray[np.integer], ids: pa.Array
) -> pa.Table:
    """Index all rows of one file.

    Args:
        root: the user's folder.
        path: the file.
        class_ids: all class ids of the source.
        codes: each row's index in `class_ids`.
        ids: each row's source id.
    """
    return partition_table(
        class_column(class_ids, codes),
        ids,
        pa.repeat(pa.scalar(relative(path, root), pa.string()), len(ids)),
        pa.array(np.arange(len(ids), dtype=np.int64)),
    )


def read_shard(
    title: str,
    path: Path,
    *,
    image: str = "image",
    label: str = "label",
    named: bool = True,
    labelled: bool = True,
    advice: str = _ADVICE,
) -> Shard:
    """Read names and labels of a Parquet file with a column of images (bytes, path) and one of label numbers.

    Args:
        title: the source's title.
        path: the file.
        image: name of the column of images.
        label: name of the column of labels; `<label>s` is accepted, too.
        named: read the file names; mirrors of arrays have none.
        labelled: require labels; they are optional where names give the class.
        advice: the next step for a mirror without names, as a sentence without its full stop.

    Raises:
        OtherDataError: the file has other columns, or rows without names although they are required.
        BuildError: the file is damaged or not Parquet.
    """
    with columns.open_mirror(title, path) as file:
        schema = file.schema_arrow
        label = f"{label}s" if label not in schema.names and f"{label}s" in schema.names else label
        has_labels = labelled or label in schema.names
        columns.require_columns(title, path, schema, image, label if has_labels else None, numbers=True)
        column = next((name for name in NAME_COLUMNS if columns.is_text_column(schema, name)), f"{image}.path")
        table = columns.read_columns(title, path, file, [column] * named + [label] * has_labels)
        names = columns.text_column(title, path, table, column) if named else pa.nulls(table.num_rows, pa.string())
        labels = (
            columns.label_column(title, path, table, label) if has_labels else pa.nulls(table.num_rows, pa.int64())
        )
    shard = Shard(path, names, labels, columns.label_names(title, path, schema.metadata or {}, label))
    return _with_names(title, shard, advice) if named else shard


def read_names(title: str, path: Path, *, other_column: str) -> Shard:
    """Read the names of a Parquet file with a column of images (bytes, path); `labels` is all null.

    Args:
        title: the source's title.
        path: the file.
        other_column: one that only this mirror has; it is not read.

    Raises:
        BuildError: the file is not Parquet, has other columns, or has rows without a name.
    """
    with columns.open_mirror(title, path) as file:
        columns.require_columns(title, path, file.schema_arrow, "image", other_column, numbers=False)
        table = columns.read_columns(title, path, file, ["image.path"])
        names = columns.text_column(title, path, table, "image.path")
    return _with_names(title, Shard(path, names, pa.nulls(table.num_rows, pa.int64()), None))


def read_numbers(title: str, path: Path, column: str) -> list[int]:
    """Read the numbers that a mirror gives the images of a Parquet file in a column of their own.

    Args:
        title: the source's title.
        path: the file.
        column: the name of the column of numbers.

    Raises:
        OtherDataError: the file has other columns, or a row has no number.
        BuildError: the file is not Parquet.
    """
    with columns.open_mirror(title, path) as file:
        columns.require_columns(title, path, file.schema_arrow, "image", column, numbers=True)
        values = columns.read_columns(title, path, file, [column])[column]
    if values.null_count:
        raise OtherDataError(f"{title}: {one_line(path)} has a row without {column}. {columns.ADVICE}.")
    numbers: list[int] = values.to_pylist()
    return numbers


def refuse_other_labels(title: str, shard: Shard, names: Sequence[str]) -> None:
    """Refuse labels outside a source's own numbering, and a schema that numbers its names differently.

    Args:
        title: the source's title.
        shard: the file as read.
        names: the source's names by number.

    Raises:
        OtherDataError: a label is missing or out of range, or the schema's names differ.
    """
    if shard.label_names is not None and shard.label_names != tuple(names):
        pairs = enumerate(itertools.zip_longest(shard.label_names, names))
        number, wrong_name = next((number, theirs) for number, (theirs, own) in pairs if theirs != own)
        raise OtherDataError(
            f"{title}: the label names of {shard.path} are not in the dataset's own order "
            f"({one_line(repr(wrong_name))} is number {number}). {_ADVICE}."
        )
    refuse_labels_outside(title, shard, len(names))


def refuse_labels_outside(title: str, shard: Shard, count: int, advice: str = _ADVICE) -> None:
    """Refuse labels that are missing or not from 0 to `count` - 1; arguments and errors as in `refuse_rows`."""
    inside = pc.and_(pc.greater_equal(shard.labels, 0), pc.less(shard.labels, count))
    problem = f"the label {{label}} is not from 0 to {count - 1}"
    refuse_rows(title, shard.path, pc.fill_null(pc.invert(inside), True), problem, shard, advice)


def unpack_parquet(path: Path, rows: npt.NDArray[np.int64]) -> Iterator[Sequence[pa.Buffer]]:
    """Yield the images of the given rows in batches; see `builders.sources.unpack`."""
    first = 0
    with columns.open_mirror(_MIRROR, path) as file:
        image = next((name for name in IMAGE_COLUMNS if name in file.schema_arrow.names), IMAGE_COLUMNS[0])
        columns.require_columns(_MIRROR, path, file.schema_arrow, image, None)
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
            raise columns.damaged(_MIRROR, path, f"it had more than {first:,} rows when it was indexed")


def _images(path: Path, column: pa.StructArray, rows: npt.NDArray[np.int64]) -> list[pa.Buffer]:
    content = pc.struct_field(column, "bytes")
    if content.type == pa.binary_view():  # Arrow takes no rows of it
        content = content.cast(pa.large_binary())
    images = content.take(pa.array(rows))
    if images.null_count:
        raise BuildError(f"{path} has a row without image bytes. Download that file of the mirror again.")
    return [image.as_buffer() for image in images]


def refuse_rows(title: str, path: Path, wrong: pa.Array, problem: str, shard: Shard, advice: str = _ADVICE) -> None:
    """Refuse a file if any row is marked wrong; the message names the first one.

    Args:
        title: the source's title.
        path: the Parquet file.
        wrong: one truth value a row.
        problem: what is wrong with such a row; `{name}` and `{label}` are filled in from the first one.
        shard: the file as read.
        advice: the next step, as a sentence without its full stop.

    Raises:
        OtherDataError: a row is wrong.
    """
    row = pc.index(wrong, True).as_py()
    if row < 0:
        return
    text = problem.format(name=one_line(shard.names[row].as_py()), label=shard.labels[row].as_py())
    raise OtherDataError(f"{title}: {text} (row {row} of {path}). {advice}.")


def _with_names(title: str, shard: Shard, advice: str = _ADVICE) -> Shard:
    if len(shard.names) and shard.names.null_count == len(shard.names):
        raise OtherDataError(
            f"{title}: {shard.path} holds images without file names, which cannot be matched with the owner's images. "
            f"{advice}."
        )
    refuse_rows(title, shard.path, pc.is_null(shard.names), "image.path has no file name", shard, advice)
    return shard
