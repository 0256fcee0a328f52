"""The table of a planned split: one row per image, with the columns of the release that need no pixels.

Tested by `tests/builders/plan/test_planner.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.declare.benchmark import ClassesOf, Config, Split
from builders.declare.quotas import Rows
from builders.plan.candidates import IndexArrays
from builders.plan.classes import Adopted
from builders.release.columns import NUMBERED, OODNESS, PLANNED
from builders.release.schema import ROLES, UNKNOWN_ROLES
from taxonomy import overlaps
from taxonomy.rules import own_classes

PLAN_SCHEMA = pa.schema([(name, pa.int64() if name in NUMBERED else pa.string()) for name in PLANNED])
"""Columns of a plan. `label` is a position in the config's label names, or -1; `role` is a position in `ROLES`."""


def planned_table(
    config: Config, split: Split, view: IndexArrays, rows: Rows, labels: Sequence[str], adopted: Adopted | None
) -> pa.Table:
    """The table of some rows of a source, in their order.

    Args:
        config: the split's config.
        split: the declaration.
        view: the source.
        rows: row numbers of its index.
        labels: the config's label names.
        adopted: what the split was adopted from.

    Returns:
        The columns of `PLAN_SCHEMA`, and `oodness`, `id_overlap` and the sources' own columns if the config has them.
    """
    table = _plan_table(labels, split, view, rows, has_labels=config.has_labels(split))
    if OODNESS in config.columns:
        values = _oodness(split, adopted)
        by_code = np.array([values.get(str(class_id), np.nan) for class_id in view.class_ids])
        table = table.append_column(OODNESS.name, pa.array(by_code[view.class_codes[rows]]))
    if config.overlaps:
        of_class = _overlaps(config, split, labels)
        found = [of_class.get(str(class_id), (None, None)) for class_id in view.class_ids]
        for column, per_class in zip(config.overlap_columns, zip(*found, strict=True), strict=False):
            by_class = pa.array(per_class, column.arrow)
            table = table.append_column(column.name, by_class.take(pa.array(view.class_codes[rows])))
    for column in config.source_columns:
        if column in split.source.columns:
            own = view.index.take([column.name], rows)[column.name]
        else:
            own = pa.repeat(pa.scalar(column.absent, column.arrow), len(rows))
        table = table.append_column(column.name, own)
    return table


def row_ids(split: Split, source_ids: pa.Array) -> pa.Array:
    """Ids of a split's rows, from the ids of the source's images."""
    ids = pc.binary_join_element_wise(pa.scalar(split.source.key), source_ids, "/")
    generator = split.image_generator
    return ids if generator is None else pc.binary_join_element_wise(ids, generator.row_id(""), "")


def _plan_table(labels: Sequence[str], split: Split, view: IndexArrays, rows: Rows, *, has_labels: bool) -> pa.Table:
    numbers = {name: i for i, name in enumerate(labels)}
    class_ids = [str(c) for c in view.class_ids]
    of_class = np.array([numbers.get(c, -1) for c in class_ids], dtype=np.int64)
    codes = view.class_codes[rows]
    class_of_row = pa.array(codes)
    source_ids = view.ids(rows)
    count = len(rows)
    source = pa.repeat(pa.scalar(split.source.key), count)
    return pa.Table.from_arrays(
        [
            pa.array(of_class[codes] if has_labels else np.full(count, -1)),
            pa.array(np.full(count, ROLES.index(split.role))),
            pa.array(class_ids).take(class_of_row),
            pa.array([view.names[c] for c in class_ids]).take(class_of_row),
            source,
            source_ids,
            row_ids(split, source_ids),
        ],
        schema=PLAN_SCHEMA,
    )


def _oodness(split: Split, adopted: Adopted | None) -> Mapping[str, float]:
    """Distance of each class of a split from the in-distribution classes, by class id."""
    if adopted is not None and adopted.oodness is not None:
        return dict(zip(adopted.class_ids, adopted.oodness, strict=True))
    if split.oodness is None:
        raise ValueError(f"the config has the column oodness, but its split {split.name} declares none")
    return split.oodness.of()


def _overlaps(config: Config, split: Split, labels: Sequence[str]) -> Mapping[str, tuple[str, str]]:
    """The known class that each unknown class of a split overlaps most closely, and how, by class id.

    Empty for known classes; compared by name, they have no kind.
    """
    if split.role not in UNKNOWN_ROLES:
        return {}
    if config.overlaps == overlaps.BY_NAME and isinstance(config.labels, ClassesOf):
        compared = own_classes.compare(split.source.classes(), config.labels.source.classes()).overlaps
        return {class_id: (known, "") for class_id, known in compared.items()}
    closest = overlaps.closest(config.overlaps, split.source.key, labels)
    return {class_id: (overlap.known, overlap.kind) for class_id, overlap in closest.items()}


def remarks_on_classes(config: Config, split: Split) -> tuple[str, ...] | None:
    """What the comparison of a split's classes by WordNet and name cannot tell, in sentences; None if a table has it.

    Of a known split, these are its classes that are not in WordNet, or several times.
    """
    if config.overlaps != overlaps.BY_NAME or not isinstance(config.labels, ClassesOf):
        return None
    if split.role not in UNKNOWN_ROLES:
        return own_classes.remarks(split.source.classes())
    return own_classes.compare(split.source.classes(), config.labels.source.classes()).remarks
