"""Checks the table of duplicates against the rows: listed pairs are noted; missing and wrong ones are problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import pairwise
from pathlib import Path

from builders.duplicates.distance import distance
from builders.duplicates.exact import exact_pairs, rows_of_pairs
from builders.errors import BuildError
from builders.release.duplicates import (
    Pair,
    PairedRow,
    comparison,
    counted,
    groups,
    is_known_and_unknown,
    listed_comparisons,
    read_pairs,
)
from builders.release.entries import METHODS, SIMILARITY, By, DuplicatesEntry, Manifest
from builders.release.split_entries import is_training
from builders.storage.parquet import read_row_count
from hf_scripts.checks.images import Decoded
from hf_scripts.checks.problems import Problems
from hf_scripts.checks.recomparison import ROUNDING, Recomparison
from unknown_detection.words import quantity

_PROBLEM = "duplicates"


def compared_by(manifest: Manifest) -> dict[str, frozenset[By]]:
    """Return the methods other than byte digests by which each split's images were compared, by `config/split`."""
    methods: dict[str, set[By]] = {}
    for entry in manifest.duplicates.compared if manifest.duplicates is not None else ():
        if entry.by != "bytes":
            for key in (*entry.splits, *entry.others):
                methods.setdefault(key, set()).add(entry.by)
    return {key: frozenset(by) for key, by in methods.items()}


def check_duplicates(
    root: Path, manifest: Manifest, decoded: Mapping[str, Decoded] | None = None
) -> tuple[Problems, list[str]]:
    """Compare the table of duplicates with the rows. All indexes must be readable.

    Args:
        root: the release.
        manifest: its manifest.
        decoded: the decoded images of splits that were compared by pixels or similarity. Such a comparison is only
            repeated where the images of both splits are given.

    Returns:
        The problems, and notes: the numbers of pairs, and the splits that were not compared. A release from before
        there was a table only gets notes.
    """
    indexes = {key: root / entry.index.path for key, entry in manifest.by_key().items()}
    exact = [pair for keys in groups(manifest) for pair in exact_pairs({key: indexes[key] for key in keys})]
    table = manifest.duplicates
    if table is None:
        notes = _counts(manifest, exact)
        if notes:
            notes.append("there is no table of duplicates: this release was built before there was one")
        return Problems(), notes
    problems = Problems()
    if not (root / table.path).is_file():
        return problems, []  # reported by check_file
    try:
        pairs = read_pairs(root / table.path)
    except BuildError:
        problems.add(_PROBLEM, f"{table.path}: is not a table of duplicates")
        return problems, []
    _check_form(table, pairs, problems)
    _check_rows(indexes, table, pairs, problems)
    complete = {  # a build compares all rows of a split, so a part of them cannot repeat its comparisons
        key: images for key, images in (decoded or {}).items() if len(images.digests) == read_row_count(indexes[key])
    }
    recomparison = Recomparison(manifest, table, indexes, complete)
    _check_missing(table, [*exact, *recomparison.equal_pixels(), *recomparison.similar()], pairs, problems)
    _check_distances(table, pairs, recomparison, problems)
    return problems, [*_counts(manifest, pairs), *_not_compared(manifest, table)]


def _check_form(table: DuplicatesEntry, pairs: Sequence[Pair], problems: Problems) -> None:
    """Check the number of pairs, their order, and the counts in the manifest."""
    path = table.path
    if len(pairs) != table.rows:
        problems.add(_PROBLEM, f"{path}: has {len(pairs):,} rows, not {table.rows:,} as manifest.json lists")
    if table.counts is not None and table.counts != counted(pairs):
        problems.add(_PROBLEM, f"{path}: the numbers of pairs of each two splits differ from manifest.json")
    for number, pair in enumerate(pairs):
        if (pair.split, pair.id) >= (pair.other_split, pair.other_id):
            sides = f"{pair.split} {pair.id} stands before {pair.other_split} {pair.other_id}"
            problems.add(_PROBLEM, f"{path} row {number}: not in the order of split and id: {sides}")
    for number, (previous, pair) in enumerate(pairwise(pairs), start=1):
        if previous.place >= pair.place:
            wrong = "repeats" if previous.place == pair.place else "sorts before"
            problems.add(_PROBLEM, f"{path} row {number}: the pair {wrong} the pair before it")


def _check_rows(
    indexes: Mapping[str, Path], table: DuplicatesEntry, pairs: Sequence[Pair], problems: Problems
) -> None:
    """Check that every pair has two rows of the release, from splits that were compared, and a possible distance."""
    rows = rows_of_pairs(pairs, indexes.get)
    compared = set(listed_comparisons(table.compared))
    for number, pair in enumerate(pairs):
        where, digests = f"{table.path} row {number}", []
        for side in (
            PairedRow(pair.split, pair.id, pair.role, pair.class_id),
            PairedRow(pair.other_split, pair.other_id, pair.other_role, pair.other_class_id),
        ):
            row, digest = rows.get((side.split, side.id), (None, ""))
            digests.append(digest)
            if row is None:
                problems.add(_PROBLEM, f"{where}: there is no row {side.id} in {side.split}")
            elif row != side:
                wrong = f"{row.id} has role {side.role} and class {side.class_id}"
                problems.add(_PROBLEM, f"{where}: {wrong}, but {row.role} and {row.class_id} in {row.split}")
        if "" not in digests:
            ways = {by for by in METHODS if comparison(by, *pair.splits) in compared}
            reason = _wrong_distance(pair, ways, equal=digests[0] == digests[1])
            if reason:
                problems.add(_PROBLEM, f"{where}, {pair.id} and {pair.other_id}: {reason}")


def _wrong_distance(pair: Pair, ways: Set[str], *, equal: bool) -> str:
    """Return why a pair with equal or other digests cannot have its distance, by the methods used; empty if it can."""
    if not ways:
        return f"{pair.split} and {pair.other_split} were not compared"
    if equal:
        return "" if pair.distance == 0 else f"the distance is {pair.distance}, not 0, although the digests are equal"
    if not 0 <= pair.distance < float("inf"):
        return f"the distance is {pair.distance}, not a number of at least 0"
    if SIMILARITY in ways or (pair.distance == 0 and "pixels" in ways):
        return ""
    return f"the digests differ, and no comparison of the two splits gives distance {pair.distance}"


def _check_missing(
    table: DuplicatesEntry, expected: Iterable[Pair], pairs: Iterable[Pair], problems: Problems
) -> None:
    """Check that every expected pair is listed, if its splits were compared by a method that finds it."""
    compared = {(c.one, c.other) for c in listed_comparisons(table.compared)}
    exactly = {(c.one, c.other) for c in listed_comparisons(table.compared) if c.by != SIMILARITY}
    listed = {pair.place for pair in pairs}
    for pair in sorted(expected):
        if pair.splits in (compared if pair.distance else exactly) and pair.place not in listed:
            listed.add(pair.place)  # by another comparison, too
            rows = f"{pair.id} of {pair.split} and {pair.other_id} of {pair.other_split}"
            which = f"at distance {pair.distance:.6g}" if pair.distance else "equal"
            problems.add("unlisted pair", f"{table.path}: lacks the pair {rows}, which are {which}")


def _check_distances(
    table: DuplicatesEntry, pairs: Sequence[Pair], recomparison: Recomparison, problems: Problems
) -> None:
    """Check the distance of every pair with both images decoded."""
    compared = set(listed_comparisons(table.compared))
    for number, pair, (pixels, digest), (other_pixels, other_digest) in recomparison.images_of(pairs):
        if digest == other_digest:
            continue  # the distance of equal pixels is checked with the digests
        if comparison(SIMILARITY, *pair.splits) in compared:
            # The distance is not symmetric, and the table does not record which image was shifted.
            distances = [distance(pixels, other_pixels), distance(other_pixels, pixels)]
            if any(abs(value - pair.distance) <= ROUNDING for value in distances):
                continue
            measured = f"measured {' or '.join(f'{value:.6g}' for value in distances)}"
        else:
            measured = "the pixels differ"
        where = f"{table.path} row {number}, {pair.id} and {pair.other_id}"
        problems.add(_PROBLEM, f"{where}: the distance is listed as {pair.distance:.6g}, but {measured}")


def _counts(manifest: Manifest, pairs: Sequence[Pair]) -> list[str]:
    """Return one note on all pairs: their number, how many differ in class or role, and where the most are."""
    if not pairs:
        return []
    training = {key for key, entry in manifest.by_key().items() if is_training(key, entry)}
    with_training = sum((pair.split in training) != (pair.other_split in training) for pair in pairs)
    counts = counted(pairs)
    numbers = {
        "under two classes": sum(count.two_classes for count in counts),
        "in two roles": sum(count.two_roles for count in counts),
        "known and unknown": sum(map(is_known_and_unknown, pairs)),
        "with an in-distribution training image": with_training,
    }
    facts = ", ".join(f"{number:,} {relation}" for relation, number in numbers.items() if number)
    most = max(counts, key=lambda count: count.pairs)
    first, second = most.split, most.other_split
    where = f"between {first} and {second}" if first != second else f"within {first}"
    if len(counts) > 1:
        where = f"in {len(counts):,} pairings of splits, {most.pairs:,} of them {where}"
    return [f"{quantity(len(pairs), 'pair')} of duplicates {where}{f' ({facts})' if facts else ''}"]


def _not_compared(manifest: Manifest, table: DuplicatesEntry) -> list[str]:
    compared = {(c.one, c.other) for c in listed_comparisons(table.compared)}
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
