"""The search for near-duplicates as tasks: several workers search for parts of the queries at a time.

Tested by `tests/builders/audit/test_duplicates.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

from builders.duplicates.search import Index, Pairs, find_in
from builders.executors.base import ONE_CORE, Executor, Meter, Progress, Resources, once_per_worker
from builders.storage.paths import store_of

_QUERIES = 1024
"""Queries of a task: a few seconds for 60,000 references."""


@dataclass(frozen=True)
class _PreparedIndex:
    """Makes the index of the references in a .npy file, once in each worker."""

    references: Path

    def __call__(self) -> Index:
        return Index(store_of(self.references).array(self.references, mapped=True))


@dataclass(frozen=True)
class SearchTask:
    """A `builders.executors.base.Task` that searches for the queries `start` to `stop` of a .npy file."""

    queries: Path
    references: Path
    start: int
    stop: int
    resources: ClassVar[Resources] = ONE_CORE

    def run(self, progress: Progress) -> Pairs:
        """Find the pairs; numbers of queries are those in the file."""
        # Each worker has one core: threads of the matrix product would wait for each other.
        with threadpool_limits(1, user_api="blas"):
            index = once_per_worker(_PreparedIndex(self.references))
            queries = store_of(self.queries).array(self.queries, mapped=True)[self.start : self.stop]
            pairs = find_in(index, np.asarray(queries), advance=lambda count: progress(count, 0))
        return Pairs(pairs.queries + self.start, pairs.references, pairs.distances)


def find_in_files(queries: Path, references: Path, executor: Executor, meter: Meter) -> Pairs:
    """Find the pairs that `builders.duplicates.search.find_pairs` does, with both sets in .npy files.

    Args:
        queries: uint8 (n, 32, 32, 3).
        references: uint8 (m, 32, 32, 3).
        executor: runs the tasks.
        meter: counts the queries.
    """
    count = len(store_of(queries).array(queries, mapped=True))
    tasks = [
        SearchTask(queries, references, start, min(start + _QUERIES, count)) for start in range(0, count, _QUERIES)
    ]
    results = [Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))]
    results += executor.run(tasks, meter.advance)
    return Pairs(
        np.concatenate([part.queries for part in results]),
        np.concatenate([part.references for part in results]),
        np.concatenate([part.distances for part in results]),
    )
