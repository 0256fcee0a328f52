"""Damages good inputs: a damaged input follows from the target's name and a number alone.

A generator with a seed and not hypothesis: a child that was killed is followed by another one, which goes on with the
next number. Hypothesis keeps in its own process what comes next, so it would have to follow every call from there, and
it takes a child's death for a reason to repeat that call many times to shrink it, two seconds each.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import numpy as np

_HEAD = 1024
"""Half of all changes are in so many first bytes: most formats have their fields there."""

_DIGITS = re.compile(rb"[-+]?[0-9]{2,20}")


def damaged(name: str, number: int, good: Sequence[bytes]) -> tuple[bytes, bool]:
    """Damage one of the good inputs in one to four ways.

    Returns:
        The input, and whether check sums should be made right again.
    """
    random = np.random.default_rng([zlib.crc32(name.encode()), number])
    data = bytearray(good[random.integers(len(good))])
    other = good[random.integers(len(good))]
    for _ in range(random.integers(1, 5)):
        if not data:
            break
        change = _CHANGES[random.integers(len(_CHANGES))]
        change(data, random, other)
    return bytes(data), bool(random.integers(2))


def _place(data: Sequence[int], random: np.random.Generator) -> int:
    head = random.integers(2) and len(data) > _HEAD
    return int(random.integers(_HEAD if head else max(1, len(data))))


def _size(data: Sequence[int], random: np.random.Generator) -> int:
    """A length, short ones as often as long ones."""
    return int(2 ** random.uniform(0, np.log2(max(2, len(data)))))


def _flip(data: bytearray, random: np.random.Generator, other: bytes) -> None:
    for _ in range(random.integers(1, 9)):
        data[_place(data, random)] = int(random.integers(256))


def _flip_bit(data: bytearray, random: np.random.Generator, other: bytes) -> None:
    data[_place(data, random)] ^= 1 << int(random.integers(8))


def _truncate(data: bytearray, random: np.random.Generator, other: bytes) -> None:
    del data[_place(data, random) :]


def _cut_end(data: bytearray, random: np.random.Generator, other: bytes) -> None:
    del data[max(0, len(data) - _size(data, random)) :]


def _splice(data: bytearray, random: np.random.Generator, other: bytes) -> None:
    data[_place(data, random) :] = other[_place(other, random) :]


def _duplicate(data: bytearray, random: np.random.Generator, other: bytes) -> None:
    start = _place(data, random)
    block = data[start : start + _size(data, random)]
    place = _place(data, random)
    data[place:place] = block


def _swap(data: bytearray, random: np.random.Generator, other: bytes) -> None:
    size = _size(data, random)
    a, b = sorted((_place(data, random), _place(data, random)))
    if a + size <= b:
        data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]


def _remove(data: bytearray, random: np.random.Generator, other: bytes) -> None:
    start = _place(data, random)
    del data[start : start + _size(data, random)]


def _zero(data: bytearray, random: np.random.Generator, other: bytes) -> None:
    start = _place(data, random)
    size = min(_size(data, random), len(data) - start)
    data[start : start + size] = bytes(size)


def _extreme(data: bytearray, random: np.random.Generator, other: bytes) -> None:
    """Replace an integer of 1, 2, 4 or 8 bytes, in either byte order."""
    width = int(2 ** random.integers(4))
    bits = 8 * width
    power = 1 << int(random.integers(bits))
    values = (0, 1, 2**bits - 1, 2 ** (bits - 1), 2 ** (bits - 1) - 1, len(data) % 2**bits, power)
    order = ("little", "big")[random.integers(2)]
    start = _place(data, random)
    data[start : start + width] = int(values[random.integers(len(values))]).to_bytes(width, order)


def _extreme_text(data: bytearray, random: np.random.Generator, other: bytes) -> None:
    """Replace an integer that is written in digits, by one of the same length."""
    numbers = list(_DIGITS.finditer(bytes(data[: 64 * _HEAD])))
    if numbers:
        start, stop = numbers[random.integers(len(numbers))].span()
        texts = (b"-" + b"1".rjust(stop - start - 1, b"0"), b"7" * (stop - start), b"0" * (stop - start))
        more = (b"9" * (stop - start), b" " * (stop - start), b"-" + b"7" * (stop - start - 1))
        data[start:stop] = (texts + more)[random.integers(6)]


_CHANGES = (
    _flip,
    _flip_bit,
    _truncate,
    _cut_end,
    _splice,
    _duplicate,
    _swap,
    _remove,
    _zero,
    _extreme,
    _extreme,
    _extreme,
    _extreme_text,
)
