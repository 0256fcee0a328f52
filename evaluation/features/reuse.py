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

from evaluation.features.blocks import Arrays, RowBlocks, read_rows

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
        used = [one for one in others if one.is_whole() and one.environment() == environment]
        known = [id_ for one in used for id_ in one.read(("id",))["id"].tolist()]
        self._paths = [path for one in used for path in one.paths()]
        sizes = [stop - start for start, stop in (map(int, path.stem.split("-")) for path in self._paths)]
        self._starts = np.cumsum([0, *sizes])
        found = pc.index_in(pa.array(ids, pa.string()), value_set=pa.array(known, pa.string()))
        self._row: Int64 = pc.fill_null(found, -1).to_numpy().astype(np.int64)
        self.has: npt.NDArray[np.bool_] = self._row >= 0

    def take(self, numbers: Int64) -> Arrays:
        """Read existing features of some rows, at least one, without the columns of the split itself."""
        rows = self._row[numbers]
        files = np.searchsorted(self._starts, rows, side="right") - 1
        order = np.argsort(files, kind="stable")
        parts = [
            read_rows(self._paths[file], rows[files == file] - self._starts[file], without=("id", "label"))
            for file in np.unique(files).tolist()
        ]
        back = np.argsort(order)
        return {name: np.concatenate([part[name] for part in parts])[back] for name in parts[0]}
