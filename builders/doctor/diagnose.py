"""Examines a copy: what it is, what is damaged, doubled, missing or extra, and how it differs from an index.

Tested by `tests/builders/doctor/test_doctor.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.doctor import editions
from builders.doctor.copies import FOLDER, Copy, Recognised, recognise
from builders.doctor.examine import Counts, examine, owner_counts
from builders.doctor.kinds import KINDS, Kind, Picture
from builders.doctor.scan import pictures, scan_copy
from builders.doctor.sides import Difference, Side, compare_sides, explained, likeliest, pair_rows
from builders.errors import BuildError
from builders.executors.base import Executor, Meter
from unknown_detection.words import first_few, quantity


@dataclass(frozen=True)
class Diagnosis:
    """What was found of a place: its counts, differences, remarks, and the sentence that says it all."""

    place: str
    titles: tuple[str, ...]
    counts: tuple[Counts, ...]
    differences: tuple[Difference, ...]
    remarks: tuple[str, ...]
    sentence: str
    whole: bool
    ours: Side = field(repr=False)
    theirs: Side | None = field(repr=False)
    copies: tuple[Copy, ...] = field(repr=False)
    facts: tuple[pa.Table, ...] = field(repr=False)

    @property
    def kinds(self) -> dict[Kind, int]:
        """The number of images of each kind of difference, in the order of `KINDS`."""
        return count_kinds(self.differences)


def count_kinds(differences: Sequence[Difference]) -> dict[Kind, int]:
    """Count the images of each kind of difference, in the order of `KINDS`."""
    counts = Counter[Kind]()
    for difference in differences:
        counts[difference.kind] += difference.images
    return {kind: counts[kind] for kind in KINDS if kind in counts}


def counted_kinds(kinds: Mapping[Kind, int]) -> str:
    """Say how many images are of each kind."""
    return ", ".join(f"{count:,} {'of other bytes' if kind == 'differs' else kind}" for kind, count in kinds.items())


def copy_side(name: str, copies: Sequence[Copy], facts: Sequence[pa.Table]) -> Side:
    """Return copies that were read as a side of a comparison."""
    tables, ends = [], [0]
    for copy, read in zip(copies, facts, strict=True):
        key = copy.source.key if copy.source else FOLDER
        ids = copy.rows["source_id"]
        tables.append(
            pa.table(
                {
                    "group": pc.cast(copy.rows["partition"], pa.string()),
                    "id": pc.binary_join_element_wise(key, ids, "/") if copy.source else ids,
                    "class_id": pc.cast(copy.rows["class_id"], pa.string()),
                    "by": pa.repeat("pixels" if copy.source and copy.source.arrays else "bytes", copy.rows.num_rows),
                    **{column: read[column] for column in read.column_names},
                }
            )
        )
        ends.append(ends[-1] + copy.rows.num_rows)

    def read_pictures(numbers: list[int]) -> Mapping[int, Picture]:
        found: dict[int, Picture] = {}
        for copy, first, stop in zip(copies, ends, ends[1:], strict=False):
            own = [number for number in numbers if first <= number < stop]
            for number, picture in zip(own, pictures(copy, [number - first for number in own]), strict=True):
                if picture is not None:
                    found[number] = picture
        return found

    keys = {copy.source.key if copy.source else FOLDER for copy in copies}
    about = {"source": ", ".join(copy.title for copy in copies)}
    about |= {f"licence of {copy.source.key}": copy.source.licence.name for copy in copies if copy.source}
    return Side(
        name,
        pa.concat_tables(tables).combine_chunks(),
        about,
        pictures=read_pictures,
        of_source=keys.pop() if len(keys) == 1 else "",
    )


def diagnose(
    place: Path,
    theirs: Side | None,
    executor: Executor,
    meter: Meter,
    *,
    quick: bool = False,
    kept: Path | None = None,
    name: str = "",
) -> Diagnosis:
    """Examine the copy in a folder or archive, with or without an index to compare it with.

    `kept` is a folder outside the copy for what an interrupted run has finished.
    """
    try:
        recognised = recognise(place)
    except BuildError as error:
        if others := editions.names_say(place, "")[0] if place.exists() else []:
            raise BuildError(f"{error} Its names are those of {first_few(others)}.") from error
        raise
    best = recognised.copies[0].source
    others, remarks = editions.names_say(place, best.key if best else "")
    facts = tuple(scan_copy(copy, executor, meter, quick=quick, kept=kept) for copy in recognised.copies)
    ours = copy_side(name or str(place), recognised.copies, facts)
    differences: list[Difference] = []
    counts: list[Counts] = []
    first = 0
    for copy, read in zip(recognised.copies, facts, strict=True):
        counts += owner_counts(copy)
        others += editions.counts_say(copy)
        found, said = examine(copy, read, first, theirs)
        differences, remarks = [*differences, *found], [*remarks, *said]
        first += copy.rows.num_rows
    if theirs is not None:
        against, said = _against(ours, theirs, recognised)
        differences, remarks = joined(differences, against), [*remarks, *said]
    refused = refused_parts(recognised)
    remarks += refused
    whole = not (differences or others or refused) and (best is not None or theirs is not None)
    return Diagnosis(
        name or str(place),
        tuple(copy.title for copy in recognised.copies),
        tuple(counts),
        tuple(differences),
        tuple(remarks),
        _sentence(recognised, differences, others, refused, theirs, whole=whole, quick=quick),
        whole,
        ours,
        theirs,
        recognised.copies,
        facts,
    )


def joined(own: Sequence[Difference], against: Sequence[Difference], absent: Kind = "missing") -> list[Difference]:
    """Join what a copy shows by itself with what an index shows, each image once.

    Damaged ones are known already, and an image in the folder of another class is not also absent: missing here, or
    extra in what is compared with this copy.
    """
    damaged = {each.ours for each in own if each.kind in ("truncated", "unreadable")}
    misplaced = {each.id.rpartition("/")[2] for each in own if each.kind == "wrong class"}
    misplaced |= {each.detail.rpartition("/")[2] for each in own if each.kind == "under another name"}
    others = [
        each
        for each in against
        if not (each.ours in damaged and each.kind in ("differs", "truncated", "unreadable"))
        and not (each.kind == absent and each.id.rpartition("/")[2] in misplaced)
    ]
    return [*own, *others]


def _against(ours: Side, theirs: Side, recognised: Recognised) -> tuple[list[Difference], list[str]]:
    """Compare copies with an index, whose rows of sources and partitions that are not here are left out."""
    sources = {copy.source.key: copy for copy in recognised.copies if copy.source is not None}
    ids = theirs.rows["id"].to_pylist()
    if not sources:
        return compare_sides(ours, theirs)[1], []
    seen: set[str] = set()
    kept, left = [], Counter[str]()
    for number, name in enumerate(ids):
        key, _, source_id = name.partition("/")
        copy = sources.get(key)
        if copy is None or name in seen:
            left[key] += copy is None
            continue
        here = {partition.name for partition in copy.partitions}
        absent = copy.source.expected().keys() - here if copy.source else set()
        part = theirs.rows["group"][number].as_py() if theirs.of_source else source_id.partition("/")[0]
        if part in absent:
            left[f"{key}, {part}"] += 1
            continue
        seen.add(name)
        kept.append(number)
    if not kept:
        raise BuildError(
            f"{theirs.name} has no rows of {', '.join(copy.title for copy in sources.values())}, so nothing was "
            "compared. Give an index of this dataset with --against."
        )
    numbers = np.arange(ours.rows.num_rows)
    found = pair_rows(ours, theirs, numbers, np.array(kept, np.int64), "", whole=bool(theirs.of_source))
    remarks = [
        f"{theirs.name} also has {quantity(rows, 'row')} of {part}, of which nothing is here"
        for part, rows in left.items()
        if rows
    ]
    return list(explained(ours, theirs, found)), remarks


def refused_parts(recognised: Recognised) -> list[str]:
    """Return the sentences of readers that found a partition altered; those about other sources say nothing."""
    best = recognised.copies[0].source
    here = [refusal for refusal in recognised.refusals if best is None or refusal.source is best]
    return list(dict.fromkeys(re.sub(r" with --\w[\w-]*", "", refusal.reason) for refusal in here))


def _sentence(
    recognised: Recognised,
    differences: Sequence[Difference],
    others: Sequence[str],
    refused: Sequence[str],
    theirs: Side | None,
    *,
    whole: bool,
    quick: bool,
) -> str:
    """Say in one sentence what was found."""
    images = sum(copy.rows.num_rows for copy in recognised.copies)
    titles = " and ".join(copy.title for copy in recognised.copies)
    parts = ", ".join(dict.fromkeys(p.name for copy in recognised.copies for p in copy.partitions if copy.source))
    what = f"{titles} ({parts})" if parts else titles
    if whole:
        if theirs is None:
            seen = (
                "names, sizes and headers alone were read" if quick else "no digest was compared; --against INDEX does"
            )
            return f"complete: {quantity(images, 'image')} of {what}, by the owner's counts; {seen}"
        how = ", of which names, sizes and headers were compared (--quick)" if quick else ""
        return f"complete: every one of {quantity(images, 'image')} of {what} as in {theirs.name}{how}"
    kinds = count_kinds(differences)
    counted = counted_kinds(kinds)
    if others:
        return f"not the dataset: {others[0]}{f'; {counted}' if counted else ''}"
    if refused:
        return f"not as the owner's: {refused[0]}"
    if not differences:
        return (
            f"unknown: {quantity(images, 'image')} of no dataset that is known here by names and folders; "
            "--against INDEX compares"
        )
    reason = likeliest(Counter({str(kind): count for kind, count in kinds.items()}), images) if theirs else ""
    other = f"differs from {theirs.name}" if theirs else "is not complete and sound"
    return f"{what} {other}: {counted}{f'. The likeliest reason: {reason}' if reason else ''}"
