"""Compares copies of sources with their owners' counts and lists, and draws with the authors' lists.

A copy with only the needed classes is enough for a build. So missing images of a class that no split draws from do not
count, and its surplus images do not hide missing images of another class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from builders.declare.quotas import Largest, Listed
from builders.declare.ranking import names_of
from builders.plan.candidates import Draws, KeyedRanks
from builders.plan.planner import PlannedSplit
from builders.sources.base import Expected, PartitionIndex, SourceIndex
from taxonomy import lists
from unknown_detection.words import first_few


def count_shortfalls(index: SourceIndex, partitions: Collection[str], class_ids: Collection[str]) -> list[str]:
    """Compare the sizes of the needed classes in some partitions with the owner's counts.

    Counts by class come from the source's declaration, or from the owner's list of images if the copy has one of the
    right length. Without either, a copy with every class must have the right total; in a copy with only some classes,
    each needed class and their sum must have a size that the owner's figures allow, which overlooks a few missing
    images.

    Returns:
        One sentence for each partition with too few or too many images. Releases quote it, so it has no path and no
        full stop. Empty if all counts are right.
    """
    sentences = []
    for partition in index.partitions:
        if partition.name in partitions:
            expected = index.source.expected()[partition.name]
            # The owner's list in this copy counts, unless it is itself incomplete.
            listed = (
                partition.listed if partition.listed and sum(partition.listed.values()) == expected.total else None
            )
            exact = expected.per_class or listed
            wrong = _wrong_class(index, partition, expected, class_ids, exact)
            wrong = wrong or ("" if exact else _wrong_total(index, partition, expected, class_ids))
            if wrong:
                sentences.append(f"{index.source.title}, {partition.name} ({partition.layout}): {wrong}")
    return sentences


def missing_listed(
    quota: Listed, index: SourceIndex, partitions: Collection[str], class_ids: Collection[str]
) -> list[str]:
    """Compare a published list with the images that a source has; images that no list has may be missing."""
    other_classes = index.source.classes().keys() - set(class_ids)
    listed = pa.array(
        [image for image, own in lists.load_list(quota.list_name).items() if own not in other_classes], pa.string()
    )
    ids = index.take(["source_id"], index.rows_of(list(partitions)))["source_id"]
    names = names_of(ids) if quota.by_name else ids
    missing = sorted(listed.filter(pc.invert(pc.is_in(listed, value_set=names))).to_pylist())
    present = pc.sum(pc.is_in(names, value_set=listed)).as_py() or 0
    title = f"{index.source.title}, {' and '.join(partitions)}"
    if missing:
        return [f"{title}: lacks {len(missing):,} of the {len(listed):,} listed images ({first_few(missing)})"]
    if present > len(listed):
        return [f"{title}: has {present:,} images with the {len(listed):,} listed names"]
    return []


def _wrong_class(
    index: SourceIndex,
    partition: PartitionIndex,
    expected: Expected,
    class_ids: Collection[str],
    exact: Mapping[str, int] | None,
) -> str:
    """Describe the class with the most missing images, or the first with too many; empty if all sizes are right."""
    counts, sizes = partition.images_by_class, dict[str, tuple[int, int]]()
    if exact is not None:
        sizes = {class_id: (exact[class_id], exact[class_id]) for class_id in class_ids}
    elif expected.class_sizes is not None:
        sizes = dict.fromkeys(class_ids, expected.class_sizes)
    wrong = [c for c, (least, most) in sizes.items() if not least <= counts.get(c, 0) <= most]
    if not wrong:
        return ""
    worst = min(wrong, key=lambda c: (counts.get(c, 0) - sizes[c][0], c))
    least, most = sizes[worst]
    number = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    others = f" and {len(wrong) - 1:,} more classes differ" if len(wrong) > 1 else ""
    total = ", although the total is right" if partition.table.num_rows == expected.total else ""
    return (
        f"expected {number} images of {worst} ({index.source.classes()[worst]}), found {counts.get(worst, 0):,}"
        f"{others}{total}{_absent(partition, worst)}"
    )


def _wrong_total(index: SourceIndex, partition: PartitionIndex, expected: Expected, class_ids: Collection[str]) -> str:
    """Compare totals where no counts by class are known; return an empty text if they fit."""
    classes, counts = index.source.classes(), partition.images_by_class
    least, most = expected.class_sizes or (0, 0)
    if expected.class_sizes is None or all(least <= counts.get(class_id, 0) <= most for class_id in classes):
        rows = partition.table.num_rows
        return (
            "" if rows == expected.total else f"expected {expected.total:,} images, found {rows:,}{_absent(partition)}"
        )
    # Other classes were left out, wholly or in part. In a complete copy their total lies between these bounds.
    other_classes = len(classes) - len(class_ids)
    lowest, highest = expected.total - other_classes * most, expected.total - other_classes * least
    count, images = len(class_ids), sum(counts[class_id] for class_id in class_ids)
    if lowest <= images <= highest:
        return ""
    return f"expected {lowest:,} to {highest:,} images in the {count} classes that are needed, found {images:,}"


def _absent(partition: PartitionIndex, class_id: str = "") -> str:
    """Explain a missing image: the first image of the owner's list that the copy lacks, and the partition's hint.

    If ids begin with their class, the image is of the given class.
    """
    of_class = partition.missing.filter(pc.match_substring(partition.missing, f"{class_id}/"))
    first = next(iter(of_class if len(of_class) else partition.missing), None)
    first_missing = f"; the first that its list names and the copy lacks is {first}" if first is not None else ""
    return first_missing + (f"; {partition.hint}" if partition.hint else "")


def agreement(draws: Draws, plan: PlannedSplit, index: SourceIndex) -> str:
    """Describe how many of a split's images its authors' list has, also for a draw by the authors' other column."""
    authors, quota = plan.split.authors, plan.split.quota
    if authors is None:
        raise ValueError(f"the authors of {plan.key} published no list")
    listed = authors.listed().keys()
    present = len(listed & set(index.table["source_id"].to_pylist()))
    shared = len(listed & set(index.values("source_id", plan.rows).to_pylist()))
    text = f"{plan.key}: {shared:,} of its {plan.size:,} images are on the authors' list of {len(listed):,}"
    text += f", of which the source has {present:,}" if present < len(listed) else ""
    if authors.other_column and isinstance(quota, Largest):
        rows = index.rows_of(plan.split.partitions, draws.classes(plan.key))
        other_quota, ranks = (
            dataclasses.replace(quota, by=authors.other_column),
            KeyedRanks(index, draws.rank(plan.split_key)),
        )
        others = set(index.values("source_id", ranks.take(other_quota, rows, plan.split.partitions)).to_pylist())
        text += f"; by {authors.other_column} it would be {len(listed & others):,}"
    return text
