"""Searches images in files for near-duplicates, in blocks that any worker may compare.

Pairs and their distances are those of `builders.duplicates.search.find_pairs` on all images at once: a pair depends on
its two images alone. A worker holds a block of references with what is computed of it, which is made once for all
blocks of queries that are compared with it, and a block of queries; so its memory does not depend on the rows.

Tested by `tests/builders/duplicates/test_stored.py`.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from builders.duplicates.pixels import Pixels
from builders.duplicates.search import THRESHOLD, Index, Pairs, find_pairs, sorted_pairs
from builders.executors.base import ONE_CORE, Executor, Progress, Resources, once_per_worker

_REFERENCES = 1 << 16
"""References of a block at most: 200 MB of pixels and 30 MB of what is computed of them. What is computed of a query
is computed again for each block, which takes as long as comparing it with 4,000 references."""

_QUERIES = 512
"""Queries of a task at most: a second for the references of a block."""

_NANOSECONDS = 35
"""What a pair of images takes of a core (ours): 27 to 45 were measured (`docs/benchmarks/duplicates.md`)."""

_LONG = 10
"""Minutes of a core from which on a search is announced (ours)."""


class Search(NamedTuple):
    """Images in files that are searched for in others: the pairs whose distance is at most the threshold."""

    queries: Pixels
    references: Pixels
    threshold: float = THRESHOLD


@dataclass(frozen=True)
class _BlockIndex:
    """Reads references and makes their index, once in each worker; `search` tells files of one name apart."""

    references: Pixels
    search: str

    def __call__(self) -> Index:
        return Index(self.references.read())


@dataclass(frozen=True)
class CompareTask:
    """A `builders.executors.base.Task` that compares some queries with some references; `own` as in `find_pairs`."""

    queries: Pixels
    references: Pixels
    threshold: float
    search: str
    own: int | None
    resources: ClassVar[Resources] = ONE_CORE

    def run(self, progress: Progress) -> Pairs:
        """Find the pairs, by row numbers in these."""
        queries = self.queries.read()
        with threadpool_limits(1, user_api="blas"):  # a worker has one core
            index = once_per_worker(_BlockIndex(self.references, self.search))
            return find_pairs(
                queries, index, threshold=self.threshold, advance=lambda count: progress(count, 0), own=self.own
            )


def steps(searches: Sequence[Search]) -> int:
    """Return what `find_stored` advances by in all: the queries, as often as there are blocks of references."""
    return sum(search.queries.rows * len(_starts(search.references.rows, _REFERENCES)) for search in searches)


def long_search(searches: Sequence[Search]) -> str:
    """Say what a search takes that is not done in a few minutes; empty for others."""
    pairs = sum(search.queries.rows * search.references.rows for search in searches)
    minutes = pairs * _NANOSECONDS / 60e9
    if minutes < _LONG:
        return ""
    takes = f"{minutes:,.0f} minutes" if minutes < 120 else f"{minutes / 60:,.0f} hours"
    return (
        f"comparing {pairs:,} pairs of images for near-duplicates takes about {takes} of a core; build folder leaves "
        "it out with --no-near-duplicates"
    )


def find_stored(searches: Sequence[Search], executor: Executor, advance: Progress) -> list[Pairs]:
    """Return the pairs of each search, sorted as those of `find_pairs`, whatever the number of workers.

    Where images are searched for in the same files, none is a pair with itself.
    `advance` is called as an executor calls it, with a number of queries and 0.
    """
    tasks: list[CompareTask] = []
    places: list[tuple[int, int, int]] = []
    name = secrets.token_hex(8)
    # By references, so that a worker has their index for all that is compared with them.
    for references in dict.fromkeys(search.references for search in searches):
        for first in _starts(references.rows, _REFERENCES):
            block = references.part(first, first + _REFERENCES)
            for number, search in enumerate(searches):
                for start in _starts(search.queries.rows, _QUERIES) if search.references == references else ():
                    queries = search.queries.part(start, start + _QUERIES)
                    own = start - first if search.queries == references else None
                    tasks.append(CompareTask(queries, block, search.threshold, name, own))
                    places.append((number, start, first))
    found = [[(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))] for _ in searches]
    for (number, start, first), pairs in zip(places, executor.run(tasks, advance), strict=True):
        found[number].append((pairs.queries + start, pairs.references + first, pairs.distances))
    return [sorted_pairs(*map(np.concatenate, zip(*parts, strict=True))) for parts in found]


def _starts(rows: int, size: int) -> range:
    return range(0, rows, size)
