"""Pickles as Python 2 and numpy 1 wrote them, which is how CIFAR-100 is distributed.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

import itertools
import struct

import numpy as np
import numpy.typing as npt


def python2_pickle(value: object) -> bytes:
    """Pickle as Python 2's cPickle and numpy 1 did with protocol 2, which no later Python or numpy does.

    Args:
        value: of dictionaries, lists, ASCII text (there a byte string), numbers from 0 to 65,535 and two-dimensional
            arrays of bytes.
    """
    memo = itertools.count(1)

    def put() -> bytes:
        """Return the instruction that gives the value before it the next memo number."""
        number = next(memo)
        return b"q" + struct.pack("<B", number) if number < 256 else b"r" + struct.pack("<I", number)

    def text(value: bytes) -> bytes:
        short = len(value) < 256
        head = b"U" + struct.pack("<B", len(value)) if short else b"T" + struct.pack("<I", len(value))
        return head + value + put()

    def name(module: str, name: str) -> bytes:
        return f"c{module}\n{name}\n".encode() + put()

    def array(value: npt.NDArray[np.uint8]) -> bytes:
        """`_reconstruct(ndarray, (0,), "b")`, filled with (version, shape, dtype, column order, bytes)."""
        content = name("numpy.core.multiarray", "_reconstruct") + name("numpy", "ndarray")
        content += b"K\x00\x85" + put() + text(b"b") + b"\x87" + put() + b"R" + put() + b"(K\x01"
        content += b"".join(b"M" + struct.pack("<H", size) for size in value.shape) + b"\x86" + put()
        # `dtype("u1", 0, 1)`, filled with (version, byte order, no subtype, names, fields, size, alignment, flags).
        content += name("numpy", "dtype") + text(b"u1") + b"K\x00K\x01\x87" + put() + b"R" + put() + b"(K\x03"
        content += text(b"|") + b"NNN" + b"J\xff\xff\xff\xff" * 2 + b"K\x00t" + put() + b"b"
        return content + b"\x89" + text(value.tobytes()) + b"t" + put() + b"b"

    def opcodes(value: object) -> bytes:
        match value:
            case dict():
                return b"}" + put() + b"(" + b"".join(opcodes(k) + opcodes(v) for k, v in value.items()) + b"u"
            case list():
                return b"]" + put() + b"(" + b"".join(map(opcodes, value)) + b"e"
            case str():
                return text(value.encode("ascii"))
            case int():
                return b"K" + struct.pack("<B", value) if value < 256 else b"M" + struct.pack("<H", value)
            case np.ndarray():
                return array(value)
        raise TypeError(f"no opcodes for {type(value).__name__}")

    return b"\x80\x02" + opcodes(value) + b"."
