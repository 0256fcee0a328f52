"""Compares copies of sources with their owners' counts and lists, and splits with their authors' lists.

A copy with only the needed classes is enough for a build. So missing images of a class that no split draws from do not
count, and its surplus images do not hide missing images of another class.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from builders.declare.benchmark import AuthorsImages, Largest
from builders.declare.quotas import Listed
from builders.errors import NAMED, more
from builders.plan.candidates import Draws, IndexArrays, KeyedRanks, RankedCandidates, names_of
from builders.plan.planner import PlannedSplit
from builders.sources.base import Expected, PartitionIndex, SourceIndex
from taxonomy import lists


def count_shortfalls(index: SourceIndex, partitions: Collection[str], class_ids: Collection[str]) -> list[str]:
    """Compare the needed classes of some partitions with the owner's counts.

    Counts by class come from the source's declaration, or from the owner's list of images if the copy has one of the
    right length. Without either, a copy with every class must have the right total; in a copy with only some classes,
    each needed class and their sum must have a size that the owner's figures allow, which overlooks a few missing
    images.

    Args:
        index: the source as found.
        partitions: the partitions to compare.
        class_ids: the classes that are drawn from.

    Returns:
        One sentence for each partition with too few or too many images. Releases quote it, so it has no path and no
        full stop. Empty if all counts are right.
    """
    expected = index.source.expected()
    pieces = [piece for piece in index.pieces if piece.partition in partitions]
    sentences = [_compare(index, piece, expected[piece.partition], class_ids) for piece in pieces]
    return [sentence for sentence in sentences if sentence is not None]


def missing_listed(
    quota: Listed, index: SourceIndex, partitions: Collection[str], class_ids: Collection[str]
) -> list[str]:
    """Compare the images of a published list with those that a source has; other images may be missing.

    Args:
        quota: says which list.
        index: the source as found.
        partitions: the partitions to look in.
        class_ids: the classes that are drawn from; listed images of others do not count.

    Returns:
        A sentence as `count_shortfalls` gives, or none if every image is there once.
    """
    other_classes = index.source.classes().keys() - set(class_ids)
    listed = pa.array(
        [image for image, of in lists.load_list(quota.of).items() if of not in other_classes], pa.string()
    )
    pieces = [piece for piece in index.pieces if piece.partition in partitions]
    ids = pa.chunked_array([piece.table["source_id"].combine_chunks() for piece in pieces], pa.string())
    names = names_of(ids) if quota.by_name else ids
    missing = sorted(listed.filter(pc.invert(pc.is_in(listed, value_set=names))).to_pylist())
    present = pc.sum(pc.is_in(names, value_set=listed)).as_py() or 0
    title = f"{index.source.title}, {' and '.join(partitions)}"
    if missing:
        first = f"{', '.join(missing[:NAMED])}{more(missing)}"
        return [f"{title}: lacks {len(missing):,} of the {len(listed):,} listed images ({first})"]
    if present > len(listed):
        return [f"{title}: has {present:,} images with the {len(listed):,} listed names"]
    return []


def _compare(index: SourceIndex, piece: PartitionIndex, expected: Expected, class_ids: Collection[str]) -> str | None:
    counts = piece.images_by_class
    exact = expected.per_class or _listed(piece, expected.total)
    if exact is not None:
        limits = {class_id: (exact[class_id], exact[class_id]) for class_id in class_ids}
    elif expected.class_sizes is not None:
        limits = dict.fromkeys(class_ids, expected.class_sizes)
    else:
        limits = {}
    wrong = sorted(c for c, (least, most) in limits.items() if not least <= counts.get(c, 0) <= most)
    if wrong:
        sentence = _worst(index, piece, expected, limits, wrong)
    else:
        sentence = "" if exact is not None else _wrong_total(index, piece, expected, class_ids)
    return f"{index.source.title}, {piece.partition} ({piece.layout}): {sentence}" if sentence else None


def _listed(piece: PartitionIndex, total: int) -> Mapping[str, int] | None:
    """Return the counts by class of the owner's list in this copy, unless the list itself is incomplete."""
    return piece.listed if piece.listed is not None and sum(piece.listed.values()) == total else None


def _wrong_total(index: SourceIndex, piece: PartitionIndex, expected: Expected, class_ids: Collection[str]) -> str:
    """Compare totals where no counts by class are known; return an empty text if they fit."""
    classes, counts = index.source.classes(), piece.images_by_class
    least, most = expected.class_sizes or (0, 0)
    if expected.class_sizes is None or all(least <= counts.get(class_id, 0) <= most for class_id in classes):
        rows = piece.table.num_rows
        if rows == expected.total:
            return ""
        return f"expected {expected.total:,} images, found {rows:,}{_absent(piece, '')}"
    # Other classes were left out, wholly or in part. In a complete copy their total lies between these bounds.
    other_classes = len(classes) - len(class_ids)
    lowest, highest = expected.total - other_classes * most, expected.total - other_classes * least
    count, images = len(class_ids), sum(counts[class_id] for class_id in class_ids)
    if lowest <= images <= highest:
        return ""
    return f"expected {lowest:,} to {highest:,} images in the {count} classes that are needed, found {images:,}"


def _worst(
    index: SourceIndex,
    piece: PartitionIndex,
    expected: Expected,
    limits: Mapping[str, tuple[int, int]],
    wrong: list[str],
) -> str:
    """Describe the class with the most missing images, or the first with too many if none lacks any."""
    counts = piece.images_by_class
    worst = min(wrong, key=lambda c: (counts.get(c, 0) - limits[c][0], c))
    least, most = limits[worst]
    number = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    others = f" and {len(wrong) - 1:,} more classes differ" if len(wrong) > 1 else ""
    total = ", although the total is right" if piece.table.num_rows == expected.total else ""
    return (
        f"expected {number} images of {worst} ({index.source.classes()[worst]}), found {counts.get(worst, 0):,}"
        f"{others}{total}{_absent(piece, worst)}"
    )


def _absent(piece: PartitionIndex, class_id: str) -> str:
    """Explain a missing image: the first image of the owner's list that the copy lacks, and the piece's hint.

    If ids begin with their class, the image is of the given class.
    """
    of_class = piece.missing.filter(pc.match_substring(piece.missing, f"{class_id}/"))
    first = next(iter(of_class if len(of_class) else piece.missing), None)
    first_missing = f"; the first that its list names and the copy lacks is {first}" if first is not None else ""
    return first_missing + (f"; {piece.hint}" if piece.hint else "")


def agreement(draws: Draws, plan: PlannedSplit, authors: AuthorsImages, index: SourceIndex) -> str:
    """Say how many images a split shares with its authors' list, and how many it would by their other reading.

    Args:
        draws: the draws that it is planned by.
        plan: the plan.
        authors: the list.
        index: the source that it is planned from.
    """
    view, listed = IndexArrays(index), authors.listed()
    present = len(listed.keys() & set(index.table["source_id"].to_pylist()))
    shared = len(listed.keys() & set(plan.table["source_id"].to_pylist()))
    text = f"{plan.key}: {shared:,} of its {plan.size:,} images are on the authors' list of {len(listed):,}"
    text += f", of which the source has {present:,}" if present < len(listed) else ""
    if authors.other_column:
        alternative = _otherwise(draws, plan, view, authors.other_column)
        text += f"; by {authors.other_column} it would be {len(listed.keys() & alternative):,}"
    return text + _other_counts(plan, listed)


def _otherwise(draws: Draws, plan: PlannedSplit, view: IndexArrays, column: str) -> set[str]:
    """Return the images that the split would have by its authors' other column."""
    split = plan.split
    if not isinstance(split.quota, Largest):
        raise ValueError(f"{plan.key} has another column to draw by, but no quota of the largest values")
    quota = dataclasses.replace(split.quota, by=column)
    rows = view.rows(draws.classes(plan.key), split.partitions)
    ranks = KeyedRanks(view, draws.rank(plan.split_key))
    return set(view.ids(quota.take(RankedCandidates(view, rows, ranks, split.partitions))).to_pylist())


def _other_counts(plan: PlannedSplit, listed: Mapping[str, str]) -> str:
    """Name the classes of which the split has another number of images than the list, if that names classes."""
    list_counts = Counter(class_id for class_id in listed.values() if class_id)
    split_counts = Counter(plan.table["class_id"].to_pylist())
    differ = [name for name in sorted(list_counts | split_counts) if split_counts[name] != list_counts[name]]
    if not list_counts or not differ:
        return ""
    counts = ", ".join(f"{name} {split_counts[name]:,} ({list_counts[name]:,})" for name in differ[:NAMED])
    return f"; other numbers than the list's: {counts}{more(differ)}"
