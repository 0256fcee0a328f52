"""The columns of a release, common and individual ones, and their Arrow schema with features for `datasets`.

Tested by `tests/builders/release/test_release.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from msgspec import Struct

from builders.release.values import Text

if TYPE_CHECKING:
    import pyarrow as pa

Value = str | bool | int | float

ColumnType = Literal["string", "bool", "int64", "float64"]
"""The types of these columns, as named by `datasets.Value`."""


class CommonColumn(NamedTuple):
    """A column that all configs have: its meaning, as a phrase, and its type.

    `read` columns are known once the image was read, the others are planned.
    """

    meaning: str
    type: ColumnType = "string"
    read: bool = False


COMMON: dict[str, CommonColumn] = {
    "image": CommonColumn("the encoded image; a `PIL.Image` when read. Indexes lack it", read=True),
    "label": CommonColumn(
        "index of the row's class among the config's in-distribution classes, in the same order in every split; -1 "
        "where the row has none of them",
        "int64",
    ),
    "role": CommonColumn("code of the row's part in the benchmark", "int64"),
    "class_id": CommonColumn("the class as its source names it, such as a WordNet id (wnid) for ImageNet"),
    "class_name": CommonColumn("the name of that class"),
    "source": CommonColumn("key of the dataset that the image comes from"),
    "source_id": CommonColumn("the image's name in that dataset"),
    "id": CommonColumn("unique in the release: source, name and, for images that were made, how"),
    "content_sha256": CommonColumn(
        "SHA-256 of the stored bytes; of mode, size and pixels where `stored` is `pixels` or `adopted`, because the "
        "bytes of a PNG depend on the encoder",
        read=True,
    ),
    "stored": CommonColumn(
        "`source`: the bytes of the source file. `metadata_removed`: the same without an EXIF or XMP block that "
        "makes decoding fail. `pixels`: a PNG made by the build. `adopted`: a PNG of images that the benchmark's "
        "authors made",
        read=True,
    ),
}
"""The columns that all configs have, in their order.

Schemas, plans, shards, the card and the Croissant metadata follow from this table. A new column is one line here and
one where its value is made: in `builders.plan.planner` where it is planned, in `builders.pipeline.shards` where it is
read.
"""

# What the tables in use during a build have: names and types, in their order.

PLAN: Mapping[str, ColumnType] = {name: column.type for name, column in COMMON.items() if not column.read}
"""The planned columns. `label` is a position in the config's label names, or -1; `role` is a position in `ROLES`."""

EXPECTED: Mapping[str, ColumnType] = {"expected_sha256": "string"}
"""What a published index says of a row: its `content_sha256`; empty in plans from a person's sources."""

PLACES: Mapping[str, ColumnType] = {
    "root": "string",
    "file": "string",
    "offset": "int64",
    "size": "int64",
    "form": "string",
}
"""Where an image's bytes lie, and their encoding."""

MADE: Mapping[str, ColumnType] = {"content_sha256": "string", "unreadable": "string"}
"""The digest of an image that was generated, and the reason where it could not be; both empty for other images."""

PIXEL_DIGEST = "pixel_sha256"
"""Column of the records of shards (`builders.pipeline.shards`): `pixel_sha256` of `builders.release.images`."""

INPUT_DIGEST = "input_sha256"
"""Column of the records of generated images (`builders.generate.task`): the digest of what each was made of."""

_TAKEN = {*COMMON, *EXPECTED, *PLACES, *MADE, PIXEL_DIGEST, INPUT_DIGEST}


class Column(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A column that only some configs have, as a source or generator declares it and the manifest lists it.

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
        if self.name in _TAKEN:
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

_DEMO_KEY = b"unknown_detection.demo"
"""Key of the schema metadata of files with rows of demo sources. Other files do not have it."""


def is_demo_schema(schema: pa.Schema) -> bool:
    """Whether the rows of a shard or index are of demo sources, by its schema's metadata."""
    return _DEMO_KEY in (schema.metadata or {})


def demo_metadata(*, demo: bool) -> dict[str, str]:
    """Return schema metadata that marks a table as made of demo sources; empty for other releases."""
    return {_DEMO_KEY.decode(): "true"} if demo else {}


def plain_schema(columns: Mapping[str, ColumnType]) -> pa.Schema:
    """Return the Arrow schema of some columns, given their types by name."""
    import pyarrow as pa

    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in columns.items()])


def without_values(rows: pa.Table | pa.RecordBatch, columns: Sequence[Column] = ()) -> list[str]:
    """Return the names of columns in which a row lacks a value, except nullable ones of `columns`."""
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

    names = {"label": list(label_names), "role": list(ROLES)}  # each number of these columns stands for a name
    kinds: dict[str, tuple[pa.DataType, dict[str, Any]]] = {}
    for name, column in (COMMON | {column.name: column for column in columns}).items():
        value = {"dtype": column.type, "_type": "Value"}
        feature = {"names": names[name], "_type": "ClassLabel"} if name in names else value
        kinds[name] = (pa.type_for_alias(column.type), feature)
    if image:
        kinds["image"] = (pa.struct({"bytes": pa.binary(), "path": pa.string()}), {"_type": "Image"})
    else:
        del kinds["image"]
    described = {"info": {"features": {name: feature for name, (_, feature) in kinds.items()}}}
    schema = pa.schema([(name, kind) for name, (kind, _) in kinds.items()])
    return schema.with_metadata({"huggingface": json.dumps(described)} | demo_metadata(demo=demo))
