"""Plans splits from source indexes: one row per image, without pixels, and a reason for every image left out.

`plan` is a pure function: equal indexes, seed and options give equal tables, whatever the machine, the order of files
on disk and the layout of the sources.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.declare.benchmark import split_of
from builders.declare.splits import AllClasses, ClassesOf, Config, FirstClasses, Part, Split
from builders.plan.candidates import Adopted, Draws, KeyedRanks, original_ids
from builders.release.digests import lines_digest
from builders.release.entries import FileEntry
from builders.release.schema import (
    EXPECTED,
    ID_OVERLAP,
    ID_OVERLAP_KIND,
    OODNESS,
    PLAN,
    ROLES,
    UNKNOWN_ROLES,
    plain_schema,
)
from builders.release.tables import Exclusion
from builders.sources.base import Rows, SourceIndex
from builders.storage.parquet import BLOCK, spilled
from taxonomy import decisions, overlaps
from taxonomy.rules import own_classes


@dataclass(frozen=True)
class PlannedSplit:
    """The plan of one split, or of one part of a joined split: its rows, and what is left out.

    `key` is `config/split` or `config/split.part`. `rows` are the images in the order of the release, as row numbers
    of the source's index, and `table` has the columns `PLAN` and `EXPECTED` of each, and `Config.planned_columns`; a
    plan that only counts (`plan`) has ascending rows, and no table. `classes` counts the classes of the images, and
    `available` the source's images in the split's partitions: the rows and the excluded ones. `draws` has the digests
    of the images that are drawn, before a limit and withdrawn rows, by each split that others draw after: this one
    where it is such, and those before it. `positions` are the places of a part's rows in the joined split.
    `expected` has what a published index says of columns that are generated, none of other splits, and `sealed` are
    the published residuals that the generator opens.
    """

    key: str
    config: Config
    split: Split
    rows: Rows = field(repr=False)
    table: pa.Table = field(repr=False)
    classes: int
    available: int
    excluded: tuple[Exclusion, ...] = field(repr=False)
    draws: Mapping[str, str] = field(default_factory=dict, repr=False)
    positions: Rows = field(default_factory=lambda: np.empty(0, np.int64), repr=False)
    expected: pa.Table = field(default_factory=lambda: pa.table({}), repr=False)
    sealed: tuple[FileEntry, ...] = ()

    @property
    def size(self) -> int:
        """The number of images."""
        return len(self.rows)

    @property
    def split_key(self) -> str:
        """The key of the published split that these rows belong to: `config/split`."""
        return split_of(self.key)


def plan(
    draws: Draws,
    indexes: Mapping[str, SourceIndex],
    *,
    splits: Sequence[str],
    limit_per_class: int | None = None,
    withdrawn: Mapping[str, str] | None = None,
    duplicates: Mapping[str, Mapping[str, str]] | None = None,
    counts_only: bool = False,
) -> list[PlannedSplit]:
    """Choose the images of some splits or parts, given by their keys.

    `indexes` are by source key and have the partitions that the splits need. `limit_per_class` keeps only the first
    images of a class by keyed rank. `withdrawn` has the reason by row id for rows that may no longer be published; no
    other rows take their place. `duplicates` has ids of rows that are never drawn, by `Benchmark.group`, each with the
    id of the row that shows its picture; other rows take their place. A dry run wants `counts_only`: neither order nor
    tables, which take longer than all else.
    """
    planner, of_split = _Planner(draws, indexes, duplicates or {}), dict[str, list[PlannedSplit]]()
    for key in splits:
        planned = planner.plan(key, limit_per_class, withdrawn or {}, counts_only=counts_only)
        of_split.setdefault(planned.split_key, []).append(planned)
    joined = [] if counts_only else [key for key, parts in of_split.items() if isinstance(parts[0].split, Part)]
    of_split |= {key: _with_positions(of_split[key], draws) for key in joined}
    return [part for parts in of_split.values() for part in parts]


def _with_positions(parts: Sequence[PlannedSplit], draws: Draws) -> list[PlannedSplit]:
    """Place the rows of a split's parts among each other, by the ranks of their ids."""
    ids = pa.chunked_array([chunk for part in parts for chunk in part.table["id"].chunks], pa.string())
    positions = np.empty(len(ids), np.int64)
    positions[draws.rank(parts[0].split_key).order(ids.combine_chunks())] = np.arange(len(ids))
    of_each = np.split(positions, np.cumsum([part.size for part in parts])[:-1])
    return [dataclasses.replace(part, positions=own) for part, own in zip(parts, of_each, strict=True)]


class _Planner:
    """Plans splits of one benchmark, and caches selections, because splits may take the rest of another split."""

    def __init__(
        self, draws: Draws, indexes: Mapping[str, SourceIndex], duplicates: Mapping[str, Mapping[str, str]]
    ) -> None:
        self.draws, self.benchmark = draws, draws.benchmark
        self.indexes = indexes
        self.prefixes: dict[tuple[str, str], npt.NDArray[np.uint64]] = {}
        self.duplicates = duplicates
        self.selected: dict[str, _Selection] = {}

    def plan(self, key: str, limit: int | None, withdrawn: Mapping[str, str], *, counts_only: bool) -> PlannedSplit:
        selection = self.select(key)
        config, split, index = selection.config, selection.split, selection.index
        taken_back = _named(index, split, selection.drawn, withdrawn)
        chosen = publishable = _without(selection.drawn, taken_back)
        if limit is not None:
            chosen = selection.ranks.first(publishable, np.full(len(index.class_ids), limit))
        inside = index.rows_of(split.partitions)
        accounted = np.sort(np.concatenate([selection.drawn, selection.duplicated]))
        before = self.benchmark.drawn_before(key)
        reasons = selection.reasons(before)
        beyond = dict.fromkeys(index.source.classes(), ("limit-per-class", f"first {limit} by keyed rank"))
        excluded = [
            *selection.counted(index.tally(inside) - index.tally(accounted), reasons),
            *selection.counted(index.tally(publishable) - index.tally(chosen), beyond),
            *selection.strays(),
        ]
        duplicates = self.duplicates.get(self.benchmark.group(config.name), {})
        labels = self.draws.label_names(config)
        parents = {other.quota.parent for other in self.benchmark.parts.values()}
        rows = chosen if counts_only else selection.ranks.ordered(chosen, selection.ranks.prefixes(chosen))
        listed = rows[:0] if counts_only else rows
        blocks = (listed[start : start + BLOCK] for start in range(0, max(len(listed), 1), BLOCK))
        return PlannedSplit(
            key=key,
            config=config,
            split=split,
            rows=rows,
            table=spilled(selection.table(block, labels) for block in blocks),
            classes=int(np.count_nonzero(index.class_sizes(chosen))),
            available=len(inside),
            excluded=(
                *sorted(excluded, key=lambda e: (e.source, e.partition, e.class_id, e.image, e.rule)),
                *selection.one_by_one(taken_back, "withdrawn", withdrawn),
                *selection.one_by_one(selection.duplicated, "duplicate", duplicates),
            ),
            draws={name: self.select(name).digest for name in (key, *before) if name in parents},
        )

    def select(self, key: str) -> _Selection:
        """Select the images that a split's quota takes, before a limit and withdrawn rows; computed once a split."""
        if key in self.selected:
            return self.selected[key]
        config, split = self.benchmark.config_of(key), self.benchmark.parts[key]
        index, adopted, originals = self.indexes[split.source.key], self.draws.adopted.get(key), split.originals
        class_ids, ranks = self.draws.classes(key), self.ranks(key)
        candidates = index.rows_of(split.partitions, class_ids)
        duplicated = _named(index, split, candidates, self.duplicates.get(self.benchmark.group(config.name), {}))
        rows = _without(candidates, duplicated)
        if adopted is not None and adopted.source_ids is not None:
            rows = _among(rows, index.values("source_id", rows), adopted.source_ids)
        else:
            if originals is not None:
                ids = original_ids(self.indexes[originals.source.key], originals.partitions)
                rows = _among(rows, index.values("source_id", rows), ids)
            for first in self.benchmark.drawn_before(key):
                rows = _without(rows, self.select(first).drawn)
            rows = ranks.take(split.quota, rows, split.partitions)
        self.selected[key] = _Selection(key, config, split, index, ranks, class_ids, adopted, rows, duplicated)
        return self.selected[key]

    def ranks(self, key: str) -> KeyedRanks:
        """Return the ranks by which a split draws its images and sorts its rows."""
        split = self.benchmark.parts[key]
        index = self.indexes[split.source.key]
        if not split.ranked_as:
            return KeyedRanks(index, self.draws.rank(split_of(key)))
        # Many splits of a large source share this ranking, so all its images are ranked once.
        shared = (split.source.key, split.ranked_as)
        rank = self.draws.rank(split.ranked_as)
        if shared not in self.prefixes:
            self.prefixes[shared] = KeyedRanks(index, rank).prefixes(np.arange(index.num_rows))
        return KeyedRanks(index, rank, self.prefixes[shared])


def _without(rows: Rows, others: Rows) -> Rows:
    return rows[np.isin(rows, others, invert=True)] if len(others) else rows


def _among(rows: Rows, ids: pa.Array, wanted: Sequence[str] | pa.Array) -> Rows:
    """Return those rows whose ids, given in their order, are among the wanted ones."""
    mask = pc.is_in(ids, value_set=pa.array(wanted, pa.string()))
    named: Rows = rows[mask.to_numpy(zero_copy_only=False)]
    return named


def _named(index: SourceIndex, split: Split, rows: Rows, ids: Mapping[str, str]) -> Rows:
    """Return those rows whose ids in the release are among the given ones."""
    return _among(rows, row_ids(split, index.values("source_id", rows)), list(ids)) if ids else rows[:0]


def row_ids(split: Split, source_ids: pa.Array) -> pa.Array:
    """Return the ids of a split's rows, given the ids of the source's images."""
    ids = pc.binary_join_element_wise(pa.scalar(split.source.key), source_ids, "/")
    generator = split.image_generator
    return ids if generator is None else pc.binary_join_element_wise(ids, generator.row_id(""), "")


Reason = tuple[str, str]
"""Rule and evidence."""


@dataclass(frozen=True, eq=False)
class _Selection:
    """The images that a split or part draws of its candidates, the images of `class_ids` in its partitions.

    `drawn` are the ascending rows of its quota, `duplicated` those of candidates that are duplicates. Every image of
    the partitions is in the table, or it is counted or listed among those that are left out.
    """

    key: str
    config: Config
    split: Split
    index: SourceIndex
    ranks: KeyedRanks
    class_ids: Sequence[str]
    adopted: Adopted | None
    drawn: Rows
    duplicated: Rows

    @functools.cached_property
    def digest(self) -> str:
        """The digest of the ids of the drawn images, sorted, since a source's layouts may order them differently."""
        return lines_digest(pa.table({"id": self.index.values("source_id", self.drawn)}).sort_by("id"), ("id",))

    def table(self, rows: Rows, labels: Sequence[str]) -> pa.Table:
        """Return the plan's table for some rows of the source, in their order.

        It has the columns `PLAN`, an empty `EXPECTED`, and what the config has of its own that is planned.
        """
        config, split, index = self.config, self.split, self.index
        class_ids = [str(class_id) for class_id in index.class_ids]
        names, planned = index.source.classes(), config.planned_columns
        numbers = {name: i for i, name in enumerate(labels)} if config.has_labels(split) else {}
        of_class: dict[str, Sequence[object]] = {
            "label": [numbers.get(class_id, -1) for class_id in class_ids],
            "class_id": class_ids,
            "class_name": [names[class_id] for class_id in class_ids],
        }
        of_all: dict[str, object] = {
            "role": ROLES.index(split.role),
            "source": split.source.key,
            "expected_sha256": "",
        }
        if OODNESS in planned:
            distances = _oodness(split, self.adopted)
            of_class[OODNESS.name] = [distances.get(name, np.nan) for name in class_ids]
        if config.overlaps:
            known = _overlaps(config, split, labels)
            for number, column in enumerate((ID_OVERLAP, ID_OVERLAP_KIND)):
                of_class[column.name] = [known[name][number] if name in known else None for name in class_ids]
        source_ids, class_of_row = index.values("source_id", rows), pa.array(index.class_codes[rows])
        values = {"source_id": source_ids, "id": row_ids(split, source_ids)}
        for column in config.source_columns:
            if column in split.source.columns:
                values[column.name] = index.values(column.name, rows)
            else:
                of_all[column.name] = column.absent
        schema = plain_schema({**PLAN, **EXPECTED, **{column.name: column.type for column in planned}})
        for name in schema.names:
            if name in of_class:
                values[name] = pa.array(of_class[name], schema.field(name).type).take(class_of_row)
            elif name in of_all:
                values[name] = pa.repeat(pa.scalar(of_all[name], schema.field(name).type), len(rows))
        return pa.Table.from_pydict(values, schema)

    def counted(self, counts: npt.NDArray[np.int64], reasons: Mapping[str, Reason]) -> Iterator[Exclusion]:
        """Yield the images left out, counted by partition and class; `reasons` has the reason of each class."""
        for p, c in zip(*np.nonzero(counts), strict=True):
            partition, class_id = self.index.partitions[p].name, str(self.index.class_ids[c])
            yield self._exclusion(partition, class_id, "", int(counts[p, c]), *reasons[class_id])

    def one_by_one(self, rows: Rows, rule: str, evidence: Mapping[str, str]) -> list[Exclusion]:
        """List images that a rule leaves out individually; `evidence` is by row id."""
        left_out = self.index.take(["partition", "class_id", "source_id"], rows)
        ids = row_ids(self.split, left_out["source_id"])
        exclusions = [
            self._exclusion(image["partition"], image["class_id"], image["source_id"], 1, rule, evidence[row_id])
            for image, row_id in zip(left_out.to_pylist(), ids.to_pylist(), strict=True)
        ]
        return sorted(exclusions, key=lambda e: e.image)

    def _exclusion(
        self, partition: str, class_id: str, image: str, images: int, rule: str, evidence: str
    ) -> Exclusion:
        source = self.index.source
        place = (self.key, source.key, partition, class_id, source.classes()[class_id])
        return Exclusion(*place, image, images, rule, evidence)

    def strays(self) -> Iterator[Exclusion]:
        """List stray files as exclusions of 0 images, because they are no images of the source."""
        for partition in self.index.partitions:
            for stray in partition.strays if partition.name in self.split.partitions else ():
                place = (self.key, self.index.source.key, partition.name, "", "")
                yield Exclusion(*place, stray.path, 0, "stray", stray.reason)

    def reasons(self, before: Sequence[str]) -> dict[str, Reason]:
        """Return by class id the rule and the evidence by which images of the class are left out.

        `before` are the splits that draw from the same images before.
        """
        names, classes = self.index.source.classes(), self.split.classes
        beyond = (self.split.quota.rule, self.split.quota.evidence(" or ".join(before)))
        outside: dict[str, Reason] = {}
        if self.adopted is not None:
            outside = dict.fromkeys(
                names, ("not-adopted", "not in the copy of the published benchmark that was adopted")
            )
            if self.adopted.source_ids is not None:  # else the copy names classes, and their images are drawn
                return outside
        elif isinstance(classes, FirstClasses):
            evidence = f"beyond the first {classes.count} classes, of which a demo makes images"
            outside = dict.fromkeys(names, ("demo-classes", evidence))
        elif not isinstance(classes, AllClasses):
            table, draw = classes.table, classes.draw
            evidence = f"not one of the classes that the rules of the table {table} look at"
            outside = dict.fromkeys(names, ("outside", evidence))
            for decided in decisions.load_decisions(table):
                outside[decided.class_id] = (decided.rule, f"{decided.decision}: {decided.evidence}")
                if draw is not None and decided.decision == classes.decision:
                    drawn = f"{draw.count} drawn classes" + (" of its group" if draw.of_each_group else "")
                    undrawn = ("class-not-drawn", f"keyed rank beyond the {drawn}")
                    outside[decided.class_id] = ("class-drawn", f"among the {drawn}") if draw.rest else undrawn
        return outside | dict.fromkeys(self.class_ids, beyond)


def _oodness(split: Split, adopted: Adopted | None) -> Mapping[str, float]:
    """Return the distance of each class of a split from the in-distribution classes, by class id."""
    if adopted is not None and adopted.oodness is not None:
        return dict(zip(adopted.class_ids, adopted.oodness, strict=True))
    if split.oodness is None:
        raise ValueError(f"the config has the column oodness, but its split {split.name} declares none")
    return split.oodness.by_class()


def _overlaps(config: Config, split: Split, labels: Sequence[str]) -> Mapping[str, tuple[str, str]]:
    """Return the known class that each unknown class of a split overlaps most closely, and how, by class id.

    Empty for known classes; compared by name, they have no kind.
    """
    if split.role not in UNKNOWN_ROLES:
        return {}
    if config.overlaps == overlaps.BY_NAME and isinstance(config.labels, ClassesOf):
        if not _is_named(split):
            return {}
        compared = own_classes.compare_classes(split.source.classes(), config.labels.source.classes()).overlaps
        return {class_id: (known, "") for class_id, known in compared.items()}
    closest = overlaps.closest(config.overlaps, split.source.key, labels)
    return {class_id: (overlap.known, overlap.kind) for class_id, overlap in closest.items()}


def _is_named(split: Split) -> bool:
    """Whether a split's class ids are names."""
    return not isinstance(split.classes, AllClasses) or split.classes.named


def remarks_on_classes(config: Config, split: Split) -> tuple[str, ...] | None:
    """Return sentences on classes that WordNet and names cannot compare; None if a table of overlaps is used instead.

    For a known split, the sentences are on its classes that WordNet lacks or has several senses of.
    """
    if config.overlaps != overlaps.BY_NAME or not isinstance(config.labels, ClassesOf):
        return None
    if split.role not in UNKNOWN_ROLES:
        return own_classes.naming_remarks(split.source.classes())
    if not _is_named(split):
        return ("Its images have no class folders, so no class was compared.",)
    return own_classes.compare_classes(split.source.classes(), config.labels.source.classes()).remarks
