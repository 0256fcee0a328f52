"""Reads arrays of numbers from MATLAB 5 files ("MAT-File Format", MathWorks, version 5).

scipy's reader believes the lengths in a file: a damaged one makes it take gigabytes, or ends the process. Here nothing
is read beyond its element, and nothing is allocated that the file does not fill.

Tested by `tests/builders/sources/datasets/test_svhn.py`.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

_HEAD = 128
_MATRIX, _COMPRESSED = 14, 15
_INT8, _INT32, _UINT32 = 1, 5, 6
_COMPLEX = 0x08

# Kinds of arrays, and of numbers as they are stored: whole numbers may take less room than their array's kind.
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_NAMES = {1: "cell", 2: "struct", 3: "object", 4: "char", 5: "sparse", 6: "double", 7: "single"}

_LARGEST = 1 << 28
"""Bytes of one variable at most. SVHN's training images have 225,045,504."""

_HEADER = 1 << 13  # bytes in which flags, dimensions and name lie (ours)
_CHUNK = 1 << 16  # compressed bytes that are read at a time (ours)


class MatError(ValueError):
    """A damaged MATLAB file; the message has no full stop."""


class Hdf5Error(MatError):
    """A file of MATLAB 7.3, which is HDF5."""


class Variable(NamedTuple):
    """A variable of a file: its name, its kind as MATLAB names it, and its dimensions."""

    name: str
    kind: str
    shape: tuple[int, ...]


def list_variables(file: IO[bytes]) -> list[Variable]:
    """List the variables of a file without reading their contents.

    Raises:
        MatError: the file is no MATLAB 5 file or damaged where the variables are listed.
    """
    return [_Matrix(_content(file, place, _HEADER)).variable for place in _places(file)]


def read_variable(file: IO[bytes], name: str) -> npt.NDArray[Any] | None:
    """Read the first variable of a name; None if there is none, or if it is no array of real numbers.

    Contents of the variables before it are skipped.

    Raises:
        MatError: as for `list_variables`, or the variable is damaged or too large.
    """
    for place in _places(file):
        if _Matrix(_content(file, place, _HEADER)).variable.name == name:
            return _Matrix(_content(file, place, _LARGEST)).numbers()
    return None


_Place = tuple[int, int, int]  # an element's kind, offset and size


def _places(file: IO[bytes]) -> Iterator[_Place]:
    file.seek(0)
    version = file.read(_HEAD)[124:]
    if version == b"\x00\x02IM":
        raise Hdf5Error("it is a file of MATLAB 7.3, which is HDF5")
    if version != b"\x00\x01IM":
        raise MatError("it does not begin as such a file of a little-endian machine")
    start = _HEAD
    while tag := file.read(8):
        if len(tag) < 8:
            raise MatError("it is cut short")
        kind, size = struct.unpack("<II", tag)
        if kind not in (_COMPRESSED, _MATRIX):
            raise MatError(f"it has an element of kind {kind} where a variable begins")
        yield kind, start + 8, size
        start += 8 + size
        file.seek(start)


def _content(file: IO[bytes], place: _Place, most: int) -> memoryview:
    """Return the bytes of a variable, unpacked: at most so many for its header, all of them for `_LARGEST`."""
    kind, start, size = place
    file.seek(start)
    if kind == _MATRIX:
        return memoryview(file.read(_checked(size, most)))
    inflater = zlib.decompressobj()

    def unpacked(wanted: int) -> bytearray:
        data = bytearray()
        while len(data) < wanted and (
            packed := inflater.unconsumed_tail or file.read(min(_CHUNK, start + size - file.tell()))
        ):
            data += inflater.decompress(packed, wanted - len(data))
        return data

    try:
        tag = unpacked(8)
        inner, inner_size = struct.unpack("<II", tag) if len(tag) == 8 else (0, 0)
        if inner != _MATRIX:
            raise MatError("a compressed element is no variable")
        return memoryview(unpacked(_checked(inner_size, most)))
    except zlib.error as error:
        raise MatError(f"it does not unpack: {error}") from error


def _checked(size: int, most: int) -> int:
    if most == _LARGEST < size:
        raise MatError(f"it has an element of {size:,} bytes where {most:,} are the most")
    return min(size, most)


class _Matrix:
    """A matrix, read from its bytes in order: flags, dimensions, name, and its numbers."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        kind, flags = self._element()
        if kind != _UINT32 or len(flags) != 8:
            raise MatError("a variable does not begin with its flags")
        self.kind, self.complex = flags[0], bool(flags[1] & _COMPLEX)
        kind, sizes = self._element()
        if kind != _INT32 or len(sizes) % 4 or not 8 <= len(sizes) <= 4 * 32:  # numpy 1 has 32 dimensions at most
            raise MatError("a variable has no dimensions")
        shape = struct.unpack(f"<{len(sizes) // 4}i", sizes)
        if min(shape) < 0:
            raise MatError("a variable has a dimension below zero")
        kind, name = self._element()
        if kind != _INT8:
            raise MatError("a variable has no name")
        stored = _CLASSES.get(self.kind)
        named = _NAMES.get(self.kind) or (np.dtype(stored).name if stored else f"kind {self.kind}")
        self.variable = Variable(str(name, "latin-1"), named, shape)

    def numbers(self) -> npt.NDArray[Any] | None:
        """Read the numbers of a matrix; None if they are not real numbers."""
        if self.kind not in _CLASSES or self.complex:
            return None
        stored, data = self._element()
        dtype, count = np.dtype(_STORED.get(stored, "V1")), math.prod(self.variable.shape)
        if dtype.kind == "V" or len(data) != count * dtype.itemsize:
            raise MatError(f"an array of {count:,} numbers has {len(data):,} bytes")
        array = np.frombuffer(data, dtype.newbyteorder("<")).reshape(self.variable.shape, order="F")
        with np.errstate(invalid="ignore"):
            return array.astype(_CLASSES[self.kind], copy=False)

    def _take(self, size: int) -> memoryview:
        if size > len(self.data):
            raise MatError("it is cut short, or a length in it is wrong")
        taken, self.data = self.data[:size], self.data[size:]
        return taken

    def _element(self) -> tuple[int, memoryview]:
        """Read a part: its kind of numbers, and its bytes."""
        tag = self._take(8)
        kind, size = struct.unpack("<II", tag)
        if kind >> 16:  # small: kind, size and up to four bytes in one
            if kind >> 16 > 4:
                raise MatError("a small element has more than four bytes")
            return kind & 0xFFFF, tag[4 : 4 + (kind >> 16)]
        data = self._take(size)
        self._take(min(-size % 8, len(self.data)))
        return kind, data
