"""Reads the MATLAB files of SVHN's cropped digits.

Tested by `tests/builders/sources/datasets/test_svhn.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

from builders.errors import BuildError
from builders.sources.formats import matlab
from builders.sources.readers.arrays import interleaved
from builders.sources.readers.folders import escape_name
from builders.storage.files import open_buffered
from unknown_detection.words import first_few

TITLE = "SVHN (cropped digits)"

_SHOWN = 40

T = TypeVar("T")


def image_count(path: Path) -> int:
    """Return the number of images in X without decompressing it."""
    variables = {variable.name: variable for variable in _reading(path, matlab.list_variables)}
    shape, kind = (variables["X"].shape, variables["X"].kind) if "X" in variables else ((), "")
    if "y" not in variables or len(shape) != 4 or shape[:3] != (32, 32, 3) or kind != "uint8":
        listed = [f"{escape_name(name[:_SHOWN])} ({kind} {sizes(shape)})" for name, kind, shape in variables.values()]
        contents = first_few(listed) or "none"
        raise unusable(
            path, f"lacks the variables X (uint8 32 x 32 x 3 x n) and y (found: {contents}), or is truncated"
        )
    return shape[3]


def read_variable(path: Path, name: str) -> npt.NDArray[Any]:
    """Read one variable; the contents of those before it are skipped."""
    value = _reading(path, lambda file: matlab.read_variable(file, name))
    if not isinstance(value, np.ndarray):
        raise unusable(path, f"has a variable {name} that is not an array of numbers")
    return value


def _reading(path: Path, read: Callable[[IO[bytes]], T]) -> T:
    """Open a file for one of the readers, and turn its errors into a `BuildError`."""
    try:
        with open_buffered(path) as file:
            return read(file)
    except matlab.Hdf5Error as error:
        raise unusable(
            path, "is a MATLAB 7.3 file (HDF5), as the full numbers of format 1 have, not MATLAB 5"
        ) from error
    except matlab.MatError as error:
        raise unusable(path, f"cannot be read as a MATLAB 5 file ({error})") from error


def unusable(path: Path, problem: str) -> BuildError:
    """Return the error for a file of SVHN; `problem` follows its path."""
    return BuildError(f"{TITLE}: {path} {problem}. Take {path.name} of the owner's format 2 (cropped digits).")


def sizes(shape: tuple[int, ...]) -> str:
    """Return the sizes of an array, joined by x."""
    return " x ".join(f"{size:,}" for size in shape)


def unpack_mat(path: Path, rows: npt.NDArray[np.int64]) -> Iterator[list[npt.NDArray[Any]]]:
    """Yield the pixels of some rows of a MATLAB file; see `builders.sources.unpack`."""
    image_count(path)
    yield from interleaved(np.moveaxis(read_variable(path, "X"), 3, 0), rows, path)
