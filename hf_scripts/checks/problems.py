"""What a check finds wrong, collected: the first few sentences of each kind, and how many there are.

Tested by `tests/hf_scripts/checks/test_manifest.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

SHOWN = 5
"""So many problems of one kind are written out; the rest is counted."""


@dataclass
class Problems:
    """Problems by kind. A broken shard can have one in each of its rows, so only the first few keep their sentence."""

    sentences: dict[str, list[str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, sentence: str) -> None:
        """Add one problem.

        Args:
            kind: what problems are counted together.
            sentence: where it is, what was expected and what was found.
        """
        self._extend(kind, [sentence], 1)

    def add_rows(self, kind: str, wrong: pa.ChunkedArray | pa.Array, sentence: Callable[[int], str]) -> None:
        """Add one problem for each row that is marked.

        Args:
            kind: what problems are counted together.
            wrong: a boolean a row; null counts as wrong.
            sentence: called with the row's number in `wrong`.
        """
        rows = np.flatnonzero(wrong.fill_null(True).to_numpy(zero_copy_only=False))
        if len(rows):
            self._extend(kind, [sentence(int(row)) for row in rows[:SHOWN]], len(rows))

    def merge(self, other: Problems) -> None:
        """Add all that another collection has."""
        for kind, count in other.counts.items():
            self._extend(kind, other.sentences[kind], count)

    def total(self) -> int:
        """Number of problems, those without a sentence included."""
        return sum(self.counts.values())

    def lines(self) -> Iterator[str]:
        """The sentences in order of first occurrence of their kind, each kind followed by how many more there are."""
        for kind, kept in self.sentences.items():
            yield from kept
            more = self.counts[kind] - len(kept)
            if more:
                yield f"and {more:,} more like it ({kind})"

    def _extend(self, kind: str, sentences: list[str], count: int) -> None:
        kept = self.sentences.setdefault(kind, [])
        kept += sentences[: SHOWN - len(kept)]
        self.counts[kind] = self.counts.get(kind, 0) + count
