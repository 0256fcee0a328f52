"""Plans splits from source indexes: one row per image, without pixels, and a reason for every image left out.

`plan` is a pure function: equal indexes, seed and options give equal tables, whatever the machine, the order of files
on disk and the layout of the sources.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.declare.benchmark import Count, split_of
from builders.declare.quotas import Rows
from builders.declare.splits import Config, Split
from builders.plan.candidates import Draws, IndexArrays, KeyedRanks, original_ids
from builders.plan.tables import counted, one_by_one, planned_table, reasons_by_class, row_ids, strays
from builders.release.tables import Exclusion
from builders.sources.base import SourceIndex
from builders.storage.parquet import BLOCK, spilled


@dataclass(frozen=True)
class PlannedSplit:
    """The plan of one split, or of one part of a joined split.

    `key` is `config/split` or `config/split.part`, and `count` its rows in complete sources and in the paper.
    `labels` are the label names of the config. `chosen` are the images as row numbers of the source's index, in any
    order. `listing` makes `rows` and `table` when one of both is first asked for: a dry run counts images, and asks
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
    """Choose the images of the given splits.

    Args:
        draws: the benchmark, the seed of its draws, and what an adopted copy replaces them with.
        indexes: source indexes by source key, with the partitions that `splits` need.
        splits: keys of `Benchmark.by_key`.
        limit_per_class: keep only this many images per class, the first by keyed rank.
        withdrawn: the reason by row id for rows that may no longer be published; no other rows take their place.
        duplicates: ids of rows that are never drawn, by `Benchmark.group`, each with the id of the row that shows its
            picture; other rows take their place.
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
