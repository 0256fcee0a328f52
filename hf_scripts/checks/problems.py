"""Collects the problems that checks find: a count of each kind, and the first few messages.

Tested by `tests/hf_scripts/checks/test_manifest.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from unknown_detection.words import printable, quantity

SHOWN = 5
"""Number of problems of one kind that are printed; the others are counted."""


@dataclass
class Problems:
    """Problems by kind. Only the first few of a kind keep their message, as a shard may have one in every row."""

    sentences: dict[str, list[str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, sentence: str) -> None:
        """Add one problem.

        `sentence`: the message: the place, a colon, and what is wrong there.
        """
        self._extend(kind, [sentence], 1)

    def add_rows(self, kind: str, wrong: pa.ChunkedArray | pa.Array, sentence: Callable[[int], str]) -> None:
        """Add one problem for each marked row.

        `wrong`: one boolean per row; null counts as true.
        `sentence`: gives the message for a row's number in `wrong`.
        """
        rows = np.flatnonzero(wrong.fill_null(True).to_numpy(zero_copy_only=False))
        if len(rows):
            self._extend(kind, [sentence(int(row)) for row in rows[:SHOWN]], len(rows))

    def merge(self, other: Problems) -> None:
        """Add all problems of another collection."""
        for kind, count in other.counts.items():
            self._extend(kind, other.sentences[kind], count)

    def total(self) -> int:
        """Return the number of problems, including those without a message."""
        return sum(self.counts.values())

    def first(self) -> str:
        """Return the first problem, and the number of others."""
        more = self.total() - 1
        return next(self.lines()) + (f", and {quantity(more, 'more problem')}" if more else "")

    def lines(self) -> Iterator[str]:
        """Yield printable messages by kind, in the order of first occurrence, and the count of further ones."""
        for kind, sentences in self.sentences.items():
            yield from map(printable, sentences)
            more = self.counts[kind] - len(sentences)
            if more:
                yield f"and {more:,} more ({kind})"

    def _extend(self, kind: str, sentences: list[str], count: int) -> None:
        known = self.sentences.setdefault(kind, [])
        known.extend(sentences[: SHOWN - len(known)])
        self.counts[kind] = self.counts.get(kind, 0) + count
