"""Reads MNIST's idx files, packed or not.

Tested by `tests/builders/sources/datasets/test_mnist.py`.
"""

from __future__ import annotations

import contextlib
import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from builders.errors import BuildError
from builders.sources.formats import idx
from builders.sources.readers.arrays import interleaved
from builders.storage.files import open_buffered

TITLE = "MNIST"


@contextlib.contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open an idx file, packed or not, and turn errors of its reader into a `BuildError`."""
    try:
        with open_buffered(path) as file:
            if path.name.endswith(".gz"):
                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield io.BufferedReader(unpacked)
            else:
                yield file
    except idx.IdxError as error:
        raise unusable(path, f"is no idx file of its name ({error})") from error


def unusable(path: Path, problem: str) -> BuildError:
    """Return the error for a file of MNIST; `problem` follows its path."""
    return BuildError(f"{TITLE}: {path} {problem}. Take the four files of the owners' names again.")


def unpack_idx(path: Path, rows: npt.NDArray[np.int64]) -> Iterator[list[npt.NDArray[Any]]]:
    """Yield the pixels of some rows of a packed idx file; see `builders.sources.unpack`."""
    with opened(path) as file:
        images = idx.read_array(file, 3)
    yield from interleaved(images, rows, path)
