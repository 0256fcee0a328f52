"""How images come out of containers that cannot be read one by one in place, each container in one pass.

Tested by `tests/builders/sources/test_cifar100.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from builders.sources import cifar100, lsun, svhn
from builders.sources.base import How
from builders.sources.readers import parquet, tars

Unpack = Callable[[Path, npt.NDArray[np.int64]], Iterator[Sequence[Any]]]
"""Takes a container and ascending row numbers; yields the images of these rows in order, as batches of bytes-like
objects.

Raises `BuildError` where the container cannot be read or has no image in a row.
"""

UNPACKERS: Mapping[How, Unpack] = {
    "parquet": parquet.unpack,
    "pickle": cifar100.unpack,
    "mat": svhn.unpack,
    "lmdb": lsun.unpack,
    "targz": tars.unpack,
}
"""By `How`."""
