"""Plans splits from source indexes: one row per image, without pixels, and a reason for every image left out.

`plan` is a pure function: equal indexes, seed and options give equal tables, whatever the machine, the order of files
on disk and the layout of the sources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.benchmark import ClassesOf, Config, Count, Originals, Split, group_name, split_of
from builders.plan.classes import Adopted, Draws
from builders.plan.exclusions import Accounts, in_order, reasons_by_class
from builders.plan.originals import original_ids
from builders.plan.quotas import IndexArrays, Rows, within_quota
from builders.plan.ranking import first_of_each
from builders.release.columns import ID_OVERLAP, OODNESS
from builders.release.schema import ROLES, UNKNOWN_ROLES
from builders.release.tables import Exclusion
from builders.sources.base import SourceIndex
from taxonomy import overlaps

PLAN_SCHEMA = pa.schema(
    [
        ("label", pa.int64()),
        ("role", pa.int64()),
        ("class_id", pa.string()),
        ("class_name", pa.string()),
        ("source", pa.string()),
        ("source_id", pa.string()),
        ("id", pa.string()),
    ]
)
"""Columns of a plan. `label` is a position in the config's label names, or -1; `role` is a position in `ROLES`."""


@dataclass(frozen=True)
class PlannedSplit:
    """The plan of one split, or of one part of a joined split.

    `key` is `config/split` or `config/split.part`, and `count` its rows in complete sources and in the paper.
    `labels` are the label names of the config. `table` has the columns of `PLAN_SCHEMA`, and `oodness`, `id_overlap`
    and the sources' own columns if the config has them, in the order of the release; `rows` are the same images as row
    numbers of the source's index. `available` counts the source's images in the split's partitions: the sum of
    `len(rows)` and the excluded images.
    """

    key: str
    config: Config
    split: Split
    count: Count
    labels: tuple[str, ...]
    table: pa.Table
    rows: Rows = field(repr=False)
    available: int
    excluded: tuple[Exclusion, ...] = field(repr=False)

    @property
    def split_key(self) -> str:
        """Key of the published split that these rows belong to: `config/split`."""
        return split_of(self.key)


def plan(
    draws: Draws,
    indexes: Mapping[str, SourceIndex],
    *,
    splits: Sequence[str],
    limit_per_class: int | None = None,
    withdrawn: Mapping[str, str] | None = None,
    duplicates: Mapping[str, Mapping[str, str]] | None = None,
) -> list[PlannedSplit]:
    """Choose the images of the given splits.

    Args:
        draws: the benchmark, the seed of its draws, and what an adopted copy replaces them with.
        indexes: source indexes by source key, with the partitions that `splits` need.
        splits: keys of `Benchmark.by_key`.
        limit_per_class: keep only this many images per class, the first by keyed rank.
        withdrawn: the reason by row id for rows that may no longer be published; no other rows take their place.
        duplicates: ids of rows that are never drawn, by `builders.benchmark.group_name`, each with the id of the row
            that shows its picture; other rows take their place.

    Returns:
        One plan for each of `splits`, in that order.
    """
    planner = _Planner(draws, indexes, limit_per_class, withdrawn or {}, duplicates or {})
    return [planner.plan(key) for key in splits]


class _Planner:
    """Plans splits of one benchmark, and caches selections, because splits may take the rest of another split."""

    def __init__(
        self,
        draws: Draws,
        indexes: Mapping[str, SourceIndex],
        limit_per_class: int | None,
        withdrawn: Mapping[str, str],
        duplicates: Mapping[str, Mapping[str, str]],
    ) -> None:
        self.draws, self.benchmark = draws, draws.benchmark
        self.declared = self.benchmark.by_key()
        self.views = {key: IndexArrays(index) for key, index in indexes.items()}
        self.ranked: dict[tuple[str, str], Rows] = {}
        self.limit = limit_per_class
        self.withdrawn = withdrawn
        self.duplicates = duplicates
        self.selected: dict[str, Rows] = {}

    def plan(self, key: str) -> PlannedSplit:
        config, split = self.declared[key]
        view = self.views[split.source.key]
        drawn = self.select(key)
        left, withdrawn = self.without_withdrawn(split, drawn)
        kept = self.within_limit(view, left)
        others = self.others_of(config)
        twice = self.named(split, view.rows(self.draws.classes(key), split.partitions), others)
        accounts = Accounts(key, split, view)
        counted = accounts.by_class(np.concatenate([drawn, twice]), self.reasons(key))
        counted += accounts.beyond_limit(left, kept, self.limit)
        ids = [self.row_ids(split, rows).to_pylist() for rows in (withdrawn, twice)]
        labels = tuple(self.draws.label_names(config))
        return PlannedSplit(
            key=key,
            config=config,
            split=split,
            count=self.benchmark.count(key),
            labels=labels,
            table=self.table(key, labels, kept),
            rows=kept,
            available=int(view.in_partitions(split.partitions).sum()),
            excluded=(
                *in_order([*counted, *accounts.strays()]),
                *accounts.one_by_one(withdrawn, ids[0], self.withdrawn, rule="withdrawn"),
                *accounts.one_by_one(twice, ids[1], others, rule="duplicate"),
            ),
        )

    def within_limit(self, view: IndexArrays, rows: Rows) -> Rows:
        """The first rows of each class by keyed rank, where there is a limit."""
        if self.limit is None:
            return rows
        return first_of_each(view.class_codes, rows, np.full(len(view.class_ids), self.limit))

    def reasons(self, key: str) -> dict[str, tuple[str, str]]:
        _, split = self.declared[key]
        view, adopted = self.views[split.source.key], self.draws.adopted.get(key)
        before = self.benchmark.drawn_before(key)
        return reasons_by_class(split, view.names, self.draws.classes(key), adopted, before)

    def row_ids(self, split: Split, rows: Rows) -> pa.Array:
        return _row_ids(split, self.views[split.source.key].ids.take(pa.array(rows)))

    def select(self, key: str) -> Rows:
        if key not in self.selected:
            self.selected[key] = self._select(key)
        return self.selected[key]

    def _select(self, key: str) -> Rows:
        config, split = self.declared[key]
        view = self.views[split.source.key]
        candidates = view.rows(self.draws.classes(key), split.partitions)
        candidates = candidates[~view.mask(self.named(split, candidates, self.others_of(config)))[candidates]]
        listed = self.draws.adopted[key].source_ids if key in self.draws.adopted else None
        if listed is not None:
            ids = view.ids.take(pa.array(candidates))
            keep = pc.is_in(ids, value_set=pa.array(listed, pa.string()))
            candidates = candidates[keep.to_numpy(zero_copy_only=False)]
        elif isinstance(split.quota, Originals):
            made = original_ids(self.views[split.quota.of.key].index, split.quota.partitions)
            keep = pc.is_in(view.ids.take(pa.array(candidates)), value_set=made)
            candidates = candidates[keep.to_numpy(zero_copy_only=False)]
        else:
            for first in self.benchmark.drawn_before(key):
                candidates = candidates[~view.mask(self.select(first))[candidates]]
        order = self._order(key, split, candidates)
        return order if listed is not None else within_quota(split, view, order)

    def _order(self, key: str, split: Split, candidates: Rows) -> Rows:
        view = self.views[split.source.key]
        if not split.ranked_as:
            return candidates[self.draws.order(view.ids.take(pa.array(candidates)), split_of(key))]
        # Many splits of a large source share this ranking, so all its images are ranked once.
        place = (split.source.key, split.ranked_as)
        if place not in self.ranked:
            self.ranked[place] = self.draws.order(view.ids, split.ranked_as)
        ranked = self.ranked[place]
        return ranked[view.mask(candidates)[ranked]]

    def table(self, key: str, labels: Sequence[str], rows: Rows) -> pa.Table:
        config, split = self.declared[key]
        view = self.views[split.source.key]
        table = _plan_table(labels, split, view, rows, has_labels=config.has_labels(split))
        if OODNESS in config.columns:
            values = _oodness(split, self.draws.adopted.get(key))
            by_code = np.array([values.get(str(class_id), np.nan) for class_id in view.class_ids])
            table = table.append_column(OODNESS.name, pa.array(by_code[view.class_codes[rows]]))
        if config.overlaps:
            of_class = _overlaps(config, split, labels)
            by_class = pa.array([of_class.get(str(class_id)) for class_id in view.class_ids], ID_OVERLAP.arrow)
            table = table.append_column(ID_OVERLAP.name, by_class.take(pa.array(view.class_codes[rows])))
        for column in config.source_columns:
            if column in split.source.columns:
                own = view.index.table[column.name].take(pa.array(rows))
            else:
                own = pa.repeat(pa.scalar(column.absent, column.arrow), len(rows))
            table = table.append_column(column.name, own)
        return table

    def without_withdrawn(self, split: Split, drawn: Rows) -> tuple[Rows, Rows]:
        """Divide rows into kept and withdrawn ones."""
        gone = self.named(split, drawn, self.withdrawn)
        mask = self.views[split.source.key].mask(gone)[drawn]
        return drawn[~mask], drawn[mask]

    def others_of(self, config: Config) -> Mapping[str, str]:
        """Duplicates that the splits of a config leave out, by row id."""
        return self.duplicates.get(group_name(self.benchmark, config.name), {})

    def named(self, split: Split, rows: Rows, ids: Mapping[str, str]) -> Rows:
        """Rows whose ids are among the given ones."""
        if not ids:
            return rows[:0]
        mask = pc.is_in(self.row_ids(split, rows), value_set=pa.array(list(ids), pa.string()))
        found: Rows = rows[mask.to_numpy(zero_copy_only=False)]
        return found


def _oodness(split: Split, adopted: Adopted | None) -> Mapping[str, float]:
    """Distance of each class of a split from the in-distribution classes, by class id."""
    if adopted is not None and adopted.oodness is not None:
        return dict(zip(adopted.class_ids, adopted.oodness, strict=True))
    if split.oodness is None:
        raise ValueError(f"the config has the column oodness, but its split {split.name} declares none")
    return split.oodness.of()


def _overlaps(config: Config, split: Split, labels: Sequence[str]) -> Mapping[str, str]:
    """The known class that each unknown class of a split overlaps most closely, by class id; empty for known ones."""
    if split.role not in UNKNOWN_ROLES:
        return {}
    if config.overlaps == overlaps.BY_NAME and isinstance(config.labels, ClassesOf):
        return overlaps.same_names(split.source.classes(), config.labels.source.classes())
    closest = overlaps.closest(config.overlaps, split.source.key, labels)
    return {class_id: overlap.known for class_id, overlap in closest.items()}


def _plan_table(labels: Sequence[str], split: Split, view: IndexArrays, rows: Rows, *, has_labels: bool) -> pa.Table:
    numbers = {name: i for i, name in enumerate(labels)}
    class_ids = [str(c) for c in view.class_ids]
    of_class = np.array([numbers.get(c, -1) for c in class_ids], dtype=np.int64)
    codes = view.class_codes[rows]
    class_of_row = pa.array(codes)
    source_ids = view.ids.take(pa.array(rows))
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
            _row_ids(split, source_ids),
        ],
        schema=PLAN_SCHEMA,
    )


def _row_ids(split: Split, source_ids: pa.Array) -> pa.Array:
    ids = pc.binary_join_element_wise(pa.scalar(split.source.key), source_ids, "/")
    generator = split.image_generator
    return ids if generator is None else pc.binary_join_element_wise(ids, generator.row_id(""), "")
