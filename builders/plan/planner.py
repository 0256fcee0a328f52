"""Plans splits from source indexes: one row per image, without pixels, and a reason for every image left out.

`plan` is a pure function: equal indexes, seed and options give equal tables, whatever the machine, the order of files
on disk and the layout of the sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.declare.benchmark import Config, Count, Split, group_name, split_of
from builders.declare.quotas import Rows
from builders.plan.candidates import IndexArrays, KeyedRanks, RankedCandidates, first_by_rank
from builders.plan.classes import Draws
from builders.plan.exclusions import Accounts, in_order, reasons_by_class
from builders.plan.originals import original_ids
from builders.plan.tables import planned_table, row_ids
from builders.release.tables import Exclusion
from builders.sources.base import SourceIndex
from builders.storage.spilled import BLOCK, spilled


@dataclass(frozen=True)
class PlannedSplit:
    """The plan of one split, or of one part of a joined split.

    `key` is `config/split` or `config/split.part`, and `count` its rows in complete sources and in the paper.
    `labels` are the label names of the config. `rows` are the images as row numbers of the source's index, in the
    order of the release, and `table` has the columns of `PLAN_SCHEMA` of each, and `oodness`, `id_overlap` and the
    sources' own columns if the config has them. `available` counts the source's images in the split's partitions: the
    rows and the excluded images.
    """

    key: str
    config: Config
    split: Split
    count: Count
    labels: tuple[str, ...]
    rows: Rows = field(repr=False)
    table: pa.Table = field(repr=False)
    available: int
    excluded: tuple[Exclusion, ...] = field(repr=False)

    @property
    def size(self) -> int:
        """How many images."""
        return len(self.rows)

    @property
    def classes(self) -> int:
        """How many classes they are of."""
        return len(self.table["class_id"].unique())

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
        view = self.views[split.source.key]
        drawn = self.select(key)
        left, withdrawn = self.without_withdrawn(split, drawn)
        kept = self.within_limit(key, view, left)
        others = self.others_of(config)
        twice = self.named(split, self.candidates(key), others)
        accounts = Accounts(key, split, view)
        counted = accounts.by_class(np.sort(np.concatenate([drawn, twice])), self.reasons(key))
        counted += accounts.beyond_limit(left, kept, self.limit)
        ids = [self.row_ids(split, rows).to_pylist() for rows in (withdrawn, twice)]
        labels = tuple(self.draws.label_names(config))
        rows = self.order(key, kept)
        return PlannedSplit(
            key=key,
            config=config,
            split=split,
            count=self.benchmark.count(key),
            labels=labels,
            rows=rows,
            table=spilled(self.tables(key, labels, rows)),
            available=view.available(split.partitions),
            excluded=(
                *in_order([*counted, *accounts.strays()]),
                *accounts.one_by_one(withdrawn, ids[0], self.withdrawn, rule="withdrawn"),
                *accounts.one_by_one(twice, ids[1], others, rule="duplicate"),
            ),
        )

    def within_limit(self, key: str, view: IndexArrays, rows: Rows) -> Rows:
        """The first rows of each class by keyed rank, where there is a limit."""
        if self.limit is None:
            return rows
        return first_by_rank(view, rows, np.full(len(view.class_ids), self.limit), self.ranks(key))

    def reasons(self, key: str) -> dict[str, tuple[str, str]]:
        _, split = self.declared[key]
        view, adopted = self.views[split.source.key], self.draws.adopted.get(key)
        before = self.benchmark.drawn_before(key)
        return reasons_by_class(split, view.names, self.draws.classes(key), adopted, before)

    def row_ids(self, split: Split, rows: Rows) -> pa.Array:
        """Ids of some rows of a split."""
        return row_ids(split, self.views[split.source.key].ids(rows))

    def select(self, key: str) -> Rows:
        if key not in self.selected:
            self.selected[key] = self._select(key)
        return self.selected[key]

    def candidates(self, key: str) -> Rows:
        """Ascending rows of the images that a split may draw."""
        _, split = self.declared[key]
        return self.views[split.source.key].rows(self.draws.classes(key), split.partitions)

    def _select(self, key: str) -> Rows:
        config, split = self.declared[key]
        view = self.views[split.source.key]
        candidates = self.candidates(key)
        candidates = candidates[~view.mask(self.named(split, candidates, self.others_of(config)))[candidates]]
        listed = self.draws.adopted[key].source_ids if key in self.draws.adopted else None
        if listed is not None:
            keep = pc.is_in(view.ids(candidates), value_set=pa.array(listed, pa.string()))
            candidates = candidates[keep.to_numpy(zero_copy_only=False)]
        elif (originals := split.originals) is not None:
            made = original_ids(self.views[originals.of.key].index, originals.partitions)
            keep = pc.is_in(view.ids(candidates), value_set=made)
            candidates = candidates[keep.to_numpy(zero_copy_only=False)]
        else:
            for first in self.benchmark.drawn_before(key):
                candidates = candidates[~view.mask(self.select(first))[candidates]]
        if listed is not None:
            return candidates
        return split.quota.take(RankedCandidates(view, candidates, self.ranks(key), split.partitions))

    def ranks(self, key: str) -> KeyedRanks:
        """The ranks by which a split draws its images, and in whose order its rows are."""
        _, split = self.declared[key]
        view = self.views[split.source.key]
        if not split.ranked_as:
            return KeyedRanks(view, self.draws.rank(split_of(key)))
        # Many splits of a large source share this ranking, so all its images are ranked once.
        place = (split.source.key, split.ranked_as)
        rank = self.draws.rank(split.ranked_as)
        if place not in self.words:
            self.words[place] = KeyedRanks(view, rank).words(np.arange(view.index.num_rows))
        return KeyedRanks(view, rank, self.words[place])

    def order(self, key: str, rows: Rows) -> Rows:
        """Put a split's ascending rows into the order of the release."""
        ranks = self.ranks(key)
        return ranks.ordered(rows, ranks.words(rows))

    def tables(self, key: str, labels: Sequence[str], rows: Rows) -> Iterator[pa.Table]:
        """The table of some rows of a split, some at a time."""
        config, split = self.declared[key]
        view, adopted = self.views[split.source.key], self.draws.adopted.get(key)
        for start in range(0, max(len(rows), 1), BLOCK):
            yield planned_table(config, split, view, rows[start : start + BLOCK], labels, adopted)

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
