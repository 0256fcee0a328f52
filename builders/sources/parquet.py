"""Read what a Hub mirror's Parquet files say about their images, and none of the images."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from builders.errors import BuildError


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
