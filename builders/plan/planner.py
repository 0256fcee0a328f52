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

from builders.declare.benchmark import Config, Count, Split, group_name, split_of
from builders.declare.quotas import Rows
from builders.plan.candidates import Draws, IndexArrays, KeyedRanks, RankedCandidates, first_by_rank
from builders.plan.originals import original_ids
from builders.plan.tables import Accounts, planned_table, reasons_by_class, row_ids
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
        duplicates: ids of rows that are never drawn, by `group_name`, each with the id of the row that shows its
            picture; other rows take their place.

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
        self.words: dict[tuple[str, str], npt.NDArray[np.uint64]] = {}
        self.limit = limit_per_class
        self.withdrawn = withdrawn
        self.duplicates = duplicates
        self.selected: dict[str, Rows] = {}

    def plan(self, key: str) -> PlannedSplit:
        config, split = self.declared[key]
        view, adopted = self.views[split.source.key], self.draws.adopted.get(key)
        duplicates = self.duplicates.get(group_name(self.benchmark, config.name), {})
        drawn = self.select(key)
        withdrawn = self.named(split, drawn, self.withdrawn)
        chosen = publishable = drawn[~view.mask(withdrawn)[drawn]]
        if self.limit is not None:
            chosen = first_by_rank(view, publishable, np.full(len(view.class_ids), self.limit), self.ranks(key))
        duplicated = self.named(split, self.candidates(key), duplicates) if duplicates else drawn[:0]
        accounts = Accounts(key, split, view)
        before = self.benchmark.drawn_before(key)
        reasons = reasons_by_class(split, view.names, self.draws.classes(key), adopted, before)
        counted = accounts.by_class(np.sort(np.concatenate([drawn, duplicated])), reasons)
        if self.limit is not None:
            counted += accounts.beyond_limit(publishable, chosen, self.limit)
        counted += accounts.strays()
        labels = tuple(self.draws.label_names(config))
        return PlannedSplit(
            key=key,
            config=config,
            split=split,
            count=self.benchmark.count(key),
            labels=labels,
            chosen=chosen,
            listing=functools.cache(functools.partial(self.listing, key, chosen, labels)),
            classes=int(np.count_nonzero(view.sizes(chosen))),
            available=view.available(split.partitions),
            excluded=(
                *sorted(counted, key=lambda e: (e.source, e.partition, e.class_id, e.image, e.rule)),
                *accounts.one_by_one(withdrawn, self.withdrawn, rule="withdrawn"),
                *accounts.one_by_one(duplicated, duplicates, rule="duplicate"),
            ),
        )

    def listing(self, key: str, chosen: Rows, labels: tuple[str, ...]) -> tuple[Rows, pa.Table]:
        """Return a split's rows in the order of its ranks, and their table."""
        config, split = self.declared[key]
        view, adopted, ranks = self.views[split.source.key], self.draws.adopted.get(key), self.ranks(key)
        rows = ranks.ordered(chosen, ranks.words(chosen))
        blocks = (rows[start : start + BLOCK] for start in range(0, max(len(rows), 1), BLOCK))
        return rows, spilled(planned_table(config, split, view, block, labels, adopted) for block in blocks)

    def candidates(self, key: str) -> Rows:
        """Return the ascending rows of the images that a split may draw."""
        _, split = self.declared[key]
        return self.views[split.source.key].rows(self.draws.classes(key), split.partitions)

    def select(self, key: str) -> Rows:
        """Return the ascending rows of a split's quota, before a limit and withdrawn rows; selected once."""
        if key in self.selected:
            return self.selected[key]
        config, split = self.declared[key]
        view, adopted = self.views[split.source.key], self.draws.adopted.get(key)
        candidates = self.candidates(key)
        duplicates = self.duplicates.get(group_name(self.benchmark, config.name), {})
        candidates = candidates[~view.mask(self.named(split, candidates, duplicates))[candidates]]
        source_ids = None if adopted is None else adopted.source_ids
        adopted_ids = None if source_ids is None else pa.array(source_ids, pa.string())
        allowed = adopted_ids
        if allowed is None and (originals := split.originals) is not None:
            allowed = original_ids(self.views[originals.of.key].index, originals.partitions)
        if allowed is not None:
            keep = pc.is_in(view.ids(candidates), value_set=allowed)
            candidates = candidates[keep.to_numpy(zero_copy_only=False)]
        else:
            for first in self.benchmark.drawn_before(key):
                candidates = candidates[~view.mask(self.select(first))[candidates]]
        if adopted_ids is None:
            candidates = split.quota.take(RankedCandidates(view, candidates, self.ranks(key), split.partitions))
        self.selected[key] = candidates
        return candidates

    def ranks(self, key: str) -> KeyedRanks:
        """Return the ranks by which a split draws its images, and in whose order its rows are."""
        _, split = self.declared[key]
        view = self.views[split.source.key]
        if not split.ranked_as:
            return KeyedRanks(view, self.draws.rank(split_of(key)))
        # Many splits of a large source share this ranking, so all its images are ranked once.
        words_key = (split.source.key, split.ranked_as)
        rank = self.draws.rank(split.ranked_as)
        if words_key not in self.words:
            self.words[words_key] = KeyedRanks(view, rank).words(np.arange(view.index.num_rows))
        return KeyedRanks(view, rank, self.words[words_key])

    def named(self, split: Split, rows: Rows, ids: Mapping[str, str]) -> Rows:
        """Return those rows whose ids are among the given ones."""
        if not ids:
            return rows[:0]
        own_ids = row_ids(split, self.views[split.source.key].ids(rows))
        mask = pc.is_in(own_ids, value_set=pa.array(list(ids), pa.string()))
        named: Rows = rows[mask.to_numpy(zero_copy_only=False)]
        return named
