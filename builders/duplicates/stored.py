"""Searches images in files for near-duplicates, in blocks that any worker may compare.

Pairs and their distances are those of `builders.duplicates.search.find_pairs` on all images at once: a pair depends on
its two images alone. A worker holds blocks of references with what is computed of them, which is made once for all
blocks of queries that are compared with them, and a block of queries; so its memory does not depend on the rows.

Tested by `tests/builders/duplicates/test_stored.py`.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from builders.duplicates.pixels import Pixels
from builders.duplicates.search import THRESHOLD, Index, Pairs, Searched, find_in_each, sorted_pairs
from builders.executors.base import ONE_CORE, Executor, Progress, Resources, once_per_worker

_REFERENCES = 1 << 16
"""References that a worker holds at most: 200 MB of pixels and 50 MB of what is computed of them. What is computed of
a query is computed again for each so many, which takes as long as comparing it with 4,000 references."""

_QUERIES = 512
"""Queries of a task at most: a second for the references of a block."""

_NANOSECONDS = 30
"""What a pair of images takes of a core (ours): 14 to 38 were measured (`docs/benchmarks/duplicates.md`)."""

_LONG = 10
"""Minutes of a core from which on a search is announced (ours)."""


class Search(NamedTuple):
    """Images in files that are searched for in others: the pairs whose distance is at most the threshold."""

    queries: Pixels
    references: Pixels
    threshold: float = THRESHOLD


@dataclass(frozen=True)
class _Shelf:
    """Blocks of references, at most `_REFERENCES` in all or a single one; `search` tells files of one name apart."""

    blocks: tuple[Pixels, ...]
    search: str

    def __call__(self) -> Callable[[int], Index]:
        """Return what reads a block and makes its index, when it is asked for, once in each worker."""
        return functools.cache(lambda number: Index(self.blocks[number].read()))


class _Compared(NamedTuple):
    """The number of a block of references, the threshold, and `own` as in `Searched`."""

    number: int
    threshold: float
    own: int | None


@dataclass(frozen=True)
class CompareTask:
    """A `builders.executors.base.Task` that compares some queries with some blocks of references of a shelf."""

    queries: Pixels
    shelf: _Shelf
    blocks: tuple[_Compared, ...]
    resources: ClassVar[Resources] = ONE_CORE

    def run(self, progress: Progress) -> list[Pairs]:
        """Find the pairs with each block, by row numbers in these."""
        queries = self.queries.read()
        with threadpool_limits(1, user_api="blas"):  # a worker has one core
            index_of = once_per_worker(self.shelf)
            searched = [Searched(index_of(block.number), block.threshold, block.own) for block in self.blocks]
            return find_in_each(queries, searched, advance=lambda count: progress(count, 0))


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
    places: list[list[tuple[int, int, int]]] = []
    name = secrets.token_hex(8)
    for starts in _shelves(dict.fromkeys(search.references for search in searches)):
        shelf = _Shelf(tuple(references.part(first, first + _REFERENCES) for references, first in starts), name)
        # What is computed of queries serves all blocks of a shelf that they are compared with.
        for queries in dict.fromkeys(search.queries for search in searches):
            compared = [
                (number, block, first, references == queries)
                for number, search in enumerate(searches)
                for block, (references, first) in enumerate(starts)
                if (search.queries, search.references) == (queries, references)
            ]
            for start in _starts(queries.rows, _QUERIES) if compared else ():
                blocks = [
                    _Compared(block, searches[number].threshold, start - first if is_own else None)
                    for number, block, first, is_own in compared
                ]
                tasks.append(CompareTask(queries.part(start, start + _QUERIES), shelf, tuple(blocks)))
                places.append([(number, start, first) for number, _, first, _ in compared])
    found = [[(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))] for _ in searches]
    for of_task, ran in zip(places, executor.run(tasks, advance), strict=True):
        for (number, start, first), pairs in zip(of_task, ran, strict=True):
            found[number].append((pairs.queries + start, pairs.references + first, pairs.distances))
    return [sorted_pairs(*map(np.concatenate, zip(*parts, strict=True))) for parts in found]


def _shelves(files: Iterable[Pixels]) -> Iterator[list[tuple[Pixels, int]]]:
    """Yield blocks of references, by their first rows, as many together as have `_REFERENCES` rows at most."""
    shelf, held = list[tuple[Pixels, int]](), 0
    for references in files:
        for first in _starts(references.rows, _REFERENCES):
            rows = min(_REFERENCES, references.rows - first)
            if shelf and held + rows > _REFERENCES:
                yield shelf
                shelf, held = [], 0
            shelf.append((references, first))
            held += rows
    if shelf:
        yield shelf


def _starts(rows: int, size: int) -> range:
    return range(0, rows, size)
