"""Reads pickles of plain values and NumPy arrays without running any code that they name.

A pickle is a program: loading it calls the functions that it names. Here the standard library only lists its
instructions; those that make plain values are followed, the calls that make numpy arrays are recorded, bytes that
Python 3 wrote as text become bytes again, and every other name or instruction is refused. A limit on their number
bounds memory and time.
"""

from __future__ import annotations

import os
import pickletools
from collections.abc import Callable, Mapping
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt

from builders.errors import BuildError, first_line, one_line

# The names that Python 2's numpy (1.x) wrote; those of arrays in protocol 5; and numpy 2's names for both.
_ARRAY_NAMES = (
    "numpy.core.multiarray _reconstruct",
    "numpy._core.multiarray _reconstruct",
    "numpy.core.numeric _frombuffer",
    "numpy._core.numeric _frombuffer",
    "numpy ndarray",
    "numpy dtype",
)

_ENCODE = "_codecs encode"
"""The function by which Python 3 writes bytes as text of Latin-1 in protocols 0 to 2, which have no bytes."""

# The errors of bytes that are not a pickle, of a truncated pickle, and of instructions that do not fit together.
_UNSOUND = (EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, MemoryError)

_LARGEST = 1 << 28
"""Bytes of a pickle at most. CIFAR-100's training images have 155,249,918."""

_MOST_INSTRUCTIONS = 700_000
"""Instructions of a pickle at most (ours). CIFAR-100's training images have 200,000 as the owner wrote them, and
500,000 as Python 3 writes them in protocol 2 with names as bytes."""

_MANY_BYTES = 1 << 10
"""Bytes of an array's content at least (ours); a name or a label has fewer."""

_BITS = 64  # of an integer: labels and sizes are far smaller
_SHOWN = 80  # characters of a value in a message (ours)

_MADE: Mapping[str, Callable[[], object]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": dict,
}
_PUTS = ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE")
_TEXTS_OF_PYTHON_2 = ("STRING", "BINSTRING", "SHORT_BINSTRING")
_VALUES = frozenset(
    opcode.name
    for opcode in pickletools.opcodes
    if opcode.arg and not opcode.stack_before and opcode.stack_after not in ([], [pickletools.anyobject])
)


class Inert:
    """A placeholder for something that a pickle names or calls, which never runs.

    `name` is the name, `args` are the arguments of the call (None if it was only named), and `state` is the state
    that the pickle sets on the result. `offset` is where the bytes that end the state stand in the file, None if they
    do not stand there as they are or are not the last that were read.
    """

    __slots__ = ("args", "name", "offset", "state")

    def __init__(self, name: str, args: tuple[object, ...] | None = None) -> None:
        self.name = name
        self.args = args
        self.state: object = None
        self.offset: int | None = None


def load_pickle(title: str, file: IO[bytes], place: object) -> dict[str, object]:
    """Load a pickled dictionary from a file; `place` is its path for messages.

    Python 2's strings are bytes in the values and text in the keys; values that are not plain are `Inert`.

    Raises:
        BuildError: the file is truncated or not a pickle, names anything but numpy's arrays, or holds no dictionary.
    """

    def refuse(part: str) -> BuildError:
        return BuildError(
            f"{title}: {place} is not a pickle of plain values and numpy arrays: it has {part}, which was not "
            "followed. Download the archive again from the owner's page."
        )

    try:
        value = _follow(_Bounded(file), refuse)
    except _UNSOUND as error:
        raise BuildError(
            f"{title}: {place} cannot be read as a pickle ({first_line(error)}). Download the archive again."
        ) from error
    if not isinstance(value, dict):
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
        self.readline = file.readline
        self.position = file.tell

    def read(self, size: int) -> bytes:
        if size > self.size:
            raise EOFError(f"a value of {size:,} bytes in {self.size:,}")
        return self._file.read(size)


def _follow(file: _Bounded, refuse: Callable[[str], BuildError]) -> object:
    """Return the value that a pickle's instructions make; raises one of `_UNSOUND` if they make none.

    Of a dictionary only names are keys, since tuples of tuples may take years to hash, and only values that hold no
    others are used twice: a hundred bytes can double a list a hundred times.
    """
    stack: list[Any] = []
    marks: list[int] = []
    kept: dict[int, object] = {}
    content: object = None  # the last value of many bytes, and where it stands in the file
    offset = encoded = 0

    def taken(start: int) -> list[Any]:
        values = stack[start:]
        del stack[start:]
        return values

    argument: Any
    for number, (opcode, argument, _) in enumerate(pickletools.genops(cast(IO[bytes], file))):
        name = opcode.name
        if number == _MOST_INSTRUCTIONS:
            raise ValueError(f"more than {_MOST_INSTRUCTIONS:,} instructions")
        if isinstance(argument, int) and argument.bit_length() > _BITS:
            raise ValueError(f"a number of {argument.bit_length():,} bits")
        if name in _VALUES:
            stack.append(argument.encode("latin-1") if name in _TEXTS_OF_PYTHON_2 else argument)
            if name != "STRING" and isinstance(stack[-1], bytes) and len(stack[-1]) >= _MANY_BYTES:
                content, offset = stack[-1], file.position() - len(stack[-1])
            continue
        if name in _PUTS:
            kept[len(kept) if name == "MEMOIZE" else argument] = stack[-1]
            continue
        match name:
            case "PROTO" | "FRAME":
                pass
            case _ if name in _MADE:
                stack.append(_MADE[name]())
            case "MARK":
                marks.append(len(stack))
            case "TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3":
                stack.append(tuple(taken(marks.pop() if name == "TUPLE" else -int(name[-1]))))
            case "APPEND" | "APPENDS":
                items = taken(marks.pop() if name == "APPENDS" else -1)
                stack[-1].extend(items)
            case "SETITEM" | "SETITEMS":
                items = taken(marks.pop() if name == "SETITEMS" else -2)
                if not all(isinstance(key, bytes | str) for key in items[::2]):
                    raise refuse("something other than a dictionary with names as keys")
                stack[-1].update(zip(items[::2], items[1::2], strict=True))
            case "GET" | "BINGET" | "LONG_BINGET":
                if isinstance(kept[argument], list | tuple | dict):
                    raise ValueError("a list, tuple or dictionary that is used twice")
                stack.append(kept[argument])
            case "GLOBAL" | "INST" | "STACK_GLOBAL":
                named = " ".join(taken(-2)) if name == "STACK_GLOBAL" else argument
                if named not in (*_ARRAY_NAMES, _ENCODE) or name == "INST":
                    raise refuse(f"a call for {one_line(named.replace(' ', '.', 1), _SHOWN)}")
                stack.append(Inert(named.partition(" ")[2]))
            case "REDUCE":
                call, args = taken(-2)
                stack.append(Inert(call.name, args) if call.name != "encode" else _encode(*args))
                # One text may be encoded many times.
                encoded += len(stack[-1]) if call.name == "encode" else 0
                if encoded > file.size:
                    raise ValueError(f"bytes in text of {encoded:,}, more than the pickle has")
            case "BUILD":
                (state,) = taken(-1)
                stack[-1].state = state
                ends = content is not None and isinstance(state, tuple) and state and state[-1] is content
                stack[-1].offset = offset if ends else None
            case "STOP":
                return stack[-1]
            case _:
                raise ValueError(f"the instruction {name}, which no dataset's pickle needs")
    raise EOFError("it has no end")


def _encode(text: str, encoding: str) -> bytes:
    """Return the bytes that Python 3 wrote as text."""
    if type(text) is not str or encoding != "latin1":
        raise ValueError("a text that is encoded in another way than bytes are")
    return text.encode("latin-1")


def short_repr(value: object) -> str:
    """Return a short printable description of a value from a file, however large it is."""
    match value:
        case bool() | int() | float() | None:
            return str(value)[:_SHOWN]
        case bytes():
            return repr(value[:_SHOWN])[:_SHOWN]
        case str():
            return one_line(value, _SHOWN)[: 2 * _SHOWN]
        case tuple() if len(value) < _SHOWN and all(type(item) is int for item in value):
            return str(value)[:_SHOWN]
    return f"a value of type {type(value).__name__}"


def byte_matrix(value: object) -> npt.NDArray[np.uint8]:
    """Return the two-dimensional array of bytes that a loaded value describes, without copying the bytes.

    Raises:
        ValueError: the value describes something else; the message names it in a few words.
    """
    match value:
        case Inert(
            name="_reconstruct",
            args=(Inert(name="ndarray", args=None), *_),
            state=(1, tuple() as shape, Inert(name="dtype", args=(code, *_)), fortran, bytes() as content),
        ):
            by_columns = fortran is not False
        case Inert(
            name="_frombuffer",
            args=(bytes() | bytearray() as content, Inert(name="dtype", args=(code, *_)), tuple() as shape, order),
        ):
            by_columns = order != "C"
        case _:
            raise ValueError("no array")
    if code not in (b"u1", "u1"):
        raise ValueError(f"an array of {short_repr(code)}")
    if by_columns:
        raise ValueError("an array in column order")
    match shape:
        case (int() as rows, int() as columns) if rows >= 0 and columns >= 0 and rows * columns == len(content):
            return np.frombuffer(content, np.uint8).reshape(rows, columns)
    raise ValueError(f"an array of shape {short_repr(shape)} in {len(content):,} bytes")
