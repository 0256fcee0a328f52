"""Plans splits from source indexes: one row per image, without pixels, and a reason for every image left out.

`plan` is a pure function: equal indexes, seed and options give equal tables, whatever the machine, the order of files
on disk and the layout of the sources.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.declare.benchmark import Count, split_of
from builders.declare.quotas import Rows
from builders.declare.splits import AllClasses, ClassesOf, Config, FirstClasses, Split
from builders.plan.candidates import Adopted, Draws, IndexArrays, KeyedRanks, original_ids
from builders.release.schema import NUMBERED, OODNESS, PLANNED, ROLES, UNKNOWN_ROLES
from builders.release.tables import Exclusion
from builders.sources.base import SourceIndex
from builders.storage.parquet import BLOCK, spilled
from taxonomy import decisions, overlaps
from taxonomy.rules import own_classes

PLAN_SCHEMA = pa.schema([(name, pa.int64() if name in NUMBERED else pa.string()) for name in PLANNED])
"""Columns of a plan. `label` is a position in the config's label names, or -1; `role` is a position in `ROLES`."""


@dataclass(frozen=True)
class PlannedSplit:
    """The plan of one split, or of one part of a joined split.

    `key` is `config/split` or `config/split.part`, and `count` its rows in complete sources and in the paper.
    `labels` are the label names of the config. `chosen` are the images as row numbers of the source's index, in any
    order. `listing` makes `rows` and `table` when either is first asked for: a dry run counts images, and asks
    for neither. `classes` counts the classes of the images, and `available` the source's images in the split's
    partitions: the chosen and the excluded ones.
    """

    key: str
    config: Config
    split: Split
    count: Count
    labels: tuple[str, ...]
    chosen: Rows = field(repr=False)
    listing: Callable[[], tuple[Rows, pa.Table]] = field(repr=False)
    classes: int
    available: int
    excluded: tuple[Exclusion, ...] = field(repr=False)

    @property
    def rows(self) -> Rows:
        """The images in the order of the release, as row numbers of the source's index."""
        return self.listing()[0]

    @property
    def table(self) -> pa.Table:
        """`PLAN_SCHEMA` of each image, and `oodness`, overlaps and the sources' own columns if the config has them."""
        return self.listing()[1]

    @property
    def size(self) -> int:
        """Number of images."""
        return len(self.chosen)

    @property
    def split_key(self) -> str:
        """Key of the published split that these rows belong to: `config/split`."""
        return split_of(self.key)


def as_listed(rows: Rows, table: pa.Table) -> Callable[[], tuple[Rows, pa.Table]]:
    """Return a `PlannedSplit.listing` of existing rows and their table."""
    return lambda: (rows, table)


def plan(
    draws: Draws,
    indexes: Mapping[str, SourceIndex],
    *,
    splits: Sequence[str],
    limit_per_class: int | None = None,
    withdrawn: Mapping[str, str] | None = None,
    duplicates: Mapping[str, Mapping[str, str]] | None = None,
) -> list[PlannedSplit]:
    """Choose the images of some splits, given as keys of `Benchmark.by_key`.

    `indexes` are by source key and have the partitions that the splits need. `limit_per_class` keeps only the first
    images of a class by keyed rank. `withdrawn` has the reason by row id for rows that may no longer be published; no
    other rows take their place. `duplicates` has ids of rows that are never drawn, by `Benchmark.group`, each with the
    id of the row that shows its picture; other rows take their place.
    """
    planner = _Planner(draws, indexes, duplicates or {})
    return [planner.plan(key, limit_per_class, withdrawn or {}) for key in splits]


class _Planner:
    """Plans splits of one benchmark, and caches selections, because splits may take the rest of another split."""

    def __init__(
        self, draws: Draws, indexes: Mapping[str, SourceIndex], duplicates: Mapping[str, Mapping[str, str]]
    ) -> None:
        self.draws, self.benchmark = draws, draws.benchmark
        self.views = {key: IndexArrays(index) for key, index in indexes.items()}
        self.words: dict[tuple[str, str], npt.NDArray[np.uint64]] = {}
        self.duplicates = duplicates
        self.selected: dict[str, tuple[Rows, Rows]] = {}

    def plan(self, key: str, limit: int | None, withdrawn: Mapping[str, str]) -> PlannedSplit:
        config, split = self.benchmark.by_key()[key]
        view, adopted, class_ids = self.views[split.source.key], self.draws.adopted.get(key), self.draws.classes(key)
        drawn, duplicated = self.select(key)
        taken_back = _named(view, split, drawn, withdrawn)
        chosen = publishable = _without(drawn, taken_back)
        if limit is not None:
            chosen = self.ranks(key).first(publishable, np.full(len(view.class_ids), limit))
        inside = view.index.rows_of(split.partitions)
        accounted = np.sort(np.concatenate([drawn, duplicated]))
        reasons = reasons_by_class(split, view.names, class_ids, adopted, self.benchmark.drawn_before(key))
        beyond = dict.fromkeys(view.names, ("limit-per-class", f"first {limit} by keyed rank"))
        excluded = [
            *counted(key, split, view, view.tally(inside) - view.tally(accounted), reasons),
            *counted(key, split, view, view.tally(publishable) - view.tally(chosen), beyond),
            *strays(key, split, view),
        ]
        duplicates = self.duplicates.get(self.benchmark.group(config.name), {})
        labels = self.draws.label_names(config)
        return PlannedSplit(
            key=key,
            config=config,
            split=split,
            count=self.benchmark.count(key),
            labels=labels,
            chosen=chosen,
            listing=functools.cache(functools.partial(self.listing, key, chosen, labels)),
            classes=int(np.count_nonzero(view.sizes(chosen))),
            available=len(inside),
            excluded=(
                *sorted(excluded, key=lambda e: (e.source, e.partition, e.class_id, e.image, e.rule)),
                *one_by_one(key, split, view, taken_back, "withdrawn", withdrawn),
                *one_by_one(key, split, view, duplicated, "duplicate", duplicates),
            ),
        )

    def listing(self, key: str, chosen: Rows, labels: tuple[str, ...]) -> tuple[Rows, pa.Table]:
        """Return a split's rows in the order of its ranks, and their table."""
        config, split = self.benchmark.by_key()[key]
        view, adopted, ranks = self.views[split.source.key], self.draws.adopted.get(key), self.ranks(key)
        rows = ranks.ordered(chosen, ranks.words(chosen))
        blocks = (rows[start : start + BLOCK] for start in range(0, max(len(rows), 1), BLOCK))
        return rows, spilled(planned_table(config, split, view, block, labels, adopted) for block in blocks)

    def select(self, key: str) -> tuple[Rows, Rows]:
        """Return the ascending rows of a split's quota, and of its candidates that are duplicates; selected once.

        The quota is taken before a limit and withdrawn rows.
        """
        if key in self.selected:
            return self.selected[key]
        config, split = self.benchmark.by_key()[key]
        view, adopted, originals = self.views[split.source.key], self.draws.adopted.get(key), split.originals
        candidates = view.rows(self.draws.classes(key), split.partitions)
        duplicates = self.duplicates.get(self.benchmark.group(config.name), {})
        duplicated = _named(view, split, candidates, duplicates)
        rows = _without(candidates, duplicated)
        if adopted is not None and adopted.source_ids is not None:
            rows = view.named(rows, adopted.source_ids)
        else:
            if originals is not None:
                rows = view.named(rows, original_ids(self.views[originals.of.key].index, originals.partitions))
            for first in self.benchmark.drawn_before(key):
                rows = _without(rows, self.select(first)[0])
            rows = split.quota.take(rows, self.ranks(key), split.partitions)
        self.selected[key] = rows, duplicated
        return self.selected[key]

    def ranks(self, key: str) -> KeyedRanks:
        """Return the ranks by which a split draws its images, and in whose order its rows are."""
        _, split = self.benchmark.by_key()[key]
        view = self.views[split.source.key]
        if not split.ranked_as:
            return KeyedRanks(view, self.draws.rank(split_of(key)))
        # Many splits of a large source share this ranking, so all its images are ranked once.
        words_key = (split.source.key, split.ranked_as)
        rank = self.draws.rank(split.ranked_as)
        if words_key not in self.words:
            self.words[words_key] = KeyedRanks(view, rank).words(np.arange(view.index.num_rows))
        return KeyedRanks(view, rank, self.words[words_key])


def _without(rows: Rows, others: Rows) -> Rows:
    return rows[np.isin(rows, others, invert=True)] if len(others) else rows


def _named(view: IndexArrays, split: Split, rows: Rows, ids: Mapping[str, str]) -> Rows:
    """Return those rows whose ids in the release are among the given ones."""
    if not ids:
        return rows[:0]
    mask = pc.is_in(row_ids(split, view.ids(rows)), value_set=pa.array(list(ids), pa.string()))
    named: Rows = rows[mask.to_numpy(zero_copy_only=False)]
    return named


# The table of the images that are planned


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


# The images that are left out: every image of a split's partitions is planned, or listed or counted here

Reason = tuple[str, str]
"""Rule and evidence."""


def counted(
    key: str, split: Split, view: IndexArrays, counts: npt.NDArray[np.int64], reasons: Mapping[str, Reason]
) -> Iterator[Exclusion]:
    """Count the images that a split or part leaves out; `counts` is by partition and class, `reasons` by class id."""
    source = split.source.key
    for p, c in zip(*np.nonzero(counts), strict=True):
        class_id = str(view.class_ids[c])
        place = (key, source, view.partitions[p], class_id, view.names[class_id])
        yield Exclusion(*place, "", int(counts[p, c]), *reasons[class_id])


def one_by_one(
    key: str, split: Split, view: IndexArrays, rows: Rows, rule: str, evidence: Mapping[str, str]
) -> list[Exclusion]:
    """List images that a rule leaves out one by one; `evidence` is by row id."""
    exclusions, ids, source = [], view.ids(rows), split.source.key
    numbers = zip(view.index.piece_of(rows).tolist(), view.class_codes[rows].tolist(), strict=True)
    named = zip(ids.to_pylist(), row_ids(split, ids).to_pylist(), strict=True)
    for (piece, code), (image, row_id) in zip(numbers, named, strict=True):
        class_id = str(view.class_ids[code])
        place = (key, source, view.partitions[piece], class_id, view.names[class_id])
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
