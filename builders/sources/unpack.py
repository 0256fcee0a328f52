"""Unpacks containers whose images cannot be read in place, each container in one pass.

Tested by `tests/builders/sources/datasets/test_cifar100.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from builders.sources.base import Container
from builders.sources.readers import cifar, mnist, parquet, svhn, tars, zips

Unpack = Callable[[Path, npt.NDArray[np.int64]], Iterator[Sequence[Any]]]
"""Yields the images at ascending row numbers of a container, in order, as batches of bytes-like objects.

Raises `BuildError` if the container cannot be read or a row has no image.
"""

UNPACKERS: Mapping[Container, Unpack] = {
    "parquet": parquet.unpack_parquet,
    "batch": cifar.unpack_batch,
    "idx": mnist.unpack_idx,
    "mat": svhn.unpack_mat,
    "targz": tars.unpack_targz,
    "zip": zips.unpack_zip,
}
"""Unpackers by container."""
