"""From source indexes to a plan: one row an image, no pixels, and a reason for everything left out.

`plan` is a pure function. Equal indexes, seed and choices give equal tables, whatever the machine, the order of files
on disk or the layout that the sources came in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.benchmark import (
    ROLES,
    All,
    Benchmark,
    Classes,
    Config,
    Every,
    PerClass,
    Rest,
    Split,
    Take,
    Total,
    parent,
    split_key,
)
from builders.select import first_of_each, keyed_order, largest_remainders
from builders.sources.base import SourceIndex
from taxonomy import decisions

Rows = npt.NDArray[np.int64]

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
    """`images` images of one class, or one image or stray file named, that a split leaves out, and why."""

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
    """What an existing copy of the published benchmark says of one split: its classes and, where known, its images."""

    class_ids: tuple[str, ...]
    source_ids: tuple[str, ...] | None = None


@dataclass(frozen=True)
class PlannedSplit:
    """The plan of one split.

    `labels` are the in-distribution classes that `label` counts. `table` has the columns of `PLAN_SCHEMA` in the order
    that the release will have; `rows` are the same images as row numbers of the source's index; `available` counts
    the source's images in the split's partitions, so that `len(rows)` and the excluded images add up to it.
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
        """`config/split`."""
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
        splits: names as `config/split`.
        adopted: by split name, what replaces the draw.
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

    Where these are drawn, a split of the same classes that is adopted says which they are.
    """
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


class _View:
    """A source's index as arrays that a mask can be made of."""

    def __init__(self, index: SourceIndex) -> None:
        self.index = index
        table = index.table
        self.ids = table["source_id"].combine_chunks()
        self.class_codes, self.class_ids = _codes(table["class_id"])
        self.partition_codes, self.partitions = _codes(table["partition"])
        self.names = index.source.classes()

    def rows(self, class_ids: Sequence[str], partitions: Sequence[str]) -> Rows:
        wanted = np.isin(self.class_ids, list(class_ids))[self.class_codes]
        return np.flatnonzero(wanted & self.in_partitions(partitions))

    def in_partitions(self, partitions: Sequence[str]) -> npt.NDArray[np.bool_]:
        return np.isin(self.partitions, list(partitions))[self.partition_codes]

    def tally(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Images by (partition, class): shape (partitions, classes)."""
        width = len(self.class_ids)
        cells = self.partition_codes[rows].astype(np.int64) * width + self.class_codes[rows]
        return np.bincount(cells, minlength=len(self.partitions) * width).reshape(-1, width)


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
        self.views = {key: _View(index) for key, index in indexes.items()}
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
            table=_plan_table(labels, split, view, rows),
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
            candidates = np.setdiff1d(candidates, self.select(first), assume_unique=True)
        order = candidates[
            keyed_order(view.ids.take(pa.array(candidates)), seed=self.seed, config=config.name, split=split.name)
        ]
        if listed is not None:
            return order
        return _take(split, view, order)

    def without_withdrawn(self, split: Split, view: _View, drawn: Rows) -> tuple[Rows, Rows]:
        """The rows that stay, and those that were withdrawn."""
        if not self.withdrawn:
            return drawn, drawn[:0]
        ids = _row_ids(split, view.ids.take(pa.array(drawn)))
        gone = pc.is_in(ids, value_set=pa.array(list(self.withdrawn), pa.string())).to_numpy(zero_copy_only=False)
        return drawn[~gone], drawn[gone]

    def withdrawals(self, key: str, view: _View, rows: Rows) -> list[Exclusion]:
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
            return {name: _not_drawn(split.take) if by_rule and name in chosen else rule for name in names}
        if isinstance(split.classes, Every):
            return dict.fromkeys(chosen, _not_drawn(split.take))
        reasons = dict.fromkeys(
            self.views[split.source.key].names,
            ("outside", f"not one of the classes that the rules of the table {split.classes.table} look at"),
        )
        for decision in decisions.load(split.classes.table):
            if decision.class_id in chosen:
                reasons[decision.class_id] = _not_drawn(split.take)
            elif decision.decision == split.classes.decision:
                reasons[decision.class_id] = _other_side(split.classes)
            else:
                reasons[decision.class_id] = (decision.rule, f"{decision.decision}: {decision.evidence}")
        return reasons


def _other_side(classes: Classes) -> tuple[str, str]:
    """Why a class that could have been drawn is not in the split."""
    draw = classes.draw
    if draw is None:
        raise ValueError("without a draw every class of the decision is chosen")
    of = f"{draw.count} drawn classes" + (" of its group" if draw.of_each_group else "")
    return ("class-drawn", f"among the {of}") if draw.rest else ("class-not-drawn", f"keyed rank beyond the {of}")


def _take(split: Split, view: _View, order: Rows) -> Rows:
    """Cut candidates, best first, down to the split's quota."""
    take = split.take
    sizes = np.bincount(view.class_codes[order], minlength=len(view.class_ids))
    if isinstance(take, All | Rest):
        return order
    if isinstance(take, PerClass):
        return first_of_each(view.class_codes, order, np.minimum(take.images, sizes // 2 if take.half else sizes))
    return _take_total(take, split, view, order)


def _take_total(take: Total, split: Split, view: _View, order: Rows) -> Rows:
    left = min(take.images, len(order) // 2) if take.half else take.images
    taken = []
    for partition in split.partitions:
        pool = order[view.in_partitions([partition])[order]]
        sizes = np.bincount(view.class_codes[pool], minlength=len(view.class_ids))
        quotas = largest_remainders(min(left, len(pool)), sizes.tolist())
        taken.append(first_of_each(view.class_codes, pool, np.array(quotas, dtype=np.int64)))
        left -= len(taken[-1])
    return order[np.isin(order, np.concatenate(taken))]


def _not_drawn(take: Take) -> tuple[str, str]:
    """Why a class that is drawn from has images that are not in the split."""
    if isinstance(take, Rest):
        return ("in-other-split", f"drawn for {take.of}")
    if isinstance(take, PerClass):
        first = f"drawn for {take.apart_from}, or " if take.apart_from else ""
        rank = f"keyed rank beyond the class's {take.images}" + " (or half of a class that is short)" * take.half
        return ("image-not-drawn", first + rank)
    if isinstance(take, Total):
        return ("image-not-drawn", f"keyed rank beyond the class's share of {take.images} images")
    return ("image-not-drawn", "every image of the class is taken")


def _strays(key: str, split: Split, index: SourceIndex) -> list[Exclusion]:
    # A stray was never an image of the source, so it counts 0 and the sum of images stays whole.
    return [
        Exclusion(key, split.source.key, piece.partition, "", "", stray.path, 0, "stray", stray.reason)
        for piece in index.pieces
        if piece.partition in split.partitions
        for stray in piece.strays
    ]


def _plan_table(labels: Sequence[str], split: Split, view: _View, rows: Rows) -> pa.Table:
    numbers = {name: i for i, name in enumerate(labels)}
    class_ids = [str(c) for c in view.class_ids]
    of_class = np.array([numbers.get(c, -1) for c in class_ids], dtype=np.int64)
    codes = view.class_codes[rows]
    taken = pa.array(codes)
    source_ids = view.ids.take(pa.array(rows))
    count = len(rows)
    known = split.role == "in_distribution"
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


def _codes(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.str_]]:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.unify_dictionaries().combine_chunks()
    return array.indices.to_numpy(), np.array(array.dictionary.to_pylist(), dtype=np.str_)
