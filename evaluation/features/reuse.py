"""What was seen of an image before, in another split of the same release: configs of one task share most images.

Tested by `tests/evaluation/features/test_extract.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evaluation.features.blocks import Arrays, Parts

Int64 = npt.NDArray[np.int64]


class Earlier:
    """Rows of a split, by number, that stand in other parts already.

    Args:
        ids: the ids of the split's rows, which name an image in the whole release.
        others: what the same model left of other splits. Those that are not whole or were computed otherwise are not
            used; of an image that several have, the first is.
        computed: as for `Parts.begin`.

    Attributes:
        has: which rows are there, shape (n,).
    """

    def __init__(self, ids: Sequence[str], others: Iterable[Parts], computed: Mapping[str, Any]) -> None:
        self._parts = [parts for parts in others if parts.is_whole() and parts.computed() == computed]
        self._which = np.full(len(ids), -1, dtype=np.int64)
        self._row = np.zeros(len(ids), dtype=np.int64)
        wanted = pa.array(ids, pa.string())
        for which, parts in enumerate(self._parts):
            found = pc.index_in(wanted, value_set=pa.array(parts.read(("id",))["id"].tolist(), pa.string()))
            rows = pc.fill_null(found, -1).to_numpy()
            new = (rows >= 0) & (self._which < 0)
            self._which[new], self._row[new] = which, rows[new]
        self.has: npt.NDArray[np.bool_] = self._which >= 0

    def take(self, numbers: Int64) -> Arrays:
        """What was seen of some rows that are there, without what their own split says of them (`id` and `label`)."""
        taken: dict[str, list[npt.NDArray[Any]]] = {}
        places: list[Int64] = []
        for which in np.unique(self._which[numbers]).tolist():
            here = np.flatnonzero(self._which[numbers] == which)
            places.append(here)
            for name, values in self._parts[which].take(self._row[numbers[here]], without=("id", "label")).items():
                taken.setdefault(name, []).append(values)
        order = np.argsort(np.concatenate(places))
        return {name: np.concatenate(arrays)[order] for name, arrays in taken.items()}
