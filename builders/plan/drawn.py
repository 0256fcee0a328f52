"""The images of a planned split: which they are, and on demand their order and their table.

A dry run counts images and looks no further; what a release needs of each is made when it is written.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.declare.quotas import Rows
from builders.declare.ranking import Key, in_rank_order
from builders.plan.candidates import IndexArrays


class Images(abc.ABC):
    """The images of a planned split.

    Attributes:
        chosen: their row numbers in the source's index, in any order.
        rows: the same in the order of the release.
        table: their rows of `builders.plan.tables.PLAN_SCHEMA` and the config's own columns, in that order.
    """

    chosen: Rows
    rows: Rows
    table: pa.Table

    @abc.abstractmethod
    def classes(self) -> int:
        """How many classes they are of."""


@dataclass(frozen=True)
class Listed(Images):
    """Images whose rows are known, such as those of a published index."""

    rows: Rows
    table: pa.Table

    @property
    def chosen(self) -> Rows:  # type: ignore[override]  # read only
        """The rows."""
        return self.rows

    def classes(self) -> int:
        """How many classes they are of."""
        return len(self.table["class_id"].unique())


@dataclass(frozen=True)
class Drawn(Images):
    """Images that were drawn from a source, ascending; `order` gives the release's order, and `tabled` the table."""

    view: IndexArrays
    chosen: Rows
    order: Callable[[Rows], Rows]
    tabled: Callable[[Rows], pa.Table]

    @functools.cached_property
    def rows(self) -> Rows:  # type: ignore[override]  # computed once
        """In the order of the release."""
        return self.order(self.chosen)

    @functools.cached_property
    def table(self) -> pa.Table:
        """In the order of the release."""
        return self.tabled(self.rows)

    def classes(self) -> int:
        """How many classes they are of."""
        return int(np.count_nonzero(self.view.sizes(self.chosen)))


@dataclass(frozen=True)
class KeyedRanks:
    """Ranks a source's images by the digests of their ids; `known` has the words of all rows where they are known."""

    view: IndexArrays
    key: Key
    known: npt.NDArray[np.uint64] | None = field(default=None, repr=False)

    def words(self, rows: Rows) -> npt.NDArray[np.uint64]:
        """The first words of the digests of some ascending rows, whose ids are read block by block."""
        if self.known is not None:
            return self.known[rows]
        words = np.empty(len(rows), np.uint64)
        for place, ids in self.view.blocks_of_ids(rows):
            words[place] = self.key.words(ids)
        return words

    def ordered(self, rows: Rows, words: npt.NDArray[np.uint64]) -> Rows:
        """Put rows in the order of their digests."""
        return rows[in_rank_order(words, lambda tied: self.key.digests(self.view.ids(rows[tied])))]
