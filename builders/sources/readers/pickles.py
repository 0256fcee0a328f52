"""Reads pickles of plain values and numpy arrays without running any code that a pickle names.

A pickle is a program: loading it calls the functions that it names. This reader replaces the names that numpy arrays
need by inert values that only record how they were called, refuses every other name, and builds arrays from the
records afterwards.

A program can also be made to fill memory or time. So before it is run its instructions are listed, and refused where
they build more than the plain tree of values that a dataset's pickle is.
"""

from __future__ import annotations

import copyreg
import os
import pickle
import pickletools
from collections.abc import Callable
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt

from builders.errors import BuildError

# The names that Python 2's numpy (1.x) wrote, and numpy 2's name for the first of them.
_ARRAY_NAMES = frozenset(
    {
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
    }
)

# The errors of the standard unpickler on bytes that are not a pickle, on a truncated pickle, and on one that uses an
# inert value as something else.
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

_SHOWN = 80  # characters of a value in a message (ours)

_LARGEST = 1 << 28
"""Bytes of a pickle at most. CIFAR-100's training images have 155,249,918."""

_MOST_CONTAINERS = 100
"""Lists, tuples and dictionaries of a pickle, so that none is deep. CIFAR-100's have a dozen."""

_KINDS = (pickletools.pylist, pickletools.pytuple, pickletools.pydict, pickletools.pyset, pickletools.pyfrozenset)
_CONTAINERS = frozenset(
    opcode.name
    for opcode in pickletools.opcodes
    if set(_KINDS) & set(opcode.stack_after) and not set(_KINDS) & set(opcode.stack_before)
)
_BYTES_OF_PYTHON_3 = "_codecs encode"
"""The call by which Python 3 writes bytes into pickles of protocols 0 to 2, with a tuple for each."""

_BITS = 64  # of an integer: labels and sizes are far smaller
_PUTS = frozenset(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"))
_GETS = frozenset(("GET", "BINGET", "LONG_BINGET"))

# What leaves a value on the stack that holds no other one. Only such values may be used twice: with lists of lists of
# lists, each used twice, a hundred bytes make a value that takes years to print or to compare.
_PLAIN = {"STACK_GLOBAL"} | {
    opcode.name for opcode in pickletools.opcodes if not opcode.stack_before and opcode.stack_after
} - {"MARK", *_CONTAINERS, *_GETS}


class Inert:
    """A placeholder for a name or call in a pickle; nothing runs.

    `name` is the name, `args` are the arguments of the call (None if it was only named), and `state` is the state
    that the pickle sets on the result.
    """

    __slots__ = ("args", "name", "state")

    def __init__(self, name: str, args: tuple[object, ...] | None = None) -> None:
        self.name = name
        self.args = args
        self.state: object = None

    def __call__(self, *args: object) -> Inert:
        """Record a call."""
        return Inert(self.name, args)

    def __setstate__(self, state: object) -> None:
        """Record a state."""
        self.state = state


class _ArrayUnpickler(pickle.Unpickler):
    def __init__(self, file: IO[bytes], refuse: Callable[[str], BuildError]) -> None:
        # Python 2's strings have no encoding, and the pixels are one of them.
        super().__init__(file, encoding="bytes")
        self._refuse = refuse

    def find_class(self, module: str, name: str) -> Inert:
        if (module, name) in _ARRAY_NAMES:
            return Inert(name)
        raise self._refuse(f"a call for {_printable(f'{module}.{name}')}")

    def persistent_load(self, pid: object) -> object:
        raise self._refuse("a reference to an object outside the file")


def load_pickle(title: str, file: IO[bytes], place: object) -> dict[str, object]:
    """Load a pickled dictionary.

    Args:
        title: the source's title.
        file: the pickle; it is read from its start, twice.
        place: its path, for messages.

    Returns:
        The values by key. Python 2's strings are bytes in the values and text in the keys; values that are not plain
        are `Inert`.

    Raises:
        BuildError: the file is truncated or not a pickle, names anything but numpy's arrays, or holds no dictionary.
    """

    def refuse(part: str) -> BuildError:
        return BuildError(
            f"{title}: {place} is not a pickle of plain values and numpy arrays: it has {part}, which was not "
            "followed. Download the archive again from the owner's page."
        )

    # The standard unpickler resolves extension codes from this cache without calling `find_class`. It is cleared again
    # afterwards so that no inert value remains in it.
    copyreg.clear_extension_cache()
    try:
        _check_instructions(_Bounded(file))
        file.seek(0)
        value = _ArrayUnpickler(file, refuse).load()
    except _UNSOUND as error:
        raise BuildError(
            f"{title}: {place} cannot be read as a pickle "
            f"({_printable(str(error)) if str(error) else type(error).__name__}). Download the archive again."
        ) from error
    finally:
        copyreg.clear_extension_cache()
    if not isinstance(value, dict) or not all(isinstance(key, bytes | str) for key in value):
        raise refuse("something other than a dictionary with names as keys")
    return {key.decode("ascii", "replace") if isinstance(key, bytes) else key: value[key] for key in value}


class _Bounded:
    """A file, read from its start, that refuses to read more bytes than it has."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.size = file.seek(0, os.SEEK_END)
        if self.size > _LARGEST:
            raise ValueError(f"{self.size:,} bytes, more than any dataset's pickle has")
        file.seek(0)
        self.tell = file.tell
        self.readline = file.readline

    def read(self, size: int) -> bytes:
        if size > self.size:
            raise EOFError(f"a value of {size:,} bytes in {self.size:,}")
        return self._file.read(size)


def _check_instructions(file: _Bounded) -> None:
    """List a pickle's instructions, and refuse those that take more memory or time than its own bytes do.

    Raises:
        ValueError: as said, or the bytes are not instructions.
        EOFError: the pickle is cut short.
    """
    containers = 0
    plain: dict[int, bool] = {}  # by number in the table of values that are used again
    last = ""
    argument: Any
    for opcode, argument, _ in pickletools.genops(cast(IO[bytes], file)):
        name = opcode.name
        if argument == _BYTES_OF_PYTHON_3:
            raise ValueError("Python 3 has written it again, with a call for each text; the owner's file has none")
        if name in _CONTAINERS:
            containers += 1
            if containers > _MOST_CONTAINERS:
                raise ValueError(f"more than {_MOST_CONTAINERS} lists, tuples and dictionaries")
        elif name in _PUTS:
            number = len(plain) if name == "MEMOIZE" else argument
            # Python 2 counts from 1. A far higher number would only make the table large.
            if not 0 <= number <= len(plain) + 1:
                raise ValueError(f"value number {number} after {len(plain)} values")
            plain[number] = last in _PLAIN
            continue
        elif name in _GETS:
            if not plain.get(argument, True):
                raise ValueError("a list, tuple or dictionary that is used twice")
            name = "NONE"
        elif name == "DUP" or (name == "FRAME" and argument > file.size):
            raise ValueError(f"the instruction {name}, which no dataset's pickle needs")
        elif name in ("FRAME", "PROTO"):
            continue
        elif isinstance(argument, int) and argument.bit_length() > _BITS:
            raise ValueError(f"a number of {argument.bit_length():,} bits")
        last = name


def short_repr(value: object) -> str:
    """Return a short printable description of a value from a file, however large it is."""
    match value:
        case bool() | int() | float() | None:
            return str(value)[:_SHOWN]
        case bytes():
            return repr(value[:_SHOWN])[:_SHOWN]
        case str():
            return _printable(value[:_SHOWN])
        case tuple() if len(value) < _SHOWN and all(type(item) is int for item in value):
            return str(value)[:_SHOWN]
    return f"a value of type {type(value).__name__}"


def byte_matrix(value: object) -> npt.NDArray[np.uint8]:
    """Return the two-dimensional array of bytes that a loaded value describes, as a view of the loaded bytes.

    Raises:
        ValueError: the value describes something else; the message names it in a few words.
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
        raise ValueError(f"an array of {short_repr(code)}")
    if fortran is not False:
        raise ValueError("an array in column order")
    match shape:
        case (int() as rows, int() as columns) if rows >= 0 and columns >= 0 and rows * columns == len(content):
            return np.frombuffer(content, np.uint8).reshape(rows, columns)
    raise ValueError(f"an array of shape {short_repr(shape)} in {len(content):,} bytes")


def _printable(text: str) -> str:
    """Return text from a file as one printable line of bounded length."""
    return ascii(text)[1:-1][:_SHOWN]
