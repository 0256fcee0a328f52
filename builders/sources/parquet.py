"""Read what a Hub mirror's Parquet files say about their images, and none of the images."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from builders.errors import BuildError

IMAGE_COLUMNS = ("image", "img")
"""Names that mirrors give the column of images."""


@dataclass(frozen=True)
class Shard:
    """One Parquet file: each row's `image.path` and label number, and the label names where the schema has them."""

    path: Path
    names: pa.Array
    labels: pa.Array
    label_names: tuple[str, ...] | None


def shards(home: Path, pattern: str) -> list[Path]:
    """Return the Parquet files of that name in `data/`, or else in the folder itself, sorted."""
    return sorted((home / "data").glob(pattern)) or sorted(home.glob(pattern))


def read_shard(title: str, path: Path) -> Shard:
    """Read names and labels of a Parquet file with the columns `image` (bytes, path) and `label`.

    Raises:
        BuildError: it is not Parquet, has other columns, or has rows without a name.
    """
    try:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            table = file.read(columns=["image.path", "label"])
    except pa.ArrowInvalid as error:
        raise BuildError(
            f"{title}: expected a Parquet file at {path}, found one that cannot be read ({error}); download it again."
        ) from error
    if table.column_names != ["image", "label"] or schema.field("image").type.get_field_index("bytes") < 0:
        raise BuildError(
            f"{title}: expected the columns image (bytes, path) and label, found {', '.join(schema.names)} in {path}; "
            "take the Parquet files that the Hub serves for the dataset itself."
        )
    names = pc.struct_field(table["image"].combine_chunks(), "path")
    shard = Shard(path, names, pc.cast(table["label"].combine_chunks(), pa.int64()), _label_names(schema))
    refuse_rows(title, path, pc.is_null(names), "a file name in image.path of every row (row {row} has none)", shard)
    return shard


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


def refuse_rows(title: str, path: Path, wrong: pa.Array, expected: str, shard: Shard) -> None:
    """Raise where any row is marked wrong, naming the first.

    Args:
        title: the source's title.
        path: the Parquet file.
        wrong: one truth value a row.
        expected: what every row should have; `{row}`, `{name}` and `{label}` are filled in from the first wrong row.
        shard: where these come from.
    """
    row = pc.index(wrong, True).as_py()
    if row < 0:
        return
    text = expected.format(row=row, name=shard.names[row].as_py(), label=shard.labels[row].as_py())
    raise BuildError(
        f"{title}: expected {text}, found otherwise in {path}; "
        "take the Parquet files that the Hub serves for the dataset itself."
    )


def _label_names(schema: pa.Schema) -> tuple[str, ...] | None:
    metadata = (schema.metadata or {}).get(b"huggingface")
    if metadata is None:
        return None
    label = json.loads(metadata).get("info", {}).get("features", {}).get("label", {})
    names = label.get("names")
    return None if names is None else tuple(names)
