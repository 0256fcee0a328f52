"""Read what a Hub mirror's Parquet files say about their images, and none of the images.

Tested by `tests/builders/sources/test_layouts.py`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from builders.errors import BuildError
from builders.sources.base import OtherDataError, Piece, piece_table
from builders.sources.readers.folders import class_column, relative

IMAGE_COLUMNS = ("image", "img")
"""Names that mirrors give the column of images."""

NAME_COLUMNS = ("filename", "image_file_path")
"""Names that mirrors give a column of file names, which then counts instead of `image.path`."""

_ADVICE = "take the Parquet files that the Hub serves for the dataset itself"


@dataclass(frozen=True)
class Shard:
    """One Parquet file: each row's file name and label number, and the label names where the schema has them.

    `names` is all null where names were not asked for, `labels` where the file has none and need not.
    """

    path: Path
    names: pa.Array
    labels: pa.Array
    label_names: tuple[str, ...] | None


def indexed(
    partition: str, root: Path, files: Sequence[Path], index: Callable[[Path, Path], pa.Table]
) -> Piece | None:
    """Put the indexes of a mirror's files together; None where there is no file.

    Args:
        partition: the partition that they are.
        root: the user's folder.
        files: sorted.
        index: makes the table of one file, given the root.
    """
    if not files:
        return None
    table = pa.concat_tables([index(root, path) for path in files]).combine_chunks()
    return Piece(partition, f"Parquet files in {relative(files[0].parent, root)}", "parquet", table)


def shard_table(
    root: Path, path: Path, class_ids: Sequence[str], codes: npt.NDArray[np.integer], ids: pa.Array
) -> pa.Table:
    """Index all rows of one file.

    Args:
        root: the user's folder.
        path: the file.
        class_ids: all class ids of the source.
        codes: each row's place in `class_ids`.
        ids: each row's source id.
    """
    return piece_table(
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
        label: name of the column of labels; `<label>s` counts as well.
        named: read the file names; mirrors of arrays have none.
        labelled: there must be labels; where the names say the class, they need not be there.
        advice: what to take instead of a mirror without names.

    Raises:
        OtherDataError: it has other columns, or no row has a name although all should.
        BuildError: it is not Parquet, or a row lacks its name.
    """
    with _opened(title, path) as file:
        schema = file.schema_arrow
        label = f"{label}s" if label not in schema.names and f"{label}s" in schema.names else label
        there = labelled or label in schema.names
        _check_columns(title, path, schema, image, label if there else None)
        names = next((name for name in NAME_COLUMNS if _is_text(schema, name)), f"{image}.path")
        table = file.read(columns=[names] * named + [label] * there)
    labels = pc.cast(table[label].combine_chunks(), pa.int64()) if there else pa.nulls(table.num_rows, pa.int64())
    if not named:
        return Shard(path, pa.nulls(len(labels), pa.string()), labels, _label_names(schema, label))
    found = _paths(table, image) if names == f"{image}.path" else table[names].combine_chunks().cast(pa.string())
    return _with_names(title, Shard(path, found, labels, _label_names(schema, label)), advice)


def read_names(title: str, path: Path, *, beside: str) -> Shard:
    """Read the names of a Parquet file with a column of images (bytes, path); its labels are all null.

    Args:
        title: the source's title.
        path: the file.
        beside: a column that tells this mirror from others, and which is not read.

    Raises:
        BuildError: it is not Parquet, has other columns, or has rows without a name.
    """
    with _opened(title, path) as file:
        _check_columns(title, path, file.schema_arrow, "image", beside, numbers=False)
        table = file.read(columns=["image.path"])
    return _with_names(title, Shard(path, _paths(table, "image"), pa.nulls(table.num_rows, pa.int64()), None))


def refuse_other_labels(title: str, shard: Shard, names: Sequence[str]) -> None:
    """Refuse labels outside a source's own numbering, and a schema that numbers its names otherwise.

    Args:
        title: the source's title.
        shard: what was read.
        names: the source's names by number.

    Raises:
        OtherDataError: a label is missing or out of range, or the schema's names differ.
    """
    if shard.label_names is not None and shard.label_names != tuple(names):
        there = [*shard.label_names, *[None] * len(names)]
        number = next(number for number, name in enumerate([*names, None]) if there[number] != name)
        raise OtherDataError(
            f"{title}: expected the label names in its own order, found {there[number]!r} as number {number} in "
            f"{shard.path}; take the Parquet files that the Hub serves for the dataset itself."
        )
    inside = pc.and_(pc.greater_equal(shard.labels, 0), pc.less(shard.labels, len(names)))
    wrong = pc.fill_null(pc.invert(inside), True)
    expected = f"labels from 0 to {len(names) - 1} (row {{row}} has {{label}})"
    refuse_rows(title, shard.path, wrong, expected, shard)


def unpack(path: Path, rows: npt.NDArray[np.int64]) -> Iterator[Sequence[pa.Buffer]]:
    """Yield the images in some rows, row group by row group; see `builders.sources.unpack`."""
    first = 0
    try:
        with pq.ParquetFile(path) as file:
            name = next(name for name in IMAGE_COLUMNS if name in file.schema_arrow.names)
            for group in range(file.num_row_groups):
                count = file.metadata.row_group(group).num_rows
                inside = rows[(rows >= first) & (rows < first + count)] - first
                if len(inside):
                    column = file.read_row_group(group, columns=[f"{name}.bytes"])[name].combine_chunks()
                    images = pc.struct_field(column, "bytes").take(pa.array(inside))
                    if images.null_count:
                        raise BuildError(
                            f"expected image bytes in every row, found a row without any in {path}; "
                            "fetch that file of the mirror again."
                        )
                    yield [image.as_buffer() for image in images]
                first += count
    except (OSError, pa.ArrowException) as error:
        raise BuildError(f"expected a readable Parquet file, found {error} at {path}; fetch it again.") from error


def refuse_rows(title: str, path: Path, wrong: pa.Array, expected: str, shard: Shard, advice: str = _ADVICE) -> None:
    """Raise where any row is marked wrong, naming the first.

    Args:
        title: the source's title.
        path: the Parquet file.
        wrong: one truth value a row.
        expected: what every row should have; `{row}`, `{name}` and `{label}` are filled in from the first wrong row.
        shard: where these come from.
        advice: what to take instead.

    Raises:
        OtherDataError: there is such a row.
    """
    row = pc.index(wrong, True).as_py()
    if row < 0:
        return
    text = expected.format(row=row, name=shard.names[row].as_py(), label=shard.labels[row].as_py())
    raise OtherDataError(f"{title}: expected {text}, found otherwise in {path}; {advice}.")


@contextlib.contextmanager
def _opened(title: str, path: Path) -> Generator[pq.ParquetFile]:
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except (OSError, pa.ArrowInvalid) as error:
        raise BuildError(
            f"{title}: expected a Parquet file at {path}, found one that cannot be read ({error}); download it again."
        ) from error


def _paths(table: pa.Table, image: str) -> pa.Array:
    return pc.struct_field(table[image].combine_chunks(), "path")


def _is_text(schema: pa.Schema, name: str) -> bool:
    return name in schema.names and (
        pa.types.is_string(schema.field(name).type) or pa.types.is_large_string(schema.field(name).type)
    )


def _with_names(title: str, shard: Shard, advice: str = _ADVICE) -> Shard:
    if len(shard.names) and shard.names.null_count == len(shard.names):
        raise OtherDataError(
            f"{title}: {shard.path} holds images without file names, so that none of them can be told to be one of "
            f"the owner's; {advice}."
        )
    wanted = "a file name in image.path of every row (row {row} has none)"
    refuse_rows(title, shard.path, pc.is_null(shard.names), wanted, shard, advice)
    return shard


def _check_columns(
    title: str, path: Path, schema: pa.Schema, image: str, other: str | None, *, numbers: bool = True
) -> None:
    found = {field.name: field.type for field in schema}
    struct = found.get(image)
    whole = struct is not None and pa.types.is_struct(struct) and {"bytes", "path"} <= {f.name for f in struct}
    if other is None:
        fits, wanted = True, ""
    else:
        fits = other in found and (not numbers or pa.types.is_integer(found[other]))
        wanted = f" and {other}{' (numbers)' if numbers else ''}"
    if not whole or not fits:
        raise OtherDataError(
            f"{title}: expected the columns {image} (bytes, path){wanted}, found {', '.join(schema.names)} in {path}; "
            f"{_ADVICE}."
        )


def _label_names(schema: pa.Schema, label: str) -> tuple[str, ...] | None:
    metadata = (schema.metadata or {}).get(b"huggingface")
    if metadata is None:
        return None
    names = json.loads(metadata).get("info", {}).get("features", {}).get(label, {}).get("names")
    return None if names is None else tuple(names)
