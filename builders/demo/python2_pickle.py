"""Pickles as Python 2 and numpy 1 wrote them, which is how CIFAR-100 is distributed.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt


def python2_pickle(value: object) -> bytes:
    """Pickle as Python 2's cPickle and numpy 1 did with protocol 2, which no later Python or numpy does.

    Args:
        value: of dictionaries, lists, ASCII text (there a byte string), numbers from 0 to 65,535 and two-dimensional
            arrays of bytes.
    """
    return b"\x80\x02" + b"".join(_Python2Pickler().opcodes(value)) + b"."


class _Python2Pickler:
    """Opcodes of values; every container and string gets the next memo number, from 1 on."""

    def __init__(self) -> None:
        self._memo = 0

    def opcodes(self, value: object) -> Iterator[bytes]:
        match value:
            case dict():
                yield b"}" + self._put() + b"("
                for key, inner in value.items():
                    yield from self.opcodes(key)
                    yield from self.opcodes(inner)
                yield b"u"
            case list():
                yield b"]" + self._put() + b"("
                for inner in value:
                    yield from self.opcodes(inner)
                yield b"e"
            case str():
                yield self._string(value.encode("ascii"))
            case int():
                yield b"K" + struct.pack("<B", value) if value < 256 else b"M" + struct.pack("<H", value)
            case np.ndarray():
                yield from self._array(value)
            case _:
                raise TypeError(f"no opcodes for {type(value).__name__}")

    def _put(self) -> bytes:
        self._memo += 1
        return b"q" + struct.pack("<B", self._memo) if self._memo < 256 else b"r" + struct.pack("<I", self._memo)

    def _string(self, value: bytes) -> bytes:
        short = len(value) < 256
        head = b"U" + struct.pack("<B", len(value)) if short else b"T" + struct.pack("<I", len(value))
        return head + value + self._put()

    def _name(self, module: str, name: str) -> bytes:
        return f"c{module}\n{name}\n".encode() + self._put()

    def _array(self, array: npt.NDArray[np.uint8]) -> Iterator[bytes]:
        """`_reconstruct(ndarray, (0,), "b")`, filled with (version, shape, dtype, column order, bytes)."""
        yield self._name("numpy.core.multiarray", "_reconstruct")
        yield self._name("numpy", "ndarray")
        yield b"K\x00\x85" + self._put() + self._string(b"b")
        yield b"\x87" + self._put() + b"R" + self._put() + b"(K\x01"
        yield b"".join(b"M" + struct.pack("<H", size) for size in array.shape) + b"\x86" + self._put()
        # `dtype("u1", 0, 1)`, filled with (version, byte order, no subtype, names, fields, size, alignment, flags).
        yield self._name("numpy", "dtype") + self._string(b"u1") + b"K\x00K\x01\x87" + self._put()
        yield b"R" + self._put() + b"(K\x03" + self._string(b"|")
        yield b"NNN" + b"J\xff\xff\xff\xff" * 2 + b"K\x00t" + self._put() + b"b"
        yield b"\x89" + self._string(array.tobytes()) + b"t" + self._put() + b"b"
