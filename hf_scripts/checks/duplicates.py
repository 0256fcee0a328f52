"""Checks the table of duplicates against the rows: listed pairs are noted; missing and wrong ones are problems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from builders.duplicates.distance import distance
from builders.duplicates.exact import IndexRow, exact_pairs, rows_of_pairs, searched_pairs
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

_PROBLEM = "duplicates"

# Distances are computed in float32, whose values below 1 are at most 6e-8 apart.
_ROUNDING = 1e-6


def compared_by(manifest: Manifest) -> dict[str, frozenset[By]]:
    """Return the methods other than byte digests by which each split's images were compared, by `config/split`."""
    methods: dict[str, set[By]] = {}
    for entry in manifest.duplicates.compared if manifest.duplicates is not None else ():
        if entry.by != "bytes":
            for key in (*entry.splits, *entry.others):
                methods.setdefault(key, set()).add(entry.by)
    return {key: frozenset(by) for key, by in methods.items()}


def check_duplicates(root: Path, manifest: Manifest, decoded: Mapping[str, Decoded], problems: Problems) -> list[str]:
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
    indexes = {key: root / entry.index.path for key, entry in manifest.by_key().items()}
    exact = [pair for keys in groups(manifest) for pair in exact_pairs({key: indexes[key] for key in keys})]
    complete = {  # a build compares all rows of a split, so a part of them cannot repeat its comparisons
        key: images for key, images in decoded.items() if len(images.digests) == read_row_count(indexes[key])
    }
    ways: dict[tuple[str, str], set[By]] = {}
    for by, *splits in listed_comparisons(table.compared):
        ways.setdefault((splits[0], splits[1]), set()).add(by)
    _check_form(manifest, table, pairs, problems)
    _check_pairs(manifest, indexes, table, pairs, ways, complete, problems)
    listed = {pair.place for pair in pairs}
    again = (*_equal_pixels(manifest, ways, indexes, complete), *_similar(manifest, ways, indexes, complete))
    for pair in sorted([*exact, *again]):
        exactly = ways.get(pair.splits, set()) - {SIMILARITY}
        if (pair.distance or exactly) and pair.place not in listed:
            listed.add(pair.place)  # by another comparison, too
            which = f"at distance {pair.distance:.6g}" if pair.distance else "equal"
            rows = f"{pair.id} of {pair.split} and {pair.other_id} of {pair.other_split}"
            problems.add("unlisted pair", f"{table.path}: lacks the pair {rows}, which are {which}")
    notes = [pairs_summary(pairs, manifest)] if pairs else []
    notes += filter(None, [pictures_of_several_classes(pairs), doubts(manifest), unsearched(manifest)])
    return [*notes, *_not_compared(manifest, ways)]


_Ways = Mapping[tuple[str, str], Set[By]]
"""The methods by which each two splits were compared."""


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
    manifest: Manifest,
    indexes: Mapping[str, Path],
    table: DuplicatesEntry,
    pairs: Sequence[Pair],
    ways: _Ways,
    decoded: Mapping[str, Decoded],
    problems: Problems,
) -> None:
    """Check that every pair has two rows of the release, and the distance that these have."""
    rows = rows_of_pairs(pairs, indexes.get)
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
        if len(present) == 2 and all(row.digest for row in present):
            by = ways.get(comparison("bytes", *pair.splits)[1:], frozenset())
            most = near_distance(manifest, pair.split)
            reason = _wrong_distance(pair, by, most, equal=present[0].digest == present[1].digest)
            images = [(decoded[row.side.split], row.number) for row in present if row.side.split in decoded]
            if not reason and len(images) == 2:
                reason = _other_images(pair, by, images)
            if reason:
                problems.add(_PROBLEM, f"{where}, {pair.id} and {pair.other_id}: {reason}")


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


def _other_images(pair: Pair, by: Set[str], images: Sequence[tuple[Decoded, int]]) -> str:
    """Return how far the decoded images of a pair are apart, if that is not its distance."""
    digests = [image.digests[number] for image, number in images]
    if digests[0] == digests[1] or "" in digests:  # one that does not decode is another problem
        return ""
    measured = "the pixels differ"
    if SIMILARITY in by:
        one, other = (image.pixels[number] for image, number in images)
        # The distance is not symmetric, and the table does not record which image was shifted.
        distances = [distance(one, other), distance(other, one)]
        if any(abs(value - pair.distance) <= _ROUNDING for value in distances):
            return ""
        measured = f"measured {' or '.join(f'{value:.6g}' for value in distances)}"
    return f"the distance is listed as {pair.distance:.6g}, but {measured}"


def _equal_pixels(
    manifest: Manifest, ways: _Ways, indexes: Mapping[str, Path], decoded: Mapping[str, Decoded]
) -> Iterator[Pair]:
    """Yield the pairs of rows whose decoded pixels are equal.

    In a large group of equal images, which pairs are listed depends on all splits that were compared with each other
    (`builders.duplicates.exact.ALL_PAIRS`), so such a group is skipped unless all of them are decoded.
    """
    compared = {splits for splits, by in ways.items() if "pixels" in by}
    for group in groups(manifest):
        keys = [key for key in group if any(key in splits for splits in compared)]
        if keys and all(key in decoded for key in keys):
            digests = {key: pa.chunked_array([decoded[key].digests], pa.string()) for key in keys}
            pairs = exact_pairs({key: indexes[key] for key in keys}, digests)
            yield from (pair for pair in pairs if pair.splits in compared)


def _similar(
    manifest: Manifest, ways: _Ways, indexes: Mapping[str, Path], decoded: Mapping[str, Decoded]
) -> Iterator[Pair]:
    """Yield the pairs of rows within the threshold whose bytes differ.

    A build shifts the images of one split over those of the reference, which is a training split, or else an
    in-distribution one; of two such splits the first by name.
    """
    entries = manifest.by_key()

    def order(key: str) -> tuple[bool, bool, str]:
        return not is_training(key, entries[key]), not entries[key].is_known, key

    for splits in sorted(splits for splits, by in ways.items() if SIMILARITY in by):
        if all(key in decoded for key in splits):
            from builders.duplicates.search import find_pairs  # SciPy, for which --help should not wait

            query, reference = sorted(splits, key=order, reverse=True)
            images = (decoded[key].pixels for key in (query, reference))
            threshold = near_distance(manifest, query) - _ROUNDING
            pairs = find_pairs(*images, threshold=threshold, advance=lambda _: None)
            yield from searched_pairs(pairs, (query, indexes[query]), (reference, indexes[reference]))


def _not_compared(manifest: Manifest, compared: Iterable[tuple[str, str]]) -> list[str]:
    lacking = [
        (first, second)
        for keys in groups(manifest)
        for number, first in enumerate(keys)
        for second in keys[number:]
        if (first, second) not in compared
    ]
    if not lacking:
        return []
    first, second = lacking[0]
    return [f"{len(lacking):,} pairs of splits were not compared for duplicates, such as {first} and {second}"]
