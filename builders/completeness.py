"""Is a person's copy whole? Compares what was found with the owner's counts, for the classes that are needed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.sources.base import Expected, Piece, SourceIndex


@dataclass(frozen=True)
class Shortfall:
    """One partition that is not what the owner's edition has."""

    source: str
    partition: str
    sentence: str


def shortfalls(index: SourceIndex, needed: Collection[str]) -> list[Shortfall]:
    """Compare every piece of an index with the owner's counts.

    A partition whose total is right is accepted. Otherwise the classes in `needed` decide, where a listing of counts
    by class
    exists: somebody who keeps only those classes has all that the build asks for.

    Args:
        index: what was found.
        needed: class ids that the chosen splits draw from.

    Returns:
        One entry for each partition that is short or over; empty when all is well.
    """
    expected = index.source.expected()
    found = [_compare(index, piece, expected[piece.partition], needed) for piece in index.pieces]
    return [shortfall for shortfall in found if shortfall is not None]


def _compare(index: SourceIndex, piece: Piece, expected: Expected, needed: Collection[str]) -> Shortfall | None:
    rows = piece.table.num_rows
    if rows == expected.total:
        return None
    title = f"{index.source.title}, {piece.partition} ({piece.layout})"
    if expected.per_class is None:
        sentence = f"{title}: expected {expected.total:,} images, found {rows:,}"
        return Shortfall(index.source.key, piece.partition, sentence)
    counts = _by_class(piece.table)
    wrong = sorted(c for c in needed if counts.get(c, 0) != expected.per_class[c])
    if not wrong:
        return None
    listed = expected.per_class
    worst = min(wrong, key=lambda c: (counts.get(c, 0) - listed[c], c))
    name = index.source.classes()[worst]
    others = f" and {len(wrong) - 1:,} more classes differ" if len(wrong) > 1 else ""
    sentence = (
        f"{title}: expected {expected.per_class[worst]:,} images of {worst} ({name}), "
        f"found {counts.get(worst, 0):,}{others}"
    )
    return Shortfall(index.source.key, piece.partition, sentence)


def _by_class(table: pa.Table) -> dict[str, int]:
    counted = pc.value_counts(table["class_id"])
    names = counted.field("values").cast(pa.string()).to_pylist()
    return dict(zip(names, np.asarray(counted.field("counts")).tolist(), strict=True))
