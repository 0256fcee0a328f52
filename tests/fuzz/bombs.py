"""Streams of zlib and gzip that end in many zeros, joined from one compressed block: packing them all takes seconds.

`tests/fuzz/test_harness.py` compares them with what Python's own modules read.
"""

import functools
import struct
import zlib

_BLOCK = 1 << 20


@functools.cache
def _parts(level: int) -> tuple[bytes, bytes]:
    """A block of zeros as raw deflate, which stands behind any other, and the end of a stream (RFC 1951, 3.2)."""
    packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    zeros = packer.compress(bytes(_BLOCK)) + packer.flush(zlib.Z_FULL_FLUSH)
    return zeros, packer.flush()


def _deflated(head: bytes, blocks: int, level: int) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    zeros, end = _parts(level)
    return packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH) + zeros * blocks + end


def zlib_bomb(head: bytes, megabytes: int, level: int = 9) -> bytes:
    """Compress `head` and then so many times 2**20 zeros as zlib does (RFC 1950)."""
    check = zlib.adler32(head)
    low, high = check & 0xFFFF, check >> 16
    high = (high + megabytes * _BLOCK * low) % 65521  # Adler-32 of a zero adds its lower half to its upper one
    return b"\x78\xda" + _deflated(head, megabytes, level) + struct.pack(">HH", high, low)


def gzip_bomb(head: bytes, megabytes: int, tail: bytes = b"") -> bytes:
    """Compress `head`, then so many times 2**20 zeros and then `tail` as one member of gzip (RFC 1952)."""
    check, zeros = zlib.crc32(head), bytes(_BLOCK)
    for _ in range(megabytes):
        check = zlib.crc32(zeros, check)
    check = zlib.crc32(tail, check)
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    behind = packer.compress(tail) + packer.flush()
    body = _deflated(head, megabytes, 9)[: -len(_parts(9)[1])] + behind
    size = (len(head) + megabytes * _BLOCK + len(tail)) % 2**32
    return b"\x1f\x8b\x08" + bytes(5) + b"\x02\xff" + body + struct.pack("<II", check, size)
