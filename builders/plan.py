"""From source indexes to a plan: one row an image, no pixels, and a reason for everything left out.

`plan` is a pure function. Equal indexes, seed and choices give equal tables, whatever the machine, the order of files
on disk or the layout that the sources came in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.benchmark import ROLES, AllOf, Benchmark, Classes, Config, Every, Split, parent, part_key, split_key
from builders.select import first_of_each, keyed_order
from builders.sources.base import SourceIndex
from builders.takes import Rows, View, not_drawn, taken
from taxonomy import decisions

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
class Exclusion:
    """`images` images of one class, or one image or stray file named, that a split leaves out, and why.

    `split` is the key of the split, or of the part of it that leaves them out.
    """

    split: str
    source: str
    partition: str
    class_id: str
    class_name: str
    image: str
    images: int
    rule: str
    evidence: str


@dataclass(frozen=True)
class Adopted:
    """What an existing copy of the published benchmark says of one split, or a part of one.

    Its classes and, where known, its images; and for each class how far it is from the in-distribution ones, where the
    copy says so.
    """

    class_ids: tuple[str, ...]
    source_ids: tuple[str, ...] | None = None
    oodness: tuple[float, ...] | None = None


@dataclass(frozen=True)
class PlannedSplit:
    """The plan of one split, or of one part of a split that is joined.

    `labels` are the in-distribution classes that `label` counts. `table` has the columns of `PLAN_SCHEMA`, and
    `oodness` where the config has it, in the order that the release will have; `rows` are the same images as row
    numbers of the source's index; `available` counts the source's images in the split's partitions, so that
    `len(rows)` and the excluded images add up to it.
    """

    config: Config
    split: Split
    labels: tuple[str, ...]
    table: pa.Table
    rows: Rows = field(repr=False)
    available: int
    excluded: tuple[Exclusion, ...] = field(repr=False)

    @property
    def key(self) -> str:
        """`config/split`, or `config/split.part`."""
        return part_key(self.config, self.split)

    @property
    def split_key(self) -> str:
        """The split that these rows stand in, as it is published: `config/split`."""
        return split_key(self.config, self.split)


def plan(
    benchmark: Benchmark,
    indexes: Mapping[str, SourceIndex],
    *,
    seed: int,
    splits: Sequence[str],
    adopted: Mapping[str, Adopted] | None = None,
    limit_per_class: int | None = None,
    withdrawn: Mapping[str, str] | None = None,
) -> list[PlannedSplit]:
    """Choose the images of the given splits.

    Args:
        benchmark: the declaration.
        indexes: by source key, with the partitions that `splits` need.
        seed: keys every draw.
        splits: keys as `Benchmark.by_key` has them.
        adopted: by key, what replaces the draw.
        limit_per_class: keep at most so many images a class, the first by keyed rank.
        withdrawn: by row id, why a row may not be published any more; others do not move up into its place.

    Returns:
        One plan for each name in `splits`, in that order.
    """
    planner = _Planner(benchmark, indexes, seed, adopted or {}, limit_per_class, withdrawn or {})
    return [planner.plan(key) for key in splits]


def class_ids(classes: Classes, *, seed: int) -> list[str]:
    """The ids of some classes of a source, drawn where they are to be drawn; sorted."""
    decided = [d for d in decisions.load(classes.table) if d.decision == classes.decision]
    names = sorted(d.class_id for d in decided)
    draw = classes.draw
    if draw is None:
        return names
    config, _, split = draw.key.partition("/")
    ranked = [names[i] for i in keyed_order(pa.array(names), seed=seed, config=config, split=split)]
    group_of = {d.class_id: d.group if draw.of_each_group else "" for d in decided}
    members: dict[str, list[str]] = {}
    for name in ranked:
        members.setdefault(group_of[name], []).append(name)
    drawn = {name for group in members.values() for name in group[: draw.count]}
    return [name for name in names if (name in drawn) is not draw.rest]


def label_names(
    benchmark: Benchmark, config: Config, *, seed: int, adopted: Mapping[str, Adopted] | None = None
) -> list[str]:
    """Names of a config's `label` column, in order: the sorted ids of its in-distribution classes.

    Where these are drawn, a split of the same classes that is adopted says which they are. Where they are all classes
    of a source, they stand in the owner's order, by which models count them.
    """
    if isinstance(config.labels, AllOf):
        return list(config.labels.source.classes())
    if config.labels.draw is not None and adopted:
        for key, (_, split) in benchmark.by_key().items():
            if split.classes == config.labels and key in adopted:
                return sorted(adopted[key].class_ids)
    return class_ids(config.labels, seed=seed)


def drawn_classes(split: Split, *, seed: int) -> list[str]:
    """The class ids that a split draws from by rule, sorted."""
    if isinstance(split.classes, Every):
        return sorted(split.source.classes())
    return class_ids(split.classes, seed=seed)


class _Planner:
    """Plans splits of one benchmark; a split that another one is the rest of is selected once."""

    def __init__(
        self,
        benchmark: Benchmark,
        indexes: Mapping[str, SourceIndex],
        seed: int,
        adopted: Mapping[str, Adopted],
        limit_per_class: int | None,
        withdrawn: Mapping[str, str],
    ) -> None:
        self.benchmark = benchmark
        self.declared = benchmark.by_key()
        self.views = {key: View(index) for key, index in indexes.items()}
        self.ranked: dict[tuple[str, str], Rows] = {}
        self.seed = seed
        self.adopted = adopted
        self.limit = limit_per_class
        self.withdrawn = withdrawn
        self.selected: dict[str, Rows] = {}

    def plan(self, key: str) -> PlannedSplit:
        config, split = self.declared[key]
        view = self.views[split.source.key]
        drawn = self.select(key)
        kept, gone = self.without_withdrawn(split, view, drawn)
        rows = (
            kept
            if self.limit is None
            else first_of_each(view.class_codes, kept, np.full(len(view.class_ids), self.limit))
        )
        labels = label_names(self.benchmark, config, seed=self.seed, adopted=self.adopted)
        return PlannedSplit(
            config=config,
            split=split,
            labels=tuple(labels),
            table=self.table(key, labels, rows),
            rows=rows,
            available=int(view.in_partitions(split.partitions).sum()),
            excluded=tuple(self.exclusions(key, drawn, kept, rows) + self.withdrawals(key, view, gone)),
        )

    def classes(self, key: str) -> list[str]:
        if key in self.adopted:
            return list(self.adopted[key].class_ids)
        return drawn_classes(self.declared[key][1], seed=self.seed)

    def select(self, key: str) -> Rows:
        if key not in self.selected:
            self.selected[key] = self._select(key)
        return self.selected[key]

    def _select(self, key: str) -> Rows:
        config, split = self.declared[key]
        view = self.views[split.source.key]
        candidates = view.rows(self.classes(key), split.partitions)
        listed = self.adopted[key].source_ids if key in self.adopted else None
        if listed is not None:
            ids = view.ids.take(pa.array(candidates))
            keep = pc.is_in(ids, value_set=pa.array(listed, pa.string()))
            candidates = candidates[keep.to_numpy(zero_copy_only=False)]
        elif first := parent(split.take):
            candidates = candidates[~view.mask(self.select(first))[candidates]]
        order = self._order(config, split, candidates)
        return order if listed is not None else taken(split, view, order)

    def _order(self, config: Config, split: Split, candidates: Rows) -> Rows:
        view = self.views[split.source.key]
        if not split.ranked_as:
            ids = view.ids.take(pa.array(candidates))
            return candidates[keyed_order(ids, seed=self.seed, config=config.name, split=split.name)]
        # Many splits of a large source share this rank, so all its images are ranked, once.
        place = (split.source.key, split.ranked_as)
        if place not in self.ranked:
            of_config, _, of_split = split.ranked_as.partition("/")
            self.ranked[place] = keyed_order(view.ids, seed=self.seed, config=of_config, split=of_split)
        ranked = self.ranked[place]
        return ranked[view.mask(candidates)[ranked]]

    def table(self, key: str, labels: Sequence[str], rows: Rows) -> pa.Table:
        config, split = self.declared[key]
        view = self.views[split.source.key]
        table = _plan_table(labels, split, view, rows)
        if "oodness" not in config.columns:
            return table
        values = _oodness(split, self.adopted.get(key))
        by_code = np.array([values.get(str(class_id), np.nan) for class_id in view.class_ids])
        return table.append_column("oodness", pa.array(by_code[view.class_codes[rows]]))

    def without_withdrawn(self, split: Split, view: View, drawn: Rows) -> tuple[Rows, Rows]:
        """The rows that stay, and those that were withdrawn."""
        if not self.withdrawn:
            return drawn, drawn[:0]
        ids = _row_ids(split, view.ids.take(pa.array(drawn)))
        gone = pc.is_in(ids, value_set=pa.array(list(self.withdrawn), pa.string())).to_numpy(zero_copy_only=False)
        return drawn[~gone], drawn[gone]

    def withdrawals(self, key: str, view: View, rows: Rows) -> list[Exclusion]:
        _, split = self.declared[key]
        found = []
        for row in rows.tolist():
            class_id, source_id = str(view.class_ids[view.class_codes[row]]), view.ids[row].as_py()
            reason = self.withdrawn[_row_ids(split, view.ids.slice(row, 1))[0].as_py()]
            partition = str(view.partitions[view.partition_codes[row]])
            name = view.names[class_id]
            found.append(
                Exclusion(key, split.source.key, partition, class_id, name, source_id, 1, "withdrawn", reason)
            )
        return sorted(found, key=lambda e: e.image)

    def exclusions(self, key: str, drawn: Rows, left: Rows, kept: Rows) -> list[Exclusion]:
        _, split = self.declared[key]
        view = self.views[split.source.key]
        available = view.tally(np.flatnonzero(view.in_partitions(split.partitions)))
        undrawn = available - view.tally(drawn)
        limited = view.tally(left) - view.tally(kept)
        reasons = self._reasons(key)
        found: list[Exclusion] = []
        for counts, limit in ((undrawn, False), (limited, True)):
            for p, c in zip(*np.nonzero(counts), strict=True):
                class_id = str(view.class_ids[c])
                rule, evidence = (
                    ("limit-per-class", f"first {self.limit} by keyed rank") if limit else reasons[class_id]
                )
                found.append(
                    Exclusion(
                        split=key,
                        source=split.source.key,
                        partition=str(view.partitions[p]),
                        class_id=class_id,
                        class_name=view.names[class_id],
                        image="",
                        images=int(counts[p, c]),
                        rule=rule,
                        evidence=evidence,
                    )
                )
        found += _strays(key, split, view.index)
        return sorted(found, key=lambda e: (e.source, e.partition, e.class_id, e.image, e.rule))

    def _reasons(self, key: str) -> dict[str, tuple[str, str]]:
        """Why images of a class are not in the split, by class id."""
        _, split = self.declared[key]
        chosen = set(self.classes(key))
        if key in self.adopted:
            rule = ("not-adopted", "not in the copy of the published benchmark that was adopted")
            by_rule = self.adopted[key].source_ids is None  # the copy names classes, and their images are drawn
            names = self.views[split.source.key].names
            return {name: not_drawn(split.take) if by_rule and name in chosen else rule for name in names}
        if isinstance(split.classes, Every):
            return dict.fromkeys(chosen, not_drawn(split.take))
        reasons = dict.fromkeys(
            self.views[split.source.key].names,
            ("outside", f"not one of the classes that the rules of the table {split.classes.table} look at"),
        )
        for decision in decisions.load(split.classes.table):
            if decision.class_id in chosen:
                reasons[decision.class_id] = not_drawn(split.take)
            elif decision.decision == split.classes.decision:
                reasons[decision.class_id] = _other_side(split.classes)
            else:
                reasons[decision.class_id] = (decision.rule, f"{decision.decision}: {decision.evidence}")
        return reasons


def _oodness(split: Split, adopted: Adopted | None) -> Mapping[str, float]:
    """How far each class of a split is from the in-distribution ones, by class id."""
    if adopted is not None and adopted.oodness is not None:
        return dict(zip(adopted.class_ids, adopted.oodness, strict=True))
    if split.oodness is None:
        raise ValueError(f"a config has the column oodness and its split {split.name} does not say it")
    return split.oodness.of()


def _other_side(classes: Classes) -> tuple[str, str]:
    """Why a class that could have been drawn is not in the split."""
    draw = classes.draw
    if draw is None:
        raise ValueError("without a draw every class of the decision is chosen")
    of = f"{draw.count} drawn classes" + (" of its group" if draw.of_each_group else "")
    return ("class-drawn", f"among the {of}") if draw.rest else ("class-not-drawn", f"keyed rank beyond the {of}")


def _strays(key: str, split: Split, index: SourceIndex) -> list[Exclusion]:
    # A stray was never an image of the source, so it counts 0 and the sum of images stays whole.
    return [
        Exclusion(key, split.source.key, piece.partition, "", "", stray.path, 0, "stray", stray.reason)
        for piece in index.pieces
        if piece.partition in split.partitions
        for stray in piece.strays
    ]


def _plan_table(labels: Sequence[str], split: Split, view: View, rows: Rows) -> pa.Table:
    numbers = {name: i for i, name in enumerate(labels)}
    class_ids = [str(c) for c in view.class_ids]
    of_class = np.array([numbers.get(c, -1) for c in class_ids], dtype=np.int64)
    codes = view.class_codes[rows]
    taken = pa.array(codes)
    source_ids = view.ids.take(pa.array(rows))
    count = len(rows)
    known = split.role == "in_distribution" and split.labelled
    source = pa.repeat(pa.scalar(split.source.key), count)
    return pa.Table.from_arrays(
        [
            pa.array(of_class[codes] if known else np.full(count, -1)),
            pa.array(np.full(count, ROLES.index(split.role))),
            pa.array(class_ids).take(taken),
            pa.array([view.names[c] for c in class_ids]).take(taken),
            source,
            source_ids,
            _row_ids(split, source_ids),
        ],
        schema=PLAN_SCHEMA,
    )


def _row_ids(split: Split, source_ids: pa.Array) -> pa.Array:
    ids = pc.binary_join_element_wise(pa.scalar(split.source.key), source_ids, "/")
    return ids if split.making is None else pc.binary_join_element_wise(ids, split.making.row_id(""), "")
