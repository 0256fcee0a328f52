"""Examines a copy by itself, without an index: damaged, missing, extra, doubled and resized images.

Tested by `tests/builders/doctor/test_doctor.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.doctor import editions
from builders.doctor.copies import FOLDER, Copy
from builders.doctor.kinds import Kind
from builders.doctor.sides import Difference, Side
from builders.sources.sizes import EXAMINED, size_problem, spread
from builders.storage.files import read_regular
from taxonomy import tables
from unknown_detection.words import first_few, quantity

_MANY = 1 / 200
"""Part of a copy's images that may be doubled without being a fault (ours): the owners' own archives have some, as
ILSVRC2012's do."""

_MISNAMED = 1 / 20
"""Part of a copy's images that may have another format than their names say (ours): the owners' archives have some."""

_FEWEST = 16
"""The least number of images by which a copy is said to be grey (ours)."""

_FORMATS = {"jpg": "JPEG", "jpeg": "JPEG", "png": "PNG", "webp": "WEBP", "bmp": "BMP", "gif": "GIF"}


@dataclass(frozen=True)
class Counts:
    """Counts of a partition beside the owner's: images and classes found and expected (None where unknown)."""

    source: str
    partition: str
    layout: str
    images: int
    expected: int | None
    classes: int
    expected_classes: int | None
    wrong_classes: Mapping[str, tuple[int, int]] = field(default_factory=dict, repr=False)


def owner_counts(copy: Copy) -> Iterator[Counts]:
    """Yield the counts of each partition of a copy beside the owner's."""
    for partition in copy.partitions:
        images, by_class = partition.table.num_rows, partition.images_by_class
        if copy.source is None:
            yield Counts(FOLDER, partition.name, partition.layout, images, None, len(by_class), None)
            continue
        expected = copy.source.expected()[partition.name]
        owners = expected.per_class or partition.listed or {}
        wrong = {each: (by_class.get(each, 0), n) for each, n in owners.items() if by_class.get(each, 0) != n}
        classes = len(copy.source.classes())
        yield Counts(
            copy.source.key, partition.name, partition.layout, images, expected.total, len(by_class), classes, wrong
        )


def examine(copy: Copy, facts: pa.Table, first: int, theirs: Side | None) -> tuple[list[Difference], list[str]]:
    """Examine a copy by itself; `first` is the number of its first row on its side of a comparison.

    If it is compared with an index, counts, doubled images and sizes are left to that.
    """
    found, remarks = [*_damaged(copy, facts, first)], []
    found += extra_images(copy, theirs)
    if copy.source is not None and copy.source.key == "imagenet":
        found += editions.of_imagenet(copy, facts)
    if theirs is None:
        found += _missing(copy)
        doubled, total = _doubled(copy, facts, first), copy.rows.num_rows
        if len(doubled) > _MANY * total and copy.source is not None and not copy.source.arrays:
            found += doubled
        elif doubled:
            remarks.append(
                f"{copy.title} has {quantity(len(doubled), 'image')} with the bytes of another one, for instance "
                f"{doubled[0].id} ({doubled[0].detail}); owners' archives have some"
            )
        found += _all_alike(copy, facts)
    known = [f"{copy.source.key}/{each}" for each in copy.rows["source_id"].to_pylist()] if copy.source else []
    if is_broken := sorted(set(known) & tables.broken_images().keys()):
        remarks.append(
            f"{quantity(len(is_broken), 'image')} known to be broken in the owner's archive: {first_few(is_broken)}"
        )
    header = (facts["channels"], facts["orientation"])
    grey, turned = (int(pc.sum(mask).as_py() or 0) for mask in (pc.equal(header[0], 1), pc.greater(header[1], 1)))
    if grey and not (copy.source and copy.source.arrays):
        remarks.append(f"{copy.title} has {quantity(grey, 'grey image')}, of one channel")
    if turned:
        remarks.append(f"{copy.title} has {quantity(turned, 'image')} that EXIF turns when they are read")
    return found, remarks


def _damaged(copy: Copy, facts: pa.Table, first: int) -> Iterator[Difference]:
    """Yield images that do not decode, but for those that are broken in the owner's archive."""
    key = copy.source.key if copy.source else ""
    for row in np.flatnonzero(pc.not_equal(facts["problem"], "").to_numpy()).tolist():
        source_id = copy.rows["source_id"][row].as_py()
        if f"{key}/{source_id}" not in tables.broken_images():
            kind: Kind = "truncated" if facts["problem"][row].as_py() == "truncated" else "unreadable"
            group, reason = copy.rows["partition"][row].as_py(), facts["reason"][row].as_py()
            yield Difference(kind, group, f"{key}/{source_id}".lstrip("/"), reason, first + row)


def extra_images(copy: Copy, theirs: Side | None) -> Iterator[Difference]:
    """Yield the image files beside those of a copy; an index tells of whole files which images they are."""
    digests: dict[bytes, str] = {}
    if theirs is not None and copy.extra:
        digests = dict(zip(theirs.rows["digest"].to_pylist(), theirs.rows["id"].to_pylist(), strict=True))
    ids = (
        {f"{copy.source.key}/{each}" for each in copy.rows["source_id"].to_pylist()} if copy.source and digests else {}
    )
    for stray in copy.extra:
        difference, path = _of_stray(copy, stray.path, stray.reason), copy.root / stray.path
        name = digests.get(hashlib.sha256(read_regular(path)).digest()) if digests and path.is_file() else None
        if name is None or difference.kind == "wrong class":
            yield difference
        else:
            kind: Kind = "doubled" if name in ids else "under another name"
            yield Difference(kind, difference.group, stray.path, f"it has the image of {name}")


def strays(here: Sequence[Sequence[Copy]], ours: Side, theirs: Side) -> tuple[list[Difference], list[Difference]]:
    """Return the image files beside the copies of either side, but for those that both have, as differences of ours.

    `here` has the copies of either side, none of an index.
    """
    found = [
        {each.id: (copy.root / each.id, each) for copy in copies for each in extra_images(copy, other)}
        for copies, other in zip(here, (theirs, ours), strict=True)
    ]
    for name in found[0].keys() & found[1].keys():
        paths = [of[name][0] for of in found]
        if all(path.is_file() for path in paths) and read_regular(paths[0]) == read_regular(paths[1]):
            del found[0][name], found[1][name]
    mirrored: dict[Kind, Kind] = {"extra": "missing"}
    return [each for _, each in found[0].values()], [
        replace(each, kind=mirrored.get(each.kind, each.kind), detail=f"in {theirs.name}: {each.detail}")
        for _, each in found[1].values()
    ]


def _of_stray(copy: Copy, path: str, reason: str) -> Difference:
    """Explain an image file that no partition names: an image of another class's folder, or an extra one."""
    group = next((each.name for each in copy.partitions if f"{each.name}/" in path), copy.partitions[0].name)
    parts = path.split("/")
    own = parts[-1].partition("_")[0]
    if copy.source is not None and own in copy.source.classes() and own not in parts[:-1] and len(parts) > 1:
        folder = next((part for part in reversed(parts[:-1]) if part in copy.source.classes()), parts[-2])
        return Difference("wrong class", group, path, f"an image of {own} in the folder {folder}")
    return Difference("extra", group, path, reason)


def _missing(copy: Copy) -> Iterator[Difference]:
    """Yield images that the owner's list or counts have and the copy has not, and classes with too many."""
    for partition, counts in zip(copy.partitions, owner_counts(copy), strict=True):
        if copy.source is None:
            return
        if len(partition.missing):
            key = copy.source.key
            yield from (
                Difference("missing", partition.name, f"{key}/{each}") for each in partition.missing.to_pylist()
            )
            continue
        for name, (images, owners) in sorted(counts.wrong_classes.items()):
            kind: Kind = "missing" if images < owners else "extra"
            detail = f"class {name}: {images:,} images, {owners:,} in the owner's"
            yield Difference(kind, partition.name, "", detail, images=abs(images - owners))
        if not counts.wrong_classes and counts.expected and counts.images < counts.expected:
            short = counts.expected - counts.images
            detail = f"{counts.images:,} of {counts.expected:,} images"
            yield Difference("missing", partition.name, "", detail, images=short)


def _doubled(copy: Copy, facts: pa.Table, first: int) -> list[Difference]:
    """Return images with the bytes of an earlier one of the copy."""
    digests = facts["digest"].combine_chunks()
    counts = pc.value_counts(digests)
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    rows = np.flatnonzero(pc.and_(pc.is_in(digests, value_set=repeated), pc.equal(pc.binary_length(digests), 32)))
    seen: dict[bytes, str] = {}
    found = []
    key = f"{copy.source.key}/" if copy.source else ""
    for row in rows.tolist():
        name = key + copy.rows["source_id"][row].as_py()
        other = seen.setdefault(digests[row].as_py(), name)
        if other != name:
            group = copy.rows["partition"][row].as_py()
            found.append(Difference("doubled", group, name, f"it has the image of {other}", first + row))
    return found


def _all_alike(copy: Copy, facts: pa.Table) -> Iterator[Difference]:
    """Yield what all or many images of a partition show together: resized, grey, or saved in another format."""
    start = 0
    for partition in copy.partitions:
        read = facts.slice(start, partition.table.num_rows)
        names = copy.rows["source_id"].slice(start, partition.table.num_rows)
        start, rows = start + partition.table.num_rows, partition.table.num_rows
        if copy.source is None or copy.source.arrays or not rows:
            continue
        sample = read.take(pa.array(spread(rows, EXAMINED)))
        sizes = list(zip(sample["width"].to_pylist(), sample["height"].to_pylist(), strict=True))
        if problem := size_problem(copy.source, [size for size in sizes if min(size)]):
            yield Difference("resized", partition.name, "", problem, images=rows)
        if rows >= _FEWEST and pc.all(pc.equal(read["channels"], 1)).as_py():
            yield Difference("grey", partition.name, "", f"all {rows:,} images have one channel", images=rows)
        endings = pc.utf8_lower(pc.replace_substring_regex(names, r"^.*\.", ""))
        named = pa.array(_FORMATS.values()).take(
            pc.index_in(endings, value_set=pa.array(_FORMATS.keys())).combine_chunks()
        )
        other = pc.fill_null(pc.and_(pc.not_equal(named, read["format"]), pc.not_equal(read["format"], "")), False)
        if (count := pc.sum(other).as_py() or 0) > _MISNAMED * rows:
            form = read["format"].filter(other)[0].as_py()
            detail = f"{count:,} images are other than their names say, such as {form}"
            yield Difference("re-encoded", partition.name, "", detail, images=count)
