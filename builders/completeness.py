"""Is a person's copy whole? Compares what was found with the owner's counts, for the classes that are needed."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.sources.base import Expected, Piece, SourceIndex


def shortfalls(index: SourceIndex, partitions: Collection[str], needed: Collection[str]) -> list[str]:
    """Compare the given partitions of an index with the owner's counts.

    A partition whose total is right is accepted. Otherwise the classes in `needed` decide, where a listing of counts
    by class
    exists: somebody who keeps only those classes has all that the build asks for.

    Args:
        index: what was found.
        partitions: those to compare.
        needed: class ids that are drawn from.

    Returns:
        One sentence for each partition that is short or over, without its end and without a path, since releases
        quote it; empty when all is well.
    """
    expected = index.source.expected()
    pieces = [piece for piece in index.pieces if piece.partition in partitions]
    found = [_compare(index, piece, expected[piece.partition], needed) for piece in pieces]
    return [sentence for sentence in found if sentence is not None]


def _compare(index: SourceIndex, piece: Piece, expected: Expected, needed: Collection[str]) -> str | None:
    rows = piece.table.num_rows
    if rows == expected.total:
        return None
    title = f"{index.source.title}, {piece.partition} ({piece.layout})"
    absent = f"; the first that its list names and the copy lacks is {piece.missing[0]}" if len(piece.missing) else ""
    absent += f"; {piece.hint}" if piece.hint else ""
    if expected.per_class is None:
        return f"{title}: expected {expected.total:,} images, found {rows:,}{absent}"
    counts = _by_class(piece.table)
    listed = expected.per_class
    wrong = sorted(c for c in needed if counts.get(c, 0) != listed[c])
    if not wrong:
        return None
    worst = min(wrong, key=lambda c: (counts.get(c, 0) - listed[c], c))
    name = index.source.classes()[worst]
    others = f" and {len(wrong) - 1:,} more classes differ" if len(wrong) > 1 else ""
    found = counts.get(worst, 0)
    return f"{title}: expected {listed[worst]:,} images of {worst} ({name}), found {found:,}{others}{absent}"


def _by_class(table: pa.Table) -> dict[str, int]:
    counted = pc.value_counts(table["class_id"])
    names = counted.field("values").cast(pa.string()).to_pylist()
    return dict(zip(names, np.asarray(counted.field("counts")).tolist(), strict=True))
