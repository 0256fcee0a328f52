"""The two tables of a planned split: its rows, one per image and without pixels, and the images that are left out.

Every image of its partitions is in one of them, or counted there by class.

Tested by `tests/builders/plan/test_planner.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.declare.benchmark import AllClasses, Classes, ClassesOf, Config, FirstClasses, Split
from builders.declare.quotas import Rows
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
        overlapped = [of_class.get(str(class_id), (None, None)) for class_id in view.class_ids]
        for column, per_class in zip(config.overlap_columns, zip(*overlapped, strict=True), strict=False):
            by_class = pa.array(per_class, column.arrow)
            table = table.append_column(column.name, by_class.take(pa.array(view.class_codes[rows])))
    for column in config.source_columns:
        if column in split.source.columns:
            values = view.index.take([column.name], rows)[column.name]
        else:
            values = pa.repeat(pa.scalar(column.absent, column.arrow), len(rows))
        table = table.append_column(column.name, values)
    return table


def row_ids(split: Split, source_ids: pa.Array) -> pa.Array:
    """Return the ids of a split's rows, from the ids of the source's images."""
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


@dataclass(frozen=True)
class Accounts:
    """Accounts for the images of one split, or part of one, that are left out.

    Args:
        key: of the split, or of a part of one.
        split: the declaration.
        view: its source.
    """

    key: str
    split: Split
    view: IndexArrays

    def by_class(self, accounted: Rows, reasons: Mapping[str, tuple[str, str]]) -> list[Exclusion]:
        """Count by class the images that the split does not draw.

        Args:
            accounted: rows drawn for the split, and rows listed one by one, ascending.
            reasons: rule and evidence by class id, from `reasons_by_class`.
        """
        excluded = self.view.tally_all(self.split.partitions) - self.view.tally(accounted)
        return self._counted(excluded, reasons.__getitem__)

    def beyond_limit(self, drawn: Rows, kept: Rows, limit: int) -> list[Exclusion]:
        """Count by class the images that a limit of so many images a class cuts off."""
        cut = self.view.tally(drawn) - self.view.tally(kept)
        return self._counted(cut, lambda _: ("limit-per-class", f"first {limit} by keyed rank"))

    def one_by_one(self, rows: Rows, evidence: Mapping[str, str], *, rule: str) -> list[Exclusion]:
        """List images that a rule leaves out one by one; `evidence` is by row id."""
        view, exclusions, ids = self.view, [], self.view.ids(rows)
        positions = zip(view.index.piece_of(rows).tolist(), view.class_codes[rows].tolist(), strict=True)
        rows_by_id = zip(ids.to_pylist(), row_ids(self.split, ids).to_pylist(), strict=True)
        for (piece, code), (image, row_id) in zip(positions, rows_by_id, strict=True):
            class_id = str(view.class_ids[code])
            exclusions.append(self._exclusion(view.partitions[piece], class_id, image, 1, (rule, evidence[row_id])))
        return sorted(exclusions, key=lambda e: e.image)

    def strays(self) -> list[Exclusion]:
        """List stray files; a stray is not an image of the source, so it counts 0 images and the sum stays right."""
        return [
            self._exclusion(piece.partition, "", stray.path, 0, ("stray", stray.reason))
            for piece in self.view.index.pieces
            if piece.partition in self.split.partitions
            for stray in piece.strays
        ]

    def _counted(self, counts: npt.NDArray[np.int64], reason: Callable[[str], tuple[str, str]]) -> list[Exclusion]:
        exclusions = []
        for p, c in zip(*np.nonzero(counts), strict=True):
            class_id = str(self.view.class_ids[c])
            partition, images = self.view.partitions[p], int(counts[p, c])
            exclusions.append(self._exclusion(partition, class_id, "", images, reason(class_id)))
        return exclusions

    def _exclusion(self, partition: str, class_id: str, image: str, images: int, reason: tuple[str, str]) -> Exclusion:
        rule, evidence = reason
        name = self.view.names[class_id] if class_id else ""
        return Exclusion(self.key, self.split.source.key, partition, class_id, name, image, images, rule, evidence)


def reasons_by_class(
    split: Split, names: Mapping[str, str], class_ids: Sequence[str], adopted: Adopted | None, before: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """Return rule and evidence by class id that explain why images of a class are not in a split.

    Args:
        split: the declaration.
        names: the source's classes.
        class_ids: the classes that the split draws from.
        adopted: the adopted classes and images, if the split is adopted.
        before: keys of the splits that draw from the same images before.
    """
    drawn = set(class_ids)
    beyond = split.quota.reason(before)
    if adopted is not None:
        rule = ("not-adopted", "not in the copy of the published benchmark that was adopted")
        by_rule = adopted.source_ids is None  # the copy names classes, and their images are drawn
        return {name: beyond if by_rule and name in drawn else rule for name in names}
    if isinstance(split.classes, AllClasses):
        return dict.fromkeys(drawn, beyond)
    if isinstance(split.classes, FirstClasses):
        outside = f"beyond the first {split.classes.count} classes, of which a demo makes images"
        return {name: beyond if name in drawn else ("demo-classes", outside) for name in names}
    outside = f"not one of the classes that the rules of the table {split.classes.table} look at"
    reasons = dict.fromkeys(names, ("outside", outside))
    for decision in decisions.load_decisions(split.classes.table):
        if decision.class_id in drawn:
            reasons[decision.class_id] = beyond
        elif decision.decision == split.classes.decision:
            reasons[decision.class_id] = _other_side(split.classes)
        else:
            reasons[decision.class_id] = (decision.rule, f"{decision.decision}: {decision.evidence}")
    return reasons


def _other_side(classes: Classes) -> tuple[str, str]:
    """Return rule and evidence for a class that could have been drawn and is not in the split."""
    draw = classes.draw
    if draw is None:
        raise ValueError("without a draw every class of the decision is chosen")
    of = f"{draw.count} drawn classes" + (" of its group" if draw.of_each_group else "")
    return ("class-drawn", f"among the {of}") if draw.rest else ("class-not-drawn", f"keyed rank beyond the {of}")
