"""The candidates of a split: the images of its classes in a source's index, ordered by keyed rank.

Tested by `tests/builders/plan/test_planner.py` and `tests/builders/test_broad_adopted.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.declare.benchmark import Benchmark
from builders.declare.quotas import Originals, Quota
from builders.declare.ranking import Key, first_of_each, in_rank_order
from builders.declare.splits import ClassesOf, Config
from builders.errors import BuildError
from builders.sources.base import Rows, SourceIndex

_RANKED_TOGETHER = 1 << 20
"""Rows that are ranked at a time (ours): 24 MB of numbers."""

_READ_TOGETHER = 1 << 16
"""Ids that are copied and hashed at a time (ours): the system clears a larger block of memory each time that one is
taken, and a million digests as Python objects would take more memory than the whole plan."""


@dataclass(frozen=True)
class KeyedRanks:
    """Ranks a source's images by a keyed digest of their ids; `known` has the prefixes of all rows, if computed."""

    index: SourceIndex
    key: Key
    known: npt.NDArray[np.uint64] | None = field(default=None, repr=False)

    def prefixes(self, rows: Rows) -> npt.NDArray[np.uint64]:
        """Return the first 64 bits of the digest of some rows' ids; the lowest digest ranks first."""
        if self.known is not None:
            return self.known[rows]
        prefixes = np.empty(len(rows), np.uint64)
        for start in range(0, len(rows), _READ_TOGETHER):
            block = slice(start, start + _READ_TOGETHER)
            prefixes[block] = self.key.prefixes(self.index.values("source_id", rows[block]))
        return prefixes

    def ordered(self, rows: Rows, prefixes: npt.NDArray[np.uint64]) -> Rows:
        """Sort rows by the digests of their ids, lowest first; `prefixes` are the digests' first 64 bits."""
        return rows[in_rank_order(prefixes, lambda tied: self.key.digests(self.index.values("source_id", rows[tied])))]

    def take(self, quota: Quota, rows: Rows, partitions: Sequence[str]) -> Rows:
        """Return the candidates that a quota takes; `rows` and the result are ascending, in the given partitions."""
        index = self.index
        if quota.columns:
            columns = {name: index.values(name, rows) for name in quota.columns}
            rows = rows[quota.named(columns, index.class_codes[rows], index.class_ids.tolist())]
        names = [partition.name for partition in index.partitions]
        numbers = [names.index(partition) for partition in partitions]
        shares = quota.shares(index.tally(rows)[numbers])
        if shares is None:
            return rows
        if shares.ndim == 1:
            return self.first(rows, shares)
        inside = index.by_partition(rows)
        pools = zip((inside[number] for number in numbers), shares, strict=True)
        return np.sort(np.concatenate([rows[:0], *(self.first(pool, share) for pool, share in pools)]))

    def first(self, rows: Rows, quotas: npt.NDArray[np.int64]) -> Rows:
        """Return the rows that rank first in their class, up to the class's quota; takes and returns ascending rows.

        After every block only rows that can be among the first are kept, so memory follows the quotas.
        """
        first, prefixes = np.empty(0, np.int32), np.empty(0, np.uint64)
        for start in range(0, len(rows), _RANKED_TOGETHER):
            block = rows[start : start + _RANKED_TOGETHER]
            first, prefixes = np.concatenate([first, block]), np.concatenate([prefixes, self.prefixes(block)])
            mask = np.isin(first, first_of_each(self.index.class_codes, self.ordered(first, prefixes), quotas))
            first, prefixes = first[mask], prefixes[mask]
        return first


@dataclass(frozen=True)
class Adopted:
    """The classes and images of a split or part, taken from a copy of the published benchmark.

    `source_ids` is None where the copy gives classes only. `oodness` is each class's distance from the in-distribution
    classes, None where the copy does not give it.
    """

    class_ids: tuple[str, ...]
    source_ids: tuple[str, ...] | None = None
    oodness: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Draws:
    """What a benchmark draws: keyed by a seed, unless it is adopted from a copy of the published benchmark.

    `adopted` has classes and images by the keys of `Benchmark.parts`.
    """

    benchmark: Benchmark
    seed: int
    adopted: Mapping[str, Adopted] = field(default_factory=dict)

    def classes(self, key: str) -> list[str]:
        """Return the ids of the classes that a split or part draws from, selected by rule or adopted."""
        if key in self.adopted:
            return list(self.adopted[key].class_ids)
        return self.benchmark.parts[key].class_ids(self.seed)

    def label_names(self, config: Config) -> tuple[str, ...]:
        """Return the names of a config's `label` column, in order: the sorted ids of its in-distribution classes.

        If these are drawn, an adopted split of the same classes replaces the draw. All classes of a source keep
        the owner's order, which is that of the models' outputs.
        """
        if isinstance(config.labels, ClassesOf):
            return tuple(config.labels.source.classes())
        if config.labels.draw is not None:
            for key, split in self.benchmark.parts.items():
                if split.classes == config.labels and key in self.adopted:
                    return tuple(sorted(self.adopted[key].class_ids))
        return tuple(config.labels.drawn(self.seed))

    def rank(self, key: str) -> Key:
        """Return the key with which a split (`config/split`) ranks ids."""
        return Key(self.seed, *key.split("/"))


# Images that another source made others of, such as published adversarial ones

ORIGINAL_ID = "original_id"
"""The column of an index with the ids of the images that its images are made of."""


def original_ids(index: SourceIndex, partitions: Sequence[str]) -> pa.Array:
    """Return the sorted, distinct ids of the originals of the images in some partitions."""
    ids = index.take([ORIGINAL_ID], index.rows_of(partitions))[ORIGINAL_ID].combine_chunks().unique()
    return ids.take(pc.array_sort_indices(ids))


def companion_rows(index: SourceIndex, partition: str, source_ids: pa.ChunkedArray) -> Rows:
    """Return the rows of a partition's images made from the given originals, in the originals' order."""
    number = [own.name for own in index.partitions].index(partition)
    positions = pc.index_in(source_ids, value_set=index.partitions[number].table[ORIGINAL_ID].combine_chunks())
    if positions.null_count:
        missing = source_ids.filter(pc.is_null(positions))
        raise BuildError(
            f"{index.source.title} in {index.root} has no image in {partition} that is made of {missing[0]}, nor of "
            f"{len(missing) - 1:,} others. Give the edition that the publisher used ({index.source.edition})."
        )
    rows: Rows = positions.to_numpy().astype(np.int32) + np.int32(index.starts[number])
    return rows


def missing_originals(quota: Originals, derived: SourceIndex, source: SourceIndex) -> str:
    """Name the originals that a source lacks, in a sentence without a full stop; empty if it has all."""
    originals = original_ids(derived, quota.partitions)
    missing = originals.filter(pc.is_null(source.find(originals)))
    if not len(missing):
        return ""
    return (
        f"{source.source.title} lacks {len(missing):,} of the {len(originals):,} images from which "
        f"{quota.source.title} has images in {', '.join(quota.partitions)}, such as {missing[0]}"
    )


def shared_originals(quota: Originals, derived: SourceIndex) -> str:
    """Describe whether some partitions are made of the same originals."""
    sets = {name: set(original_ids(derived, [name]).to_pylist()) for name in quota.partitions}
    originals, common = set.union(*sets.values()), set.intersection(*sets.values())
    if originals == common:
        return f"all {len(sets)} partitions share the same {len(originals):,} originals"
    counts = ", ".join(f"{name} {len(ids):,}" for name, ids in sets.items())
    return f"the partitions do not share all originals: {len(originals):,} in total, {len(common):,} in all ({counts})"
