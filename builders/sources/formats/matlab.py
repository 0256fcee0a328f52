"""Reads MATLAB 5 files ("MAT-File Format", MathWorks, version 5): arrays of numbers, texts, cells and structures.

scipy's reader believes the lengths in a file: a damaged one makes it take gigabytes, or ends the process. Here nothing
is read beyond its element, nothing is allocated that the file does not fill, and values have a limit in depth and
number.

Tested by `tests/builders/sources/test_svhn.py`.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from typing import IO, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Value = npt.NDArray[Any] | str | list[Any] | None
"""An array, a text, a list of a cell array's values, a list of structures (as dictionaries), or None if empty."""

_HEAD = 128
_MATRIX, _COMPRESSED = 14, 15
_INT8, _INT32, _UINT32 = 1, 5, 6
_CELL, _STRUCT, _CHAR = 1, 2, 4
_COMPLEX = 0x08

# Kinds of arrays, and of numbers as they are stored: whole numbers may take less room than their array's kind.
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_TEXTS = {1: "latin-1", 2: "latin-1", 4: "utf-16-le", 16: "utf-8", 17: "utf-16-le", 18: "utf-32-le"}
_NAMES = {1: "cell", 2: "struct", 3: "object", 4: "char", 5: "sparse", 6: "double", 7: "single"}

_LARGEST = 1 << 28
"""Bytes of one array at most. SVHN's training images have 225,045,504."""

_LONGEST_NAME = 4096
_MOST_DIMENSIONS = 32  # of an array of numpy 1
_MOST_VALUES = 100_000
"""Values of all cells and structures together. ILSVRC2012's meta.mat has 1,860 structures of 8 values."""

_DEEPEST = 5  # levels of cells and structures (ours); meta.mat has two
_CHUNK = 1 << 16  # compressed bytes that are read at a time (ours)


class MatError(ValueError):
    """A damaged file; the message has no full stop."""


class Hdf5Error(MatError):
    """A file of MATLAB 7.3, which is HDF5."""


class Variable(NamedTuple):
    """A variable's name, kind as MATLAB names it, and dimensions."""

    name: str
    kind: str
    shape: tuple[int, ...]


class _Stream(Protocol):
    def read(self, size: int) -> bytes:
        """Read exactly `size` bytes."""


class _Plain:
    """The bytes of an element in the file."""

    def __init__(self, file: IO[bytes], remaining: int) -> None:
        self.file, self.remaining = file, remaining

    def read(self, size: int) -> bytes:
        data = self.file.read(size) if size <= min(self.remaining, _LARGEST) else b""
        self.remaining -= size
        if len(data) != size:
            raise MatError("it is cut short, or a length in it is wrong")
        return data


class _Inflated:
    """The bytes that a compressed element unpacks to."""

    def __init__(self, file: IO[bytes], remaining: int) -> None:
        self.file, self.remaining = file, remaining
        self.inflater = zlib.decompressobj()

    def read(self, size: int) -> bytes:
        if size > _LARGEST:
            raise MatError(f"it has an element of {size:,} bytes")
        data = bytearray()
        while len(data) < size:
            packed = self.inflater.unconsumed_tail
            if not packed:
                packed = self.file.read(min(_CHUNK, self.remaining))
                self.remaining -= len(packed)
                if not packed:
                    raise MatError("it is cut short")
            try:
                data += self.inflater.decompress(packed, size - len(data))
            except zlib.error as error:
                raise MatError(f"it does not unpack: {error}") from error
        return bytes(data)


def list_variables(file: IO[bytes]) -> list[Variable]:
    """List the variables of a file without reading their contents.

    Raises:
        MatError: the file is no MATLAB 5 file or damaged where the variables are listed.
    """
    return [variable for variable, _ in _matrices(file)]


def read_variable(file: IO[bytes], name: str) -> Value:
    """Read the first variable of a name; contents of those before it are skipped. None if there is none.

    Raises:
        MatError: as for `list_variables`, or the variable is damaged, too large, or of a kind that no source has.
    """
    for variable, parts in _matrices(file):
        if variable.name == name:
            return parts.contents(variable, 1)
    return None


def _matrices(file: IO[bytes]) -> Iterator[tuple[Variable, _Parts]]:
    file.seek(0)
    head = file.read(_HEAD)
    if head[124:128] == b"\x00\x02IM":
        raise Hdf5Error("it is a file of MATLAB 7.3, which is HDF5")
    if head[124:128] != b"\x00\x01IM":
        raise MatError("it does not begin as such a file of a little-endian machine")
    while tag := file.read(8):
        if len(tag) < 8:
            raise MatError("it is cut short")
        kind, size = struct.unpack("<II", tag)
        next_element = file.tell() + size
        if kind == _COMPRESSED:
            parts = _Parts(_Inflated(file, size))
            inner, inner_size = parts.tag()
            if inner != _MATRIX:
                raise MatError("a compressed element is no variable")
            parts.remaining = inner_size
        elif kind == _MATRIX:
            parts = _Parts(_Plain(file, size))
            parts.remaining = size
        else:
            raise MatError(f"it has an element of kind {kind} where a variable begins")
        yield parts.header(), parts
        file.seek(next_element)


class _Parts:
    """The parts of one variable, read in order. `remaining` counts the unread bytes of the current matrix."""

    def __init__(self, stream: _Stream) -> None:
        self.stream = stream
        self.remaining = 8
        self.values = 0
        self.kind = self.flags = 0

    def take(self, size: int) -> bytes:
        if size > self.remaining:
            raise MatError("an element is larger than what it is in")
        self.remaining -= size
        return self.stream.read(size)

    def tag(self) -> tuple[int, int]:
        kind, size = struct.unpack("<II", self.take(8))
        return kind, size

    def element(self, most: int) -> tuple[int, bytes]:
        """Read a part: its kind of numbers, and its bytes, at most so many."""
        tag = self.take(8)
        kind, size = struct.unpack("<II", tag)
        if kind >> 16:  # small: kind, size and up to four bytes in one
            kind, size = kind & 0xFFFF, kind >> 16
            if size > 4:
                raise MatError("a small element has more than four bytes")
            return kind, tag[4 : 4 + size]
        if size > most:
            raise MatError(f"it has an element of {size:,} bytes where {most:,} are the most")
        data = self.take(size)
        self.take(min(-size % 8, self.remaining))
        return kind, data

    def header(self) -> Variable:
        """Read a matrix's flags, dimensions and name."""
        kind, flags = self.element(8)
        if kind != _UINT32 or len(flags) != 8:
            raise MatError("a variable does not begin with its flags")
        self.kind, self.flags = flags[0], flags[1]
        kind, sizes = self.element(4 * _MOST_DIMENSIONS)
        if kind != _INT32 or len(sizes) % 4 or len(sizes) < 8:
            raise MatError("a variable has no dimensions")
        shape = struct.unpack(f"<{len(sizes) // 4}i", sizes)
        if min(shape) < 0:
            raise MatError("a variable has a dimension below zero")
        kind, name = self.element(_LONGEST_NAME)
        if kind != _INT8:
            raise MatError("a variable has no name")
        stored = _CLASSES.get(self.kind)
        named = _NAMES.get(self.kind) or (np.dtype(stored).name if stored else f"kind {self.kind}")
        return Variable(name.decode("latin-1"), named, shape)

    def contents(self, variable: Variable, depth: int) -> Value:
        """Read what comes after a matrix's header."""
        kind, count = self.kind, math.prod(variable.shape)
        if kind in _CLASSES and not self.flags & _COMPLEX:
            return self._numbers(_CLASSES[kind], count, variable.shape)
        if kind == _CHAR:
            stored, data = self.element(_LARGEST)
            if stored not in _TEXTS:
                raise MatError("a text is stored as no text")
            return data.decode(_TEXTS[stored], "replace")
        if kind == _CELL:
            return [self._inner(depth) for _ in range(self._counted(count))]
        if kind == _STRUCT:
            names = self._field_names()
            fields = range(self._counted(count, len(names)))
            return [{name: self._inner(depth) for name in names} for _ in fields]
        raise MatError(f"{variable.kind} is no kind of variable that a dataset has")

    def _numbers(self, dtype_name: str, count: int, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        stored, data = self.element(_LARGEST)
        dtype = np.dtype(_STORED.get(stored, "V1"))
        if dtype.kind == "V" or len(data) != count * dtype.itemsize:
            raise MatError(f"an array of {count:,} numbers has {len(data):,} bytes")
        array = np.frombuffer(data, dtype.newbyteorder("<")).reshape(shape, order="F")
        with np.errstate(invalid="ignore"):
            return array.astype(dtype_name, copy=False)

    def _field_names(self) -> list[str]:
        kind, lengths = self.element(4)
        length = struct.unpack("<i", lengths)[0] if kind == _INT32 and len(lengths) == 4 else 0
        _, names = self.element(_LARGEST)
        if not 0 < length <= _LONGEST_NAME or len(names) % length or len(names) // length > _LONGEST_NAME:
            raise MatError("a structure has no names")
        fields = (names[start : start + length] for start in range(0, len(names), length))
        return [field.partition(b"\0")[0].decode("latin-1") for field in fields]

    def _counted(self, count: int, values_each: int = 1) -> int:
        self.values += count * max(1, values_each)
        if self.values > _MOST_VALUES:
            raise MatError(f"it has more than {_MOST_VALUES:,} values")
        return count

    def _inner(self, depth: int) -> Value:
        """Read a matrix inside of another one."""
        if depth == _DEEPEST:
            raise MatError(f"it has values on more than {_DEEPEST} levels")
        kind, size = self.tag()
        if kind != _MATRIX or size > self.remaining:
            raise MatError("a value is no matrix, or larger than what it is in")
        if size == 0:
            return None
        remaining_outside, self.remaining = self.remaining - size, size
        value = self.contents(self.header(), depth + 1)
        self.take(self.remaining)
        self.remaining = remaining_outside
        return value
