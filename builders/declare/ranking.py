"""Keyed selection: a draw depends only on the seed and the names, not on a random state or the order on disk."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Int64 = npt.NDArray[np.int64]
Integers = npt.NDArray[np.integer]


@dataclass(frozen=True)
class Key:
    """Ranks ids by the SHA-256 of (seed, config, split, id), lowest first."""

    seed: int
    config: str
    split: str

    def prefixes(self, ids: pa.Array) -> npt.NDArray[np.uint64]:
        """Return the first 64 bits of each id's digest, which nearly always suffice to order two ids."""
        return np.frombuffer(b"".join(self.digests(ids)), dtype=">u8")[::4].astype(np.uint64)

    def digests(self, ids: pa.Array) -> list[bytes]:
        """Return the digest of each id."""
        prefix, sha256 = "\0".join((str(self.seed), self.config, self.split, "")).encode(), hashlib.sha256
        # Slicing the value buffer is several times faster than `to_pylist`, and a million ids are ranked in one plan.
        _, offset_buffer, value_buffer = ids.buffers()
        offsets = np.frombuffer(offset_buffer, dtype=np.int32)[ids.offset : ids.offset + len(ids) + 1]
        first = int(offsets[0])
        values = value_buffer[first : int(offsets[-1])].to_pybytes() if value_buffer is not None else b""
        bounds = itertools.pairwise((offsets - first).tolist())
        return [sha256(prefix + values[start:stop]).digest() for start, stop in bounds]

    def order(self, ids: pa.Array) -> Int64:
        """Order n ids, `pa.string()`; returns n positions into them, lowest digest first."""
        return in_rank_order(self.prefixes(ids), lambda positions: self.digests(ids.take(pa.array(positions))))


def in_rank_order(prefixes: npt.NDArray[np.uint64], digests: Callable[[Int64], list[bytes]]) -> Int64:
    """Order n ids by digest, lowest first, given the first 64 bits of each; returns n positions.

    `digests` gives the whole digests of the ids in some positions; asked for those whose prefixes are equal.
    """
    order: Int64 = np.argsort(prefixes, kind="stable").astype(np.int64, copy=False)
    leading = prefixes[order]
    equal = np.flatnonzero(leading[1:] == leading[:-1])
    for run in np.split(equal, np.flatnonzero(np.diff(equal) > 1) + 1) if len(equal) else ():
        tied = order[run[0] : run[-1] + 2]
        by_digest = sorted(zip(digests(tied), tied.tolist(), strict=True))
        order[run[0] : run[-1] + 2] = [position for _, position in by_digest]
    return order


def names_of(ids: pa.Array) -> pa.Array:
    """Return the last part of each id, which is the name of a file."""
    return pc.replace_substring_regex(ids, r"^.*/", "")


def largest_remainders(total: int, sizes: Sequence[int]) -> list[int]:
    """Divide `total` among classes in proportion to their sizes, by Hamilton's method.

    Each class gets the integer part of its share, and the classes with the largest remainders one more; of equal
    remainders, the earlier class goes first. Arithmetic is on integers, so that rounding cannot differ between
    machines. No quota is above its class's size, and their sum is `total`.

    Raises:
        ValueError: `total` is negative or more than `sum(sizes)`.
    """
    pool = sum(sizes)
    if not 0 <= total <= pool:
        raise ValueError(f"cannot take {total} of {pool} images")
    if pool == 0:
        return [0] * len(sizes)
    quotas = [total * size // pool for size in sizes]
    by_remainder = sorted(range(len(sizes)), key=lambda i: (-(total * sizes[i] % pool), i))
    for i in by_remainder[: total - sum(quotas)]:
        quotas[i] += 1
    return quotas


def even_shares(total: int, sizes: Sequence[int], names: Sequence[str]) -> list[int]:
    """Share `total` evenly among classes; a class smaller than its share gives all it has.

    Returns one quota a class, none above its size: `total` in all, or all there is. Of the classes that are cut, the
    most populated get one more where the rest does not divide; of equal ones the first by `names`.
    """
    quotas = [0] * len(sizes)
    remaining = min(total, sum(sizes))
    # From the smallest up, each class takes its share of what is left, so a smaller class's rest goes to the others.
    ascending = sorted(range(len(sizes)), key=lambda i: (-sizes[i], names[i]), reverse=True)
    for number, i in enumerate(ascending):
        quotas[i] = min(sizes[i], remaining // (len(sizes) - number))
        remaining -= quotas[i]
    return quotas


def first_of_each(codes: Integers, order: Integers, quotas: Int64) -> Integers:
    """Return the rows that fall within their class's quota, taking rows in the given order, best first.

    `codes` has the class of every row of a source, and `quotas` is by class.
    """
    # As `builders.plan.candidates` has them: 16 bits, which NumPy sorts ten times faster.
    in_order = codes[order].astype(np.uint16 if len(quotas) <= 1 << 16 else np.int64)
    grouped = np.argsort(in_order, kind="stable")
    starts = np.searchsorted(in_order[grouped], np.arange(len(quotas)))
    position = np.empty(len(order), dtype=np.int64)
    position[grouped] = np.arange(len(order)) - starts[in_order[grouped]]
    rows: Integers = order[position < quotas[in_order]]
    return rows
