"""The two tables of a planned split: its rows, one per image and without pixels, and the images that are left out.

Every image of its partitions is in one of them, or counted there by class.

Tested by `tests/builders/plan/test_planner.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.declare.quotas import Rows
from builders.declare.splits import AllClasses, ClassesOf, Config, FirstClasses, Split
from builders.plan.candidates import Adopted, IndexArrays
from builders.release.schema import NUMBERED, OODNESS, PLANNED, ROLES, UNKNOWN_ROLES
from builders.release.tables import Exclusion
from taxonomy import decisions, overlaps
from taxonomy.rules import own_classes

PLAN_SCHEMA = pa.schema([(name, pa.int64() if name in NUMBERED else pa.string()) for name in PLANNED])
"""Columns of a plan. `label` is a position in the config's label names, or -1; `role` is a position in `ROLES`."""


def planned_table(
    config: Config, split: Split, view: IndexArrays, rows: Rows, labels: Sequence[str], adopted: Adopted | None
) -> pa.Table:
    """Return the table of some rows of a source, in their order.

    It has the columns of `PLAN_SCHEMA`, and `oodness`, `id_overlap` and the sources' own columns if the config has
    them.
    """
    class_ids = [str(class_id) for class_id in view.class_ids]
    codes, source_ids, count = view.class_codes[rows], view.ids(rows), len(rows)
    class_of_row = pa.array(codes)

    def of_class(values: Sequence[object], kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind).take(class_of_row)

    numbers = {name: i for i, name in enumerate(labels)} if config.has_labels(split) else {}
    columns = [
        of_class([numbers.get(class_id, -1) for class_id in class_ids], pa.int64()),
        pa.repeat(pa.scalar(ROLES.index(split.role), pa.int64()), count),
        of_class(class_ids, pa.string()),
        of_class([view.names[class_id] for class_id in class_ids], pa.string()),
        pa.repeat(pa.scalar(split.source.key), count),
        source_ids,
        row_ids(split, source_ids),
    ]
    table = pa.Table.from_arrays(columns, schema=PLAN_SCHEMA)
    if OODNESS in config.columns:
        distances = _oodness(split, adopted)
        values = [distances.get(class_id, np.nan) for class_id in class_ids]
        table = table.append_column(OODNESS.name, of_class(values, pa.float64()))
    if config.overlaps:
        known = _overlaps(config, split, labels)
        overlapped = [known.get(class_id, (None, None)) for class_id in class_ids]
        for column, per_class in zip(config.overlap_columns, zip(*overlapped, strict=True), strict=False):
            table = table.append_column(column.name, of_class(per_class, column.arrow))
    for column in config.source_columns:
        if column in split.source.columns:
            table = table.append_column(column.name, view.index.take([column.name], rows)[column.name])
        else:
            table = table.append_column(column.name, pa.repeat(pa.scalar(column.absent, column.arrow), count))
    return table


def row_ids(split: Split, source_ids: pa.Array) -> pa.Array:
    """Return the ids of a split's rows, from the ids of the source's images."""
    ids = pc.binary_join_element_wise(pa.scalar(split.source.key), source_ids, "/")
    generator = split.image_generator
    return ids if generator is None else pc.binary_join_element_wise(ids, generator.row_id(""), "")


def _oodness(split: Split, adopted: Adopted | None) -> Mapping[str, float]:
    """Return the distance of each class of a split from the in-distribution classes, by class id."""
    if adopted is not None and adopted.oodness is not None:
        return dict(zip(adopted.class_ids, adopted.oodness, strict=True))
    if split.oodness is None:
        raise ValueError(f"the config has the column oodness, but its split {split.name} declares none")
    return split.oodness.of()


def _overlaps(config: Config, split: Split, labels: Sequence[str]) -> Mapping[str, tuple[str, str]]:
    """Return the known class that each unknown class of a split overlaps most closely, and how, by class id.

    Empty for known classes; compared by name, they have no kind.
    """
    if split.role not in UNKNOWN_ROLES:
        return {}
    if config.overlaps == overlaps.BY_NAME and isinstance(config.labels, ClassesOf):
        compared = own_classes.compare_classes(split.source.classes(), config.labels.source.classes()).overlaps
        return {class_id: (known, "") for class_id, known in compared.items()}
    closest = overlaps.closest(config.overlaps, split.source.key, labels)
    return {class_id: (overlap.known, overlap.kind) for class_id, overlap in closest.items()}


def remarks_on_classes(config: Config, split: Split) -> tuple[str, ...] | None:
    """Return sentences on what comparing a split's classes by WordNet and name cannot tell; None if a table has it.

    Of a known split, these are its classes that are not in WordNet, or several times.
    """
    if config.overlaps != overlaps.BY_NAME or not isinstance(config.labels, ClassesOf):
        return None
    if split.role not in UNKNOWN_ROLES:
        return own_classes.naming_remarks(split.source.classes())
    return own_classes.compare_classes(split.source.classes(), config.labels.source.classes()).remarks


Reason = tuple[str, str]
"""Rule and evidence."""


def counted(
    key: str, split: Split, view: IndexArrays, counts: npt.NDArray[np.int64], reasons: Mapping[str, Reason]
) -> Iterator[Exclusion]:
    """Count the images that a split or part leaves out; `counts` is by partition and class, `reasons` by class id."""
    for p, c in zip(*np.nonzero(counts), strict=True):
        class_id = str(view.class_ids[c])
        place = (key, split.source.key, view.partitions[p], class_id, view.names[class_id])
        yield Exclusion(*place, "", int(counts[p, c]), *reasons[class_id])


def one_by_one(
    key: str, split: Split, view: IndexArrays, rows: Rows, rule: str, evidence: Mapping[str, str]
) -> list[Exclusion]:
    """List images that a rule leaves out one by one; `evidence` is by row id."""
    exclusions, ids = [], view.ids(rows)
    numbers = zip(view.index.piece_of(rows).tolist(), view.class_codes[rows].tolist(), strict=True)
    named = zip(ids.to_pylist(), row_ids(split, ids).to_pylist(), strict=True)
    for (piece, code), (image, row_id) in zip(numbers, named, strict=True):
        class_id = str(view.class_ids[code])
        place = (key, split.source.key, view.partitions[piece], class_id, view.names[class_id])
        exclusions.append(Exclusion(*place, image, 1, rule, evidence[row_id]))
    return sorted(exclusions, key=lambda e: e.image)


def strays(key: str, split: Split, view: IndexArrays) -> Iterator[Exclusion]:
    """List stray files; a stray is not an image of the source, so it counts 0 images and the sum stays right."""
    for piece in view.index.pieces:
        for stray in piece.strays if piece.partition in split.partitions else ():
            yield Exclusion(key, split.source.key, piece.partition, "", "", stray.path, 0, "stray", stray.reason)


def reasons_by_class(
    split: Split, names: Mapping[str, str], class_ids: Sequence[str], adopted: Adopted | None, before: Sequence[str]
) -> dict[str, Reason]:
    """Return rule and evidence by class id that explain why images of a class are not in a split."""
    beyond, outside = (split.quota.rule, split.quota.evidence(" or ".join(before))), dict[str, Reason]()
    if adopted is not None:
        outside = dict.fromkeys(names, ("not-adopted", "not in the copy of the published benchmark that was adopted"))
        if adopted.source_ids is not None:  # else the copy names classes, and their images are drawn
            return outside
    elif isinstance(split.classes, FirstClasses):
        evidence = f"beyond the first {split.classes.count} classes, of which a demo makes images"
        outside = dict.fromkeys(names, ("demo-classes", evidence))
    elif not isinstance(split.classes, AllClasses):
        table, draw = split.classes.table, split.classes.draw
        evidence = f"not one of the classes that the rules of the table {table} look at"
        outside = dict.fromkeys(names, ("outside", evidence))
        for decided in decisions.load_decisions(table):
            outside[decided.class_id] = (decided.rule, f"{decided.decision}: {decided.evidence}")
            if draw is not None and decided.decision == split.classes.decision:
                of = f"{draw.count} drawn classes" + (" of its group" if draw.of_each_group else "")
                undrawn = ("class-not-drawn", f"keyed rank beyond the {of}")
                outside[decided.class_id] = ("class-drawn", f"among the {of}") if draw.rest else undrawn
    return outside | dict.fromkeys(class_ids, beyond)
