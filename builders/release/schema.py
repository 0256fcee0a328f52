"""The columns of a release, of all configs and of some, and their Arrow schema with features for `datasets`.

Tested by `tests/builders/release/test_release.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from msgspec import Struct

from builders.release.values import Text

if TYPE_CHECKING:
    import pyarrow as pa

Value = str | bool | int | float

ColumnType = Literal["string", "bool", "int64", "float64"]
"""The types of these columns, as named by `datasets.Value`."""

COLUMN_MEANINGS: Mapping[str, str] = {
    "image": "the encoded image; a `PIL.Image` when read. Indexes lack it",
    "label": "index of the row's class among the config's in-distribution classes, in the same order in every split; "
    "-1 where the row has none of them",
    "role": "code of the row's part in the benchmark",
    "class_id": "the class as its source names it, such as a WordNet id (wnid) for ImageNet",
    "class_name": "the name of that class",
    "source": "key of the dataset that the image comes from",
    "source_id": "the image's name in that dataset",
    "id": "unique in the release: source, name and, for images that were made, how",
    "content_sha256": "SHA-256 of the stored bytes; of mode, size and pixels where `stored` is `pixels` or `adopted`, "
    "because the bytes of a PNG depend on the encoder",
    "stored": "`source`: the bytes of the source file. `metadata_removed`: the same without an EXIF or XMP block that "
    "makes decoding fail. `pixels`: a PNG made by the build. `adopted`: a PNG of images that the benchmark's authors "
    "made",
}
"""The columns that all configs have, in their order, in a phrase each.

Schemas, plans, shards, the card and the Croissant metadata follow from this table.
"""

NUMBERED = ("label", "role")
"""Those of them with an integer for each name (`ClassLabel`); the others are text, but for the image."""

FROM_PIXELS = ("image", "content_sha256", "stored")
"""Those of them that are known only when the image has been read; the others are planned."""

PLANNED = tuple(name for name in COLUMN_MEANINGS if name not in FROM_PIXELS)

_BUILDING = {"root", "file", "offset", "size", "form", "unreadable", "input_sha256", "expected_sha256", "pixel_sha256"}
"""Additional columns of the tables in use during a build."""


class Column(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A column of an individual config, as a source or a generator declares it and as a manifest lists it.

    Args:
        name: lower-case words joined by underscores.
        type: its type.
        description: a phrase for the card, without a full stop.
        absent: the value in rows of splits that do not have the column, if other splits of the config have it.
            Without it, every split of the config must have the column.
        nullable: rows may lack a value.
    """

    name: Text
    type: ColumnType
    description: Text
    absent: Value | None = None
    nullable: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch("[a-z][a-z0-9_]*", self.name):
            raise ValueError(f"{self.name!r} cannot name a column: use lower-case letters, digits and underscores.")
        if self.name in COLUMN_MEANINGS or self.name in _BUILDING:
            raise ValueError(f"{self.name} cannot name a column of a config: all tables have a column of that name.")
        if self.type not in get_args(ColumnType):
            raise ValueError(f"{self.name} cannot be of type {self.type}: use {', '.join(get_args(ColumnType))}.")

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type."""
        import pyarrow as pa

        return pa.type_for_alias(self.type)


OODNESS = Column(
    "oodness",
    "float64",
    "how far the row's class is from the in-distribution ones, by the config's own measure; 0 is one of them",
)
ID_OVERLAP = Column(
    "id_overlap",
    "string",
    "the known class that the row's unknown class is, holds or shows; null where none was found",
    nullable=True,
)
ID_OVERLAP_KIND = Column(
    "id_overlap_kind",
    "string",
    "how the two classes overlap: the row's class is the `same` as the known one, its `descendant` or `ancestor` in "
    "WordNet, or as `taxonomy/overlaps.py` says",
    nullable=True,
)

PREPARED_SHA256 = Column(
    "prepared_sha256",
    "string",
    "the SHA-256 over the original's pixels as they were prepared, by which another decoder is noticed",
    absent="",
)

KNOWN_COLUMNS: Mapping[str, Column] = {column.name: column for column in (OODNESS, ID_OVERLAP, ID_OVERLAP_KIND)}
"""Columns whose meaning is the same in all configs that have them; no other is nullable."""


Role = Literal[
    "in_distribution",
    "near_ood",
    "far_ood",
    "external",
    "novel_class",
    "adversarial",
    "synthetic",
    "corruption",
    "multi_label",
]

ROLES: tuple[Role, ...] = get_args(Role)
"""Names of the `role` column's ClassLabel. The order is part of the format: append new roles, never insert them."""

KNOWN_ROLE: Role = "in_distribution"
"""Role of known images as a classifier is tested on."""

KNOWN_CLASS_ROLES: tuple[Role, ...] = (KNOWN_ROLE, "adversarial", "synthetic", "corruption")
"""Roles of images of in-distribution classes. A shift that keeps the class keeps the label."""

UNKNOWN_ROLES: tuple[Role, ...] = ("near_ood", "far_ood", "external", "novel_class")
"""Roles of images of classes that are not in-distribution. Images of the other roles show known classes."""

SHIFT_ROLES: tuple[Role, ...] = ("novel_class", "adversarial", "synthetic", "corruption", "multi_label")
"""Roles that name a kind of distribution shift, in the order of BROAD's table 2."""

PIXEL_DIGEST = "pixel_sha256"
"""Column of part files, which stay in the folder's state: `builders.release.images.pixel_sha256` of decoded images."""


_DEMO_KEY = b"unknown_detection.demo"
"""Key of the schema metadata of files with rows of demo sources. Other files do not have it."""


def is_demo_schema(schema: pa.Schema) -> bool:
    """Whether the rows of a shard or an index are of demo sources, by the metadata of its schema."""
    return _DEMO_KEY in (schema.metadata or {})


def demo_metadata(*, demo: bool) -> dict[str, str]:
    """Return the metadata of a schema of other tables, which marks their rows as those of demo sources, or nothing."""
    return {_DEMO_KEY.decode(): "true"} if demo else {}


def without_values(rows: pa.Table | pa.RecordBatch, columns: Sequence[Column] = ()) -> list[str]:
    """Return the columns in which a row lacks a value, but for those of `columns` that are nullable."""
    nullable = {column.name for column in columns if column.nullable}
    return [name for name in rows.schema.names if name not in nullable and rows[name].null_count]


def arrow_schema(
    label_names: Sequence[str], columns: Sequence[Column] = (), *, image: bool = True, demo: bool = False
) -> pa.Schema:
    """Return the Arrow schema of a config, with features for `datasets` in its metadata.

    It is written out because importing `datasets` takes longer than building a small release; a test compares it with
    the schema of `datasets.Features`. Without `image` it is that of an index; `demo` marks rows of demo sources.
    """
    import pyarrow as pa

    encoded = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    names = {"label": list(label_names), "role": list(ROLES)}
    kinds: dict[str, tuple[pa.DataType, dict[str, Any]]] = {"image": (encoded, {"_type": "Image"})} if image else {}
    for name in COLUMN_MEANINGS:
        if name in NUMBERED:
            kinds[name] = (pa.int64(), {"names": names[name], "_type": "ClassLabel"})
        elif name != "image":
            kinds[name] = (pa.string(), {"dtype": "string", "_type": "Value"})
    for column in columns:
        kinds[column.name] = (column.arrow, {"dtype": column.type, "_type": "Value"})
    described = {"info": {"features": {name: feature for name, (_, feature) in kinds.items()}}}
    schema = pa.schema([(name, kind) for name, (kind, _) in kinds.items()])
    return schema.with_metadata({"huggingface": json.dumps(described)} | demo_metadata(demo=demo))
