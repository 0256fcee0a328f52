"""Reads the indexes for the page: rows by class, and the first rows of each role.

Tested by `tests/builders/report/test_rows.py`.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from builders.card.pictures import first_rows
from builders.errors import BuildError
from builders.release.reader import Rows, read_index
from builders.release.schema import ROLES, Role
from builders.release.split_entries import SplitEntry

_COLUMNS = ("role", "source", "class_id", "class_name")

FIRST = 12
"""Rows of each role of a split that are looked at for pictures (ours: a line or two on a desktop)."""


@dataclass(frozen=True)
class ClassRows:
    """A class of a source in a split, with its role there and its number of rows."""

    source: str
    class_id: str
    name: str
    role: Role
    rows: int


@dataclass(frozen=True)
class SplitRows:
    """A split (`config/split`): its rows by class, and the numbers of the first rows of each role."""

    key: str
    classes: tuple[ClassRows, ...]
    first: dict[Role, Rows]


def read_split_rows(root: Path, key: str, split: SplitEntry, pictured: Set[str]) -> SplitRows:
    """Read the index of a split.

    Args:
        root: the release folder.
        key: the split (`config/split`).
        split: its entry in the manifest.
        pictured: the sources whose pictures are shown; first rows are of these.

    Raises:
        BuildError: the index cannot be read, or contradicts the manifest.
    """
    table = read_index(root, split, _COLUMNS)
    if unknown := sorted(set(pc.unique(table["source"]).to_pylist()) - set(split.sources)):
        raise BuildError(
            f"{root / split.index.path} has rows of a source that the manifest does not name for it ({unknown[0]}). "
            f"Check the release with python -m hf_scripts.verify {root}."
        )
    return SplitRows(key, _classes(table), first_rows(table, FIRST, pictured) if split.data else {})


def _classes(table: pa.Table) -> tuple[ClassRows, ...]:
    counted = table.group_by(list(_COLUMNS)).aggregate([([], "count_all")]).to_pylist()
    classes = [
        ClassRows(row["source"], row["class_id"], row["class_name"], ROLES[row["role"]], row["count_all"])
        for row in counted
    ]
    return tuple(sorted(classes, key=lambda one: (one.source, one.class_id, one.name, ROLES.index(one.role))))
