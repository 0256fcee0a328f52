"""Read pickles of plain values and numpy arrays without running what a pickle can ask for.

A pickle is a program: loading one calls whatever functions it names. Here the names that numpy's arrays need become
inert values that only remember how they were called, every other name is refused, and an array is made afterwards from
what was remembered.
"""

from __future__ import annotations

import copyreg
import pickle
from collections.abc import Callable
from typing import IO

import numpy as np
import numpy.typing as npt

from builders.errors import BuildError

# What Python 2's numpy (1.x) wrote, and the name that numpy 2 gave the first of them.
_ARRAY_NAMES = frozenset(
    {
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
    }
)

# What the standard unpickler raises on bytes that are no pickle, a part of one, or one that treats an inert value as
# something else.
_UNSOUND = (
    pickle.UnpicklingError,
    EOFError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    MemoryError,
)

_SHOWN = 80


class Inert:
    """Stands for something that a pickle names or calls; nothing runs.

    `name` is what was named, `args` what it was called with (None: it was only named) and `state` what the result was
    to be filled with.
    """

    __slots__ = ("args", "name", "state")

    def __init__(self, name: str, args: tuple[object, ...] | None = None) -> None:
        self.name = name
        self.args = args
        self.state: object = None

    def __call__(self, *args: object) -> Inert:
        """Remember a call."""
        return Inert(self.name, args)

    def __setstate__(self, state: object) -> None:
        """Remember a state."""
        self.state = state


class _Reader(pickle.Unpickler):
    def __init__(self, file: IO[bytes], refuse: Callable[[str], BuildError]) -> None:
        # Python 2's strings have no encoding, and the pixels are one of them.
        super().__init__(file, encoding="bytes")
        self._refuse = refuse

    def find_class(self, module: str, name: str) -> Inert:
        if (module, name) in _ARRAY_NAMES:
            return Inert(name)
        raise self._refuse(f"a call for {_shown(f'{module}.{name}')}")

    def persistent_load(self, pid: object) -> object:
        raise self._refuse("a reference to an object outside the file")


def load(title: str, file: IO[bytes], place: object) -> dict[str, object]:
    """Load a pickled dictionary.

    Args:
        title: the source's title.
        file: the pickle, from where it is read.
        place: where it came from, for people.

    Returns:
        The values by key; Python 2's strings are bytes in the values and text in the keys. Whatever was no plain value
        is an `Inert`.

    Raises:
        BuildError: it is cut short or no pickle, asks for anything but numpy's arrays, or holds no dictionary.
    """

    def refuse(found: str) -> BuildError:
        return BuildError(
            f"{title}: expected a pickle of plain values and numpy arrays, found {found} in {place}, which was not "
            "followed; download the archive again from the owner's page."
        )

    # The standard unpickler takes what an extension code stands for from this cache without asking `find_class`. It
    # is emptied again so that no inert value stays behind in it.
    copyreg.clear_extension_cache()
    try:
        value = _Reader(file, refuse).load()
    except _UNSOUND as error:
        raise BuildError(
            f"{title}: expected a whole pickle, found one that cannot be read "
            f"({_shown(str(error)) if str(error) else type(error).__name__}) at {place}; download the archive again."
        ) from error
    finally:
        copyreg.clear_extension_cache()
    if not isinstance(value, dict) or not all(isinstance(key, bytes | str) for key in value):
        raise refuse("something other than a dictionary with names as keys")
    return {key.decode("ascii", "replace") if isinstance(key, bytes) else key: value[key] for key in value}


def byte_matrix(value: object) -> npt.NDArray[np.uint8]:
    """Make the two-dimensional array of bytes that a loaded value describes; it shares the loaded bytes.

    Raises:
        ValueError: the value describes anything else; the message is a few words on what.
    """
    match value:
        case Inert(
            name="_reconstruct",
            args=(Inert(name="ndarray", args=None), *_),
            state=(1, tuple() as shape, Inert(name="dtype", args=(code, *_)), fortran, bytes() as content),
        ):
            pass
        case _:
            raise ValueError("no array")
    if code not in (b"u1", "u1"):
        raise ValueError(f"an array of {_shown(str(code))}")
    if fortran is not False:
        raise ValueError("an array in column order")
    match shape:
        case (int() as rows, int() as columns) if rows >= 0 and columns >= 0 and rows * columns == len(content):
            return np.frombuffer(content, np.uint8).reshape(rows, columns)
    raise ValueError(f"an array of shape {_shown(str(shape))} in {len(content):,} bytes")


def _shown(text: str) -> str:
    """Text from a file as one line of bounded length."""
    return ascii(text)[1:-1][:_SHOWN]
