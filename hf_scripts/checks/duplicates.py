"""Does the table of duplicates say what the rows say? A pair that it lists is a fact, one that it lacks is a fault."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import pairwise
from pathlib import Path

from builders.duplicates.distance import distance
from builders.duplicates.exact import exact_pairs, rows_named
from builders.errors import BuildError
from builders.release.duplicates import (
    Pair,
    Row,
    comparison,
    counted,
    groups,
    is_known_and_unknown,
    read_pairs,
    unfolded,
)
from builders.release.entries import METHODS, DuplicatesEntry, Manifest, is_training
from hf_scripts.checks.images import Picture
from hf_scripts.checks.problems import Problems

_PROBLEM = "duplicates"

# Distances are published as they were computed in float32, whose steps below 1 are at most 6e-8.
_ROUNDING = 1e-6


def named_rows(root: Path, manifest: Manifest) -> dict[str, frozenset[str]]:
    """The ids of a release's table of duplicates by split; none where there is no table that can be read."""
    named: dict[str, set[str]] = {}
    if manifest.duplicates is not None and (root / manifest.duplicates.path).is_file():
        with contextlib.suppress(BuildError):  # said where the table is checked
            for pair in read_pairs(root / manifest.duplicates.path):
                named.setdefault(pair.split, set()).add(pair.id)
                named.setdefault(pair.other_split, set()).add(pair.other_id)
    return {key: frozenset(ids) for key, ids in named.items()}


def check_duplicates(
    root: Path, manifest: Manifest, pictures: Mapping[tuple[str, str], Picture] | None = None
) -> tuple[Problems, list[str]]:
    """Compare the table of duplicates with the rows. All indexes must be readable.

    Args:
        root: the release.
        manifest: its manifest.
        pictures: decoded images by split and id, which pairs of other digests are compared with; a pair without both
            is not compared.

    Returns:
        The problems, and notes: how many pairs there are by pair of splits, and what was not compared. A release that
        was built before there was a table gets the notes alone.
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
        return problems, []  # said where files are checked
    try:
        pairs = read_pairs(root / table.path)
    except BuildError:
        problems.add(_PROBLEM, f"{table.path}: expected a table of duplicates, found another file")
        return problems, []
    _check_form(table, pairs, problems)
    _check_rows(indexes, table, pairs, problems)
    _check_missing(table, exact, pairs, problems)
    _check_pictures(table, pairs, pictures or {}, problems)
    return problems, [*_counts(manifest, pairs), *_not_compared(manifest, table)]


def _check_form(table: DuplicatesEntry, pairs: Sequence[Pair], problems: Problems) -> None:
    """Check number, order and counts."""
    path = table.path
    if len(pairs) != table.rows:
        problems.add(_PROBLEM, f"{path}: expected {table.rows:,} rows as in manifest.json, found {len(pairs):,}")
    if table.counts is not None and table.counts != counted(pairs):
        problems.add(_PROBLEM, f"{path}: expected as many pairs of each two splits as in manifest.json, found others")
    for number, pair in enumerate(pairs):
        if (pair.split, pair.id) >= (pair.other_split, pair.other_id):
            found = f"found {pair.split} {pair.id} before {pair.other_split} {pair.other_id}"
            problems.add(_PROBLEM, f"{path} row {number}: expected two rows in the order of split and id, {found}")
    for number, (one, other) in enumerate(pairwise(pairs), start=1):
        if one.place >= other.place:
            kind = "the pair before again" if one.place == other.place else "one that sorts before the last"
            problems.add(_PROBLEM, f"{path} row {number}: expected sorted pairs, each once, found {kind}")


def _check_rows(
    indexes: Mapping[str, Path], table: DuplicatesEntry, pairs: Sequence[Pair], problems: Problems
) -> None:
    """Check that every pair is of rows of the release, as they stand there, and fits what was compared."""
    wanted: dict[str, set[str]] = {}
    for pair in pairs:
        wanted.setdefault(pair.split, set()).add(pair.id)
        wanted.setdefault(pair.other_split, set()).add(pair.other_id)
    rows: dict[tuple[str, str], tuple[Row, str]] = {}
    for key in sorted(wanted.keys() & indexes.keys()):
        rows |= {(key, name): row for name, row in rows_named(indexes[key], key, wanted[key]).items()}
    compared = set(unfolded(table.compared))
    for number, pair in enumerate(pairs):
        where, digests = f"{table.path} row {number}", []
        for side in (
            Row(pair.split, pair.id, pair.role, pair.class_id),
            Row(pair.other_split, pair.other_id, pair.other_role, pair.other_class_id),
        ):
            row, digest = rows.get((side.split, side.id), (None, ""))
            digests.append(digest)
            if row is None:
                problems.add(_PROBLEM, f"{where}: expected rows of the release, found no {side.id} in {side.split}")
            elif row != side:
                expected = f"expected {row.id} with role {row.role} and class {row.class_id} as in {row.split}"
                problems.add(_PROBLEM, f"{where}: {expected}, found {side.role} and {side.class_id}")
        if "" not in digests:
            ways = {by for by in METHODS if comparison(by, *pair.splits) in compared}
            wrong = _wrong_distance(pair, ways, equal=digests[0] == digests[1])
            if wrong:
                problems.add(_PROBLEM, f"{where}, {pair.id} and {pair.other_id}: {wrong}")


def _wrong_distance(pair: Pair, ways: Set[str], *, equal: bool) -> str:
    """What is wrong with the distance of a pair whose digests are equal or not, in splits compared in some ways."""
    if not ways:
        return f"expected splits that were compared, found {pair.split} and {pair.other_split}"
    if equal:
        return "" if pair.distance == 0 else f"expected distance 0 of equal digests, found {pair.distance}"
    if not 0 <= pair.distance < float("inf"):
        return f"expected a distance of at least 0, found {pair.distance}"
    if "similarity" in ways or (pair.distance == 0 and "pixels" in ways):
        return ""
    return f"expected equal digests, found others, and distance {pair.distance}"


def _check_missing(table: DuplicatesEntry, exact: Iterable[Pair], pairs: Iterable[Pair], problems: Problems) -> None:
    """Check that every pair of equal digests is listed whose splits were compared."""
    compared = {(c.one, c.other) for c in unfolded(table.compared) if c.by != "similarity"}
    listed = {pair.place for pair in pairs}
    for pair in sorted(exact):
        if pair.splits in compared and pair.place not in listed:
            rows = f"{pair.id} of {pair.split} and {pair.other_id} of {pair.other_split}"
            problems.add("unlisted pair", f"{table.path}: expected the pair {rows}, which are equal")


def _check_pictures(
    table: DuplicatesEntry,
    pairs: Sequence[Pair],
    pictures: Mapping[tuple[str, str], Picture],
    problems: Problems,
) -> None:
    """Check the distance of every pair whose images are both decoded."""
    for number, pair in enumerate(pairs):
        one, other = pictures.get((pair.split, pair.id)), pictures.get((pair.other_split, pair.other_id))
        if one is None or other is None or one.sha256 == other.sha256:
            continue  # equal pixels, whose distance is looked at with the digests
        if one.pixels is None or other.pixels is None:
            found = ["other pixels"]
        else:
            # The measure moves one of the two; which of them the table does not say.
            found_distances = [distance(*both) for both in ((one.pixels, other.pixels), (other.pixels, one.pixels))]
            if any(abs(value - pair.distance) <= _ROUNDING for value in found_distances):
                continue
            found = [f"{value:.6g}" for value in found_distances]
        where = f"{table.path} row {number}, {pair.id} and {pair.other_id}"
        problems.add(_PROBLEM, f"{where}: expected distance {pair.distance:.6g}, found {' or '.join(found)}")


def _counts(manifest: Manifest, pairs: Sequence[Pair]) -> list[str]:
    """A sentence for each two splits that have pairs."""
    training = {key for key, entry in manifest.by_key().items() if is_training(key, entry)}
    known: dict[tuple[str, str], int] = {}
    for pair in pairs:
        known[pair.splits] = known.get(pair.splits, 0) + is_known_and_unknown(pair)
    notes = []
    for count in counted(pairs):
        one, other = count.split, count.other_split
        between = f"between {one} and {other}" if one != other else f"within {one}"
        facts = [f"{count.two_classes:,} under two classes"] * bool(count.two_classes)
        facts += [f"{count.two_roles:,} in two roles"] * bool(count.two_roles)
        facts += [f"{known[one, other]:,} known and unknown"] * bool(known[one, other])
        facts += ["all with an in-distribution training image"] * ((one in training) != (other in training))
        said = f" ({', '.join(facts)})" if facts else ""
        notes.append(f"{count.pairs:,} pair{'' if count.pairs == 1 else 's'} of duplicates {between}{said}")
    return notes


def _not_compared(manifest: Manifest, table: DuplicatesEntry) -> list[str]:
    compared = {(c.one, c.other) for c in unfolded(table.compared)}
    lacking = [
        (one, other)
        for keys in groups(manifest)
        for number, one in enumerate(keys)
        for other in keys[number:]
        if (one, other) not in compared
    ]
    if not lacking:
        return []
    one, other = lacking[0]
    return [f"{len(lacking):,} pairs of splits were not compared for duplicates, such as {one} and {other}"]
