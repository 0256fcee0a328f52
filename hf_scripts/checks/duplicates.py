"""Checks the table of duplicates against the rows: listed pairs are noted; missing and wrong ones are problems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from builders.duplicates.distance import distances
from builders.duplicates.exact import IndexRow, exact_pairs, rows_of_pairs, searched_pairs
from builders.duplicates.pixels import joined
from builders.duplicates.stored import Search, find_stored, long_search, steps
from builders.executors.base import Executor
from builders.release.duplicates import (
    NotPairsError,
    Pair,
    comparison,
    counted,
    doubtful_splits,
    doubts,
    groups,
    listed_comparisons,
    near_distance,
    pairs_summary,
    pictures_of_several_classes,
    read_pairs,
    unsearched,
)
from builders.release.entries import SIMILARITY, By, DuplicatesEntry, Manifest, is_training
from builders.storage.parquet import read_row_count
from hf_scripts.checks.images import Decoded
from hf_scripts.checks.problems import Problems
from unknown_detection.terminal.progress import bar, log

_PROBLEM = "duplicates"

# Distances are computed in float32, whose values below 1 are at most 6e-8 apart.
_ROUNDING = 1e-6

_MEASURED = 256
"""Pairs that are measured at a time: 1.5 MB of pixels."""


def compared_by(manifest: Manifest) -> dict[str, frozenset[By]]:
    """Return the methods other than byte digests by which each split's images were compared, by `config/split`."""
    methods: dict[str, set[By]] = {}
    for entry in manifest.duplicates.compared if manifest.duplicates is not None else ():
        if entry.by != "bytes":
            for key in (*entry.splits, *entry.others):
                methods.setdefault(key, set()).add(entry.by)
    return {key: frozenset(by) for key, by in methods.items()}


def check_duplicates(
    root: Path, manifest: Manifest, decoded: Mapping[str, Decoded], problems: Problems, executor: Executor
) -> list[str]:
    """Compare the table of duplicates with the rows. All indexes must be readable.

    `decoded`: the decoded images of splits that were compared by pixels or similarity. Such a comparison is only
    repeated where the images of both splits are given. Returns notes: the numbers of pairs, and the splits that were
    not compared.
    """
    table = manifest.duplicates
    if table is None:
        return ["there is no table of duplicates"]
    if not (root / table.path).is_file():
        return []  # reported by check_file
    try:
        pairs = read_pairs(root / table.path)
    except NotPairsError as error:
        problems.add(_PROBLEM, f"{table.path}: is not a table of duplicates: it {error.reason}")
        return []
    release = _release(root, manifest, table, decoded)
    _check_form(manifest, table, pairs, problems)
    similar = _similar(release, executor)
    _check_pairs(release, table, pairs, similar, problems)
    _check_unlisted(release, table, pairs, similar, problems)
    notes = [pairs_summary(pairs, manifest)] if pairs else []
    notes += filter(None, [pictures_of_several_classes(pairs), doubts(manifest), unsearched(manifest)])
    return [*notes, *_not_compared(release)]


class _Release(NamedTuple):
    """What pairs are checked against.

    Attributes:
        manifest: the release's.
        indexes: the index file of each split, by `config/split`.
        ways: the methods by which each two splits were compared.
        decoded: the images of the splits of which all were decoded. A build compares all rows of a split, so a part of
            them cannot repeat its comparisons.
    """

    manifest: Manifest
    indexes: Mapping[str, Path]
    ways: Mapping[tuple[str, str], Set[By]]
    decoded: Mapping[str, Decoded]


def _release(root: Path, manifest: Manifest, table: DuplicatesEntry, decoded: Mapping[str, Decoded]) -> _Release:
    indexes = {key: root / entry.index.path for key, entry in manifest.by_key().items()}
    ways: dict[tuple[str, str], set[By]] = {}
    for by, *splits in listed_comparisons(table.compared):
        ways.setdefault((splits[0], splits[1]), set()).add(by)
    complete = {key: images for key, images in decoded.items() if images.rows == read_row_count(indexes[key])}
    return _Release(manifest, indexes, ways, complete)


def _check_form(manifest: Manifest, table: DuplicatesEntry, pairs: Sequence[Pair], problems: Problems) -> None:
    """Check the number of pairs, their order, and the counts in the manifest."""
    path = table.path
    if len(pairs) != table.rows:
        problems.add(_PROBLEM, f"{path}: has {len(pairs):,} rows, not {table.rows:,} as manifest.json lists")
    if table.counts != counted(pairs):
        problems.add(_PROBLEM, f"{path}: the numbers of pairs of each two splits differ from manifest.json")
    if table.doubtful != doubtful_splits(pairs, manifest):
        problems.add(_PROBLEM, f"{path}: the splits with too many near pairs differ from manifest.json")
    for number, pair in enumerate(pairs):
        if (pair.split, pair.id) >= (pair.other_split, pair.other_id):
            sides = f"{pair.split} {pair.id} stands before {pair.other_split} {pair.other_id}"
            problems.add(_PROBLEM, f"{path} row {number}: not in the order of split and id: {sides}")
    for number, (previous, pair) in enumerate(pairwise(pairs), start=1):
        if previous.place >= pair.place:
            wrong = "repeats" if previous.place == pair.place else "sorts before"
            problems.add(_PROBLEM, f"{path} row {number}: the pair {wrong} the pair before it")


def _check_pairs(
    release: _Release, table: DuplicatesEntry, pairs: Sequence[Pair], similar: Sequence[Pair], problems: Problems
) -> None:
    """Check that every pair has two rows of the release, and the distance that these have."""
    rows = rows_of_pairs(pairs, release.indexes.get)
    wrong_distances = _wrong_distances(release, pairs, rows, similar)
    for number, pair in enumerate(pairs):
        where, present = f"{table.path} row {number}", list[IndexRow]()
        for side in pair.sides:
            row = rows.get((side.split, side.id))
            if row is None:
                problems.add(_PROBLEM, f"{where}: there is no row {side.id} in {side.split}")
                continue
            present.append(row)
            if row.side != side:
                wrong = f"{side.id} has role {side.role} and class {side.class_id}"
                actual = f"{row.side.role} and {row.side.class_id} in {side.split}"
                problems.add(_PROBLEM, f"{where}: {wrong}, but {actual}")
        if reason := wrong_distances.get(number):
            problems.add(_PROBLEM, f"{where}, {pair.id} and {pair.other_id}: {reason}")


def _check_unlisted(
    release: _Release, table: DuplicatesEntry, pairs: Sequence[Pair], similar: Sequence[Pair], problems: Problems
) -> None:
    """Check that no pair is missing that the comparisons find which the manifest lists."""
    listed, indexes = {pair.place for pair in pairs}, release.indexes
    exact = [pair for keys in groups(release.manifest) for pair in exact_pairs({key: indexes[key] for key in keys})]
    for pair in sorted([*exact, *_equal_pixels(release), *similar]):
        exactly = release.ways.get(pair.splits, set()) - {SIMILARITY}
        if (pair.distance or exactly) and pair.place not in listed:
            listed.add(pair.place)  # by another comparison, too
            which = f"at distance {pair.distance:.6g}" if pair.distance else "equal"
            rows = f"{pair.id} of {pair.split} and {pair.other_id} of {pair.other_split}"
            problems.add("unlisted pair", f"{table.path}: lacks the pair {rows}, which are {which}")


_Sides = list[tuple[Decoded, int]]
"""The decoded images of the splits of a pair's rows, and the numbers of the rows in them."""


def _wrong_distances(
    release: _Release, pairs: Sequence[Pair], rows: Mapping[tuple[str, str], IndexRow], similar: Iterable[Pair]
) -> dict[int, str]:
    """Return why listed pairs of two rows cannot have their distances, by the number of the pair.

    Of decoded images only those are measured whose distance the repeated search, `similar`, has not found again.
    """
    found: dict[tuple[str, str, str, str], list[float]] = {}
    for pair in similar:
        found.setdefault(pair.place, []).append(pair.distance)
    reasons, unconfirmed = dict[int, str](), dict[int, _Sides]()
    for number, pair in enumerate(pairs):
        present = [row for side in pair.sides if (row := rows.get((side.split, side.id))) is not None and row.digest]
        if len(present) < 2:
            continue
        by = release.ways.get(comparison("bytes", *pair.splits)[1:], frozenset())
        most = near_distance(release.manifest, pair.split)
        reason = _wrong_distance(pair, by, most, equal=present[0].digest == present[1].digest)
        sides = [(release.decoded[row.side.split], row.number) for row in present if row.side.split in release.decoded]
        if reason:
            reasons[number] = reason
        elif len(sides) == 2 and present[0].digest != present[1].digest and _have_other_pixels(sides):
            if SIMILARITY not in by:
                reasons[number] = f"the distance is listed as {pair.distance:.6g}, but the pixels differ"
            elif not _is_among(pair.distance, found.get(pair.place, ())):
                unconfirmed[number] = sides
    for number, measured in _measured(unconfirmed):
        listed = pairs[number].distance
        if not _is_among(listed, measured):
            values = " or ".join(f"{value:.6g}" for value in measured)
            reasons[number] = f"the distance is listed as {listed:.6g}, but measured {values}"
    return reasons


def _have_other_pixels(sides: _Sides) -> bool:
    """Whether both images decode, which otherwise is another problem, and are not known to have equal pixels."""
    if any(row in images.broken for images, row in sides):
        return False
    digests = [images.digests[row].as_py() for images, row in sides if len(images.digests)]
    return len(digests) < 2 or digests[0] != digests[1]


def _is_among(listed: float, distances: Iterable[float]) -> bool:
    # The least distance of other pixels is no greater than what rounding makes, and 0 says that pixels are equal.
    return any(bool(value) == bool(listed) and abs(value - listed) <= _ROUNDING for value in distances)


def _measured(pairs: Mapping[int, _Sides]) -> Iterator[tuple[int, list[float]]]:
    """Yield the distances of pairs, by their keys; not symmetric, and no table records which image was shifted."""
    remaining = iter(pairs)
    while keys := list(islice(remaining, _MEASURED)):
        ones, others = (
            joined(images.pixels.part(row, row + 1) for images, row in (pairs[key][side] for key in keys)).read()
            for side in (0, 1)
        )
        yield from zip(
            keys, np.stack([distances(ones, others), distances(others, ones)], axis=1).tolist(), strict=True
        )


def _wrong_distance(pair: Pair, by: Set[str], most: float, *, equal: bool) -> str:
    """Return why a pair with equal or other digests cannot have its distance; empty if it can.

    `by` are the methods used, and `most` is the greatest distance of near pairs.
    """
    if not by:
        return f"{pair.split} and {pair.other_split} were not compared"
    if equal:
        return "" if pair.distance == 0 else f"the distance is {pair.distance}, not 0, although the digests are equal"
    if not 0 <= pair.distance < float("inf"):
        return f"the distance is {pair.distance}, not a number of at least 0"
    if (SIMILARITY in by and pair.distance <= most + _ROUNDING) or (pair.distance == 0 and "pixels" in by):
        return ""
    return f"the digests differ, and no comparison of the two splits gives distance {pair.distance}"


def _equal_pixels(release: _Release) -> Iterator[Pair]:
    """Yield the pairs of rows whose decoded pixels are equal.

    In a large group of equal images, which pairs are listed depends on all splits that were compared with each other
    (`builders.duplicates.exact.ALL_PAIRS`), so such a group is skipped unless all of them are decoded.
    """
    compared = {splits for splits, by in release.ways.items() if "pixels" in by}
    for group in groups(release.manifest):
        keys = [key for key in group if any(key in splits for splits in compared)]
        if keys and all(key in release.decoded for key in keys):
            digests = {key: release.decoded[key].digests for key in keys}
            pairs = exact_pairs({key: release.indexes[key] for key in keys}, digests)
            yield from (pair for pair in pairs if pair.splits in compared)


def _similar(release: _Release, executor: Executor) -> list[Pair]:
    """Return the pairs of rows within the threshold whose bytes differ.

    A build shifts the images of one split over those of the reference, which is a training split, or else an
    in-distribution one; of two such splits the first by name.
    """
    entries = release.manifest.by_key()

    def order(key: str) -> tuple[bool, bool, str]:
        return not is_training(key, entries[key]), not entries[key].is_known, key

    compared = sorted(splits for splits, by in release.ways.items() if SIMILARITY in by)
    searched = [sorted(splits, key=order, reverse=True) for splits in compared if release.decoded.keys() >= {*splits}]
    if not searched:
        return []
    decoded, indexes = release.decoded, release.indexes
    searches = [
        Search(decoded[query].pixels, decoded[reference].pixels, near_distance(release.manifest, query) - _ROUNDING)
        for query, reference in searched
    ]
    if announced := long_search(searches):
        log(announced)
    with bar(steps(searches), "comparing") as shown:
        found = find_stored(searches, executor, lambda images, _: shown.update(images))
    return [
        pair
        for pairs, (query, reference) in zip(found, searched, strict=True)
        for pair in searched_pairs(pairs, (query, indexes[query]), (reference, indexes[reference]))
    ]


def _not_compared(release: _Release) -> list[str]:
    lacking = [
        (first, second)
        for keys in groups(release.manifest)
        for number, first in enumerate(keys)
        for second in keys[number:]
        if (first, second) not in release.ways
    ]
    if not lacking:
        return []
    first, second = lacking[0]
    return [f"{len(lacking):,} pairs of splits were not compared for duplicates, such as {first} and {second}"]
