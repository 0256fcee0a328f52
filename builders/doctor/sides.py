"""Compares two sets of images by id and digest, and explains each difference by kind.

Tested by `tests/builders/doctor/test_compare.py`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.doctor.copies import FOLDER
from builders.doctor.kinds import Facts, Kind, Picture, decoded, explain, explain_by_facts, image_facts
from builders.release import images

Int64 = npt.NDArray[np.int64]

_EXTRA: Kind = "extra"
_MISSING: Kind = "missing"

_EXPLAINED = 1000
"""Images of a pair of groups whose pixels are compared (ours); all others that differ have the kind `differs`."""


@dataclass(frozen=True)
class Side:
    """One of two sets of images: its name, a row for each image, and what else is said of it.

    `rows` has `group` (a split or partition), `id`, `class_id`, `digest` (32 bytes, none where unknown) and `by`: what
    the digest is over, `bytes`, `pixels`, or `mended` bytes, from which metadata were removed. Some have `width`,
    `height`, `channels` and `bytes`, and `problem` and `reason`. `pictures` reads images by row numbers. `digests` are
    those of groups in which rows, order, roles and classes are equal if the digests are. `of_source` is the key of the
    only source, or `folder`. `classes` has the classes of each config in the order of its labels.
    """

    name: str
    rows: pa.Table = field(repr=False)
    about: Mapping[str, str] = field(default_factory=dict)
    pictures: Callable[[list[int]], Mapping[int, Picture]] | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    of_source: str = ""
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def groups(self) -> list[str]:
        """The names of the groups, sorted."""
        return sorted(pc.unique(self.rows["group"]).to_pylist())

    def numbers_of(self, group: str) -> Int64:
        """Return the row numbers of a group."""
        return np.flatnonzero(pc.equal(self.rows["group"], group).to_numpy())


@dataclass(frozen=True)
class Difference:
    """A difference of one image: its kind, group and id, details in words, and the row numbers in both sides or -1.

    Without an id it is one of a group, of so many `images`.
    """

    kind: Kind
    group: str
    id: str
    detail: str = ""
    ours: int = -1
    theirs: int = -1
    images: int = 1


def compare_sides(ours: Side, theirs: Side) -> tuple[list[str], list[Difference]]:
    """Compare two sides; returns the groups that are equal, and the differences of all others.

    Groups of one name are compared with each other, and where there are none, all images with all.
    """
    ours, theirs = _by_stems(ours, theirs)
    common = [group for group in ours.groups if group in theirs.groups]
    if not common:
        alone = pair_rows(ours, theirs, _distinct(ours), _distinct(theirs), "")
        return [], list(explained(ours, theirs, alone))
    equal, differences = list[str](), list[Difference]()
    for group in sorted({*ours.groups, *theirs.groups}):
        if group not in common:
            present, only = (ours, _EXTRA) if group in ours.groups else (theirs, _MISSING)
            rows = len(present.numbers_of(group))
            differences.append(Difference(only, group, "", f"only {present.name} has this split", images=rows))
            continue
        if group in ours.digests and ours.digests[group] == theirs.digests.get(group):
            equal.append(group)
            continue
        found = list(
            explained(ours, theirs, pair_rows(ours, theirs, ours.numbers_of(group), theirs.numbers_of(group), group))
        )
        if not found and group in ours.digests and group in theirs.digests:
            found = [Difference("differs", group, "", "equal images; their order, labels or roles differ", images=0)]
        differences += found
        if not found:
            equal.append(group)
    return equal, differences


def other_classes(ours: Side, theirs: Side) -> list[Difference]:
    """Return a difference for each config of both sides in which labels stand for other classes."""
    common = sorted(ours.classes.keys() & theirs.classes.keys())
    return [
        Difference("wrong class", config, "", "its labels stand for other classes", images=0)
        for config in common
        if tuple(ours.classes[config]) != tuple(theirs.classes[config])
    ]


def _by_stems(ours: Side, theirs: Side) -> tuple[Side, Side]:
    """Return both sides with names of files as ids if one is a folder, no id is in both, and the names are unique."""
    ids = [side.rows["id"].combine_chunks() for side in (ours, theirs)]
    shared = pc.any(pc.is_in(ids[0], value_set=ids[1]), min_count=0).as_py()
    if shared or FOLDER not in (ours.of_source, theirs.of_source):
        return ours, theirs
    names = [pc.replace_substring_regex(each, "^.*/", "") for each in ids]
    stems = [pc.replace_substring_regex(each, r"\.[A-Za-z]+$", "") for each in names]
    if any(pc.count_distinct(each).as_py() < len(each) for each in stems):
        return ours, theirs
    named = [
        replace(side, rows=side.rows.set_column(side.rows.column_names.index("id"), "id", each))
        for side, each in zip((ours, theirs), stems, strict=True)
    ]
    return named[0], named[1]


def _distinct(side: Side) -> Int64:
    """Return the first row of each id."""
    seen: dict[str, int] = {}
    for number, name in enumerate(side.rows["id"].to_pylist()):
        seen.setdefault(name, number)
    return np.array(list(seen.values()), np.int64)


def pair_rows(
    ours: Side, theirs: Side, our_numbers: Int64, their_numbers: Int64, group: str, *, whole: bool = True
) -> list[Difference]:
    """Compare some rows of two sides by id and digest; what differs in content has the kind `differs` so far.

    Without `whole`, images that only ours has are no difference.
    """
    mine, other = (
        side.rows.take(pa.array(numbers)) for side, numbers in ((ours, our_numbers), (theirs, their_numbers))
    )
    at = _places(mine["id"], other["id"])  # of each of theirs among ours
    groups = other["group"].to_pylist() if not group else []
    our_ids, their_ids = mine["id"].to_pylist(), other["id"].to_pylist()
    our_digests, their_digests = mine["digest"].to_pylist(), other["digest"].to_pylist()
    our_problems, their_problems = _problems(mine), _problems(other)
    unread = b"" in our_digests or b"" in their_digests
    our_headers, their_headers = (_headers(mine), _headers(other)) if unread else ([], [])
    our_by, their_by = mine["by"].to_pylist(), other["by"].to_pylist()
    our_classes, their_classes = mine["class_id"].to_pylist(), other["class_id"].to_pylist()
    have_classes = not set(our_classes).isdisjoint(their_classes)
    id_of = {digest: name for name, digest in zip(reversed(their_ids), reversed(their_digests), strict=True)}
    extra = sorted(set(range(len(our_ids))) - set(at[at >= 0].tolist())) if whole or (at < 0).any() else []
    extra_of = {our_digests[number]: number for number in reversed(extra) if our_digests[number]}
    found, used = list[Difference](), set[int]()
    for theirs_at, ours_at in enumerate(at.tolist()):
        where = group or groups[theirs_at]
        numbers = (int(our_numbers[ours_at]) if ours_at >= 0 else -1, int(their_numbers[theirs_at]))
        name = their_ids[theirs_at]
        if ours_at < 0:
            same = extra_of.get(their_digests[theirs_at])
            if same is None:
                found.append(Difference("missing", where, name, "", *numbers))
            else:
                used.add(same)
                detail = f"{our_ids[same]} has its bytes"
                found.append(Difference("under another name", where, name, detail, int(our_numbers[same]), numbers[1]))
            continue
        if have_classes and our_classes[ours_at] != their_classes[theirs_at]:
            detail = f"{our_classes[ours_at]}, not {their_classes[theirs_at]}"
            found.append(Difference("wrong class", where, name, detail, *numbers))
        read = our_digests[ours_at] and their_digests[theirs_at]  # else not read, as with --quick, or not to be read
        if read and our_digests[ours_at] == their_digests[theirs_at]:
            continue
        twin = id_of.get(our_digests[ours_at]) if read and our_by[ours_at] == their_by[theirs_at] else None
        if twin is not None and twin != name:
            found.append(Difference("doubled", where, name, f"it has the image of {twin}", *numbers))
        elif damage := our_problems[ours_at] or their_problems[theirs_at]:
            beside = "" if our_problems[ours_at] else f" (in {theirs.name})"
            found.append(Difference(damage[0], where, name, damage[1] + beside, *numbers))
        elif read:
            found.append(Difference("differs", where, name, "", *numbers))
        elif our_headers and their_headers and our_headers[ours_at] != their_headers[theirs_at]:
            found += _by_header(our_headers[ours_at], their_headers[theirs_at], where, name, numbers)
    if whole:
        for number in extra:
            if number not in used:
                twin = id_of.get(our_digests[number])
                kind: Kind = "extra" if twin is None else "doubled"
                where = group or mine["group"][number].as_py()
                detail = "" if twin is None else f"it has the image of {twin}"
                found.append(Difference(kind, where, our_ids[number], detail, int(our_numbers[number])))
    return found


def _problems(rows: pa.Table) -> list[tuple[Kind, str] | None]:
    """Return for each row the damage that was found when it was read, with the reason."""
    if "problem" not in rows.column_names:
        return [None] * rows.num_rows
    pairs = zip(rows["problem"].to_pylist(), rows["reason"].to_pylist(), strict=True)
    return [
        ("truncated" if problem == "truncated" else "unreadable", why) if problem else None for problem, why in pairs
    ]


def _headers(rows: pa.Table) -> list[tuple[int, ...]]:
    """Return width, height, channels and bytes of each row; nothing if they are not known."""
    if "bytes" not in rows.column_names:
        return []
    return list(zip(*(rows[name].to_pylist() for name in ("width", "height", "channels", "bytes")), strict=True))


def _by_header(
    ours: tuple[int, ...], theirs: tuple[int, ...], where: str, name: str, numbers: tuple[int, int]
) -> Iterator[Difference]:
    """Yield what headers and sizes tell of two images that were not read."""
    if not (ours[0] and theirs[0]):
        return
    kind, detail = explain_by_facts(Facts(b"", "", ours[0], ours[1], ours[2], 1), theirs[0], theirs[1], theirs[2])
    if kind == "differs" and ours[3] != theirs[3] and ours[3] and theirs[3]:
        detail = f"{ours[3]:,} bytes, not {theirs[3]:,}"
    elif kind == "differs" and ours[2] != theirs[2]:
        detail = f"{ours[2]} channels, not {theirs[2]}"
    elif kind == "differs":
        return
    yield Difference(kind, where, name, detail, *numbers)


def explained(ours: Side, theirs: Side, differences: Sequence[Difference]) -> Iterator[Difference]:
    """Yield differences, those of content with their kind, as far as pixels or headers tell it."""
    open_ones = [each for each in differences if each.kind == "differs" and not each.detail][:_EXPLAINED]
    mine = ours.pictures([each.ours for each in open_ones]) if ours.pictures and open_ones else {}
    other = theirs.pictures([each.theirs for each in open_ones]) if theirs.pictures and open_ones else {}
    by, digests = theirs.rows["by"], theirs.rows["digest"]
    opened = {each.ours for each in open_ones}
    for each in differences:
        picture = mine.get(each.ours)
        if each.kind != "differs" or each.detail:
            yield each
        elif picture is None and (ours.pictures is None or each.ours not in opened):
            yield _by_rows(ours, theirs, each)
        elif picture is None:
            yield Difference("unreadable", each.group, each.id, "the file cannot be read", each.ours, each.theirs)
        elif not has_digest(picture, by[each.theirs].as_py(), digests[each.theirs].as_py()):
            kind, detail = _explained(picture, other.get(each.theirs), ours, theirs, each)
            yield Difference(kind, each.group, each.id, detail, each.ours, each.theirs)


def has_digest(picture: Picture, by: str, digest: bytes) -> bool:
    """Whether an image has a digest that is over other than its bytes: over its pixels, or without some metadata."""
    try:
        if by == "pixels":
            return bytes.fromhex(images.pixel_sha256(decoded(picture))) == digest
        if by == "mended" and isinstance(picture, bytes):
            return hashlib.sha256(images.check_image(picture) or b"").digest() == digest
    except images.UnreadableImageError:
        pass
    return False


def _explained(
    picture: Picture, other: Picture | None, ours: Side, theirs: Side, difference: Difference
) -> tuple[Kind, str]:
    if other is not None:
        return explain(picture, other)
    if isinstance(picture, bytes):
        return explain_by_facts(image_facts(picture), *_header(theirs, difference.theirs))
    return "differs", "other pixels"


def _by_rows(ours: Side, theirs: Side, difference: Difference) -> Difference:
    """Explain a difference by what the rows of both sides say, without a picture."""
    width, height, channels = _header(ours, difference.ours)
    facts = Facts(b"", "", width, height, channels, 1)
    kind, detail = explain_by_facts(facts, *(_header(theirs, difference.theirs) if width else (0, 0, 0)))
    return Difference(kind, difference.group, difference.id, detail, difference.ours, difference.theirs)


def _header(side: Side, number: int) -> tuple[int, int, int]:
    if "width" not in side.rows.column_names:
        return 0, 0, 0
    width, height, channels = (side.rows[name][number].as_py() for name in ("width", "height", "channels"))
    return width, height, channels


def _places(values: pa.ChunkedArray, wanted: pa.ChunkedArray) -> Int64:
    """Return the position of each wanted text among some values; -1 where it is not."""
    found = pc.index_in(wanted, value_set=values.combine_chunks())
    filled: Int64 = pc.fill_null(found, -1).to_numpy().astype(np.int64)
    return filled


def likeliest(kinds: Counter[str], rows: int) -> str:
    """Say the likeliest reason for what differs between two sides, of which `rows` were compared."""
    total = sum(kinds.values())
    if not total:
        return ""
    kind, count = kinds.most_common(1)[0]
    if kinds["missing"] and kinds["extra"] and kind in ("missing", "extra"):
        return ""  # each has images that the other one lacks
    if count >= 0.9 * total and total >= 0.5 * rows:
        reasons = {
            "re-encoded": "one of them was saved again, as converters to records and Parquet do",
            "resized": "one of them has resized images",
            "differs": "one of them was saved again or resized, or is another edition",
            "other picture": "their rows were drawn from other images, or ids number other images",
            "missing": "one of them has a part of the other",
            "extra": "one of them has a part of the other",
            "wrong class": "one of them has another list of classes",
            "other bytes": "metadata or encoding differ, and no pixel does",
            "under another name": "the files were renamed",
            "grey": "one of them was saved in grey",
            "turned": "one of them was saved as its EXIF block turns it",
        }
        return reasons.get(kind, "")
    reasons = {
        "part of the picture": "one of them is the edition with blurred faces",
        "doubled": "files were copied over others",
        "truncated": "a copy or download was cut short",
        "unreadable": "a copy or download was cut short",
    }
    return reasons.get(kind, "") if count >= 0.5 * total else ""
