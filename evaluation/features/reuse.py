"""Reuses features of images that another split of the same release shares: configs of one task share most images.

Tested by `tests/evaluation/features/test_extract.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evaluation.features.blocks import Arrays, RowBlocks

Int64 = npt.NDArray[np.int64]


class ReusableFeatures:
    """The rows of a split whose features exist already in other splits.

    Args:
        ids: ids of the split's rows; an id stands for one image in the whole release.
        others: the same model's features of other splits. Incomplete ones, and those computed in another environment,
            are not used; if several splits have an image, the first is used.
        environment: as for `RowBlocks.begin`.

    Attributes:
        has: whether each row's features exist, shape (n,).
    """

    def __init__(self, ids: Sequence[str], others: Iterable[RowBlocks], environment: Mapping[str, Any]) -> None:
        self._row_blocks = [
            row_blocks for row_blocks in others if row_blocks.is_whole() and row_blocks.environment() == environment
        ]
        self._which = np.full(len(ids), -1, dtype=np.int64)
        self._row = np.zeros(len(ids), dtype=np.int64)
        wanted = pa.array(ids, pa.string())
        for which, row_blocks in enumerate(self._row_blocks):
            found = pc.index_in(wanted, value_set=pa.array(row_blocks.read(("id",))["id"].tolist(), pa.string()))
            rows = pc.fill_null(found, -1).to_numpy()
            new = (rows >= 0) & (self._which < 0)
            self._which[new], self._row[new] = which, rows[new]
        self.has: npt.NDArray[np.bool_] = self._which >= 0

    def take(self, numbers: Int64) -> Arrays:
        """Read existing features of some rows, without the columns of the split itself (`id` and `label`)."""
        taken: dict[str, list[npt.NDArray[Any]]] = {}
        places: list[Int64] = []
        for which in np.unique(self._which[numbers]).tolist():
            here = np.flatnonzero(self._which[numbers] == which)
            places.append(here)
            for name, values in (
                self._row_blocks[which].take(self._row[numbers[here]], without=("id", "label")).items()
            ):
                taken.setdefault(name, []).append(values)
        order = np.argsort(np.concatenate(places))
        return {name: np.concatenate(arrays)[order] for name, arrays in taken.items()}
