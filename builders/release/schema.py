"""The Arrow schema of a release's rows, with features for `datasets`.

Tested by `tests/builders/release/test_release.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from builders.release.columns import COLUMN_MEANINGS, NUMBERED, Column

if TYPE_CHECKING:  # a command's `--help` reads the names of roles alone
    import pyarrow as pa

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

KNOWN_CLASS_ROLES: tuple[Role, ...] = ("in_distribution", "adversarial", "synthetic", "corruption")
"""Roles of images of in-distribution classes. A shift that keeps the class keeps the label."""

UNKNOWN_ROLES: tuple[Role, ...] = ("near_ood", "far_ood", "external", "novel_class")
"""Roles of images of classes that are not in-distribution. Images of the other roles show known classes."""

SHIFT_ROLES: tuple[Role, ...] = ("novel_class", "adversarial", "synthetic", "corruption", "multi_label")
"""Roles that name a kind of distribution shift, in the order of BROAD's table 2."""

PIXEL_DIGEST = "pixel_sha256"
"""Column of part files, which stay in the folder's state: `builders.release.images.pixel_sha256` of decoded images."""


_DEMO_KEY = b"unknown_detection.demo"
"""Key of the schema metadata of files with rows of demo sources. Other files do not have it."""


def is_demo(schema: pa.Schema) -> bool:
    """Whether the rows of a shard or an index are of demo sources, by the metadata of its schema."""
    return _DEMO_KEY in (schema.metadata or {})


def demo_metadata(*, demo: bool) -> dict[str, str]:
    """The metadata of a schema of other tables, which marks their rows as those of demo sources, or nothing."""
    return {_DEMO_KEY.decode(): "true"} if demo else {}


def without_values(rows: pa.Table | pa.RecordBatch, columns: Sequence[Column] = ()) -> list[str]:
    """The columns in which a row lacks a value; `columns` are those beside the common ones, and say where it may."""
    nullable = {column.name for column in columns if column.nullable}
    return [name for name in rows.schema.names if name not in nullable and rows[name].null_count]


def arrow_schema(
    label_names: Sequence[str], columns: Sequence[Column] = (), *, image: bool = True, demo: bool = False
) -> pa.Schema:
    """The Arrow schema of a config, with features for `datasets` in its metadata.

    It is written out because importing `datasets` takes longer than building a small release; a test compares it with
    the schema of `datasets.Features`.

    Args:
        label_names: the names of `label`, equal in all splits of a config.
        columns: the config's own columns.
        image: with the image column, as in `data/`; otherwise as in `index/`.
        demo: mark the rows as those of demo sources.
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
