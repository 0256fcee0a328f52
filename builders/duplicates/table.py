"""Assembles the table of duplicates of a release from its index files, from pairs found by pixels, and earlier tables.

Equal content digests are searched for in the index files of all splits, whenever they were built. Pairs that need
pixels (`builders.duplicates.by_pixels`) are searched for again, or carried over from the table of an earlier run or of
a published release while the rows of both splits are unchanged. So the table does not depend on the order of runs.

Tested by `tests/builders/duplicates/test_table.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import astuple

from builders.duplicates.exact import exact_pairs, rows_of_pairs
from builders.release.duplicates import (
    Comparison,
    Pair,
    compared_entries,
    comparison,
    counted,
    doubtful_splits,
    groups,
    listed_comparisons,
    near_distance,
    pair_of,
    read_pairs,
    write_pairs,
)
from builders.release.entries import METHODS, SIMILARITY, DuplicatesEntry, Manifest
from builders.release.layout import Layout
from builders.release.manifest import file_entry

if TYPE_CHECKING:
    pass

IndexPath = Callable[[str], Path]
"""Returns a readable path of the index file of a split (`config/split`)."""


class PairTable(NamedTuple):
    """Pairs of rows, in no particular order, and the comparisons that found them."""

    pairs: Sequence[Pair] = ()
    comparisons: Set[Comparison] = frozenset()


NOTHING = PairTable()


class EarlierTable(NamedTuple):
    """A table of an earlier run or of a published release, and the manifest of the rows that it compares."""

    manifest: Manifest
    table: PairTable

    def valid(self, manifest: Manifest) -> set[Comparison]:
        """Return those comparisons of the earlier table that hold for a manifest.

        Both splits have the same rows there, and near pairs the same greatest distance.
        """
        digests = {key: entry.digest for key, entry in manifest.by_key().items()}
        unchanged = {key for key, entry in self.manifest.by_key().items() if digests.get(key) == entry.digest}
        as_near = {key for key in unchanged if near_distance(self.manifest, key) == near_distance(manifest, key)}
        valid = {by: as_near if by == SIMILARITY else unchanged for by in METHODS}
        return {c for c in self.table.comparisons if {c.one, c.other} <= valid[c.by]}

    def pairs_found_by(self, comparisons: Set[Comparison]) -> Iterator[Pair]:
        """Yield those pairs of the earlier table that the given comparisons find."""
        for pair in self.table.pairs:
            methods = [by for by in METHODS if (by == SIMILARITY) == (pair.distance > 0)]
            if any(comparison(by, *pair.splits) in comparisons for by in methods):
                yield pair


def read_earlier(manifest: Manifest, table: Path) -> EarlierTable:
    """Read a release's table of duplicates for use in another; `table` is read only if the manifest lists it."""
    if manifest.duplicates is None:
        return EarlierTable(manifest, NOTHING)
    pairs = read_pairs(table, manifest.duplicates.sha256)
    return EarlierTable(manifest, PairTable(pairs, {*listed_comparisons(manifest.duplicates.compared)}))


def complete(
    manifest: Manifest,
    index: IndexPath,
    earlier_tables: Sequence[EarlierTable] = (),
    pixel_pairs: PairTable = NOTHING,
    *,
    trusting: bool = False,
) -> PairTable:
    """Assemble the table of a release, of pairs that pixels have found, those with equal digests, and earlier ones.

    Equal content digests are searched for again. `trusting` does not read the index files of splits that one origin
    has already compared with each other.
    """
    trusted = earlier_tables if trusting else ()
    equal = [_equal_digests(manifest, keys, index, trusted) for keys in groups(manifest)]
    found = joined([pixel_pairs, *equal])
    return joined([found, *(_unchanged(earlier, manifest, found.comparisons, index) for earlier in earlier_tables)])


def joined(tables: Sequence[PairTable]) -> PairTable:
    """Put tables together; a pair of several is there as often."""
    pairs = [pair for table in tables for pair in table.pairs]
    return PairTable(pairs, set[Comparison]().union(*(table.comparisons for table in tables)))


def _equal_digests(
    manifest: Manifest, keys: Sequence[str], index: IndexPath, trusted: Sequence[EarlierTable]
) -> PairTable:
    """Compare splits by content digests, or take what a trusted table says if it compared them all."""
    # Generated images have digests over pixels, and others over bytes.
    generated = {key for key in keys if manifest.by_key()[key].made is not None}
    by_digest = {
        comparison("pixels" if generated.issuperset(splits) else "bytes", *splits)
        for splits in itertools.combinations_with_replacement(keys, 2)
    }
    for earlier in trusted:
        if by_digest <= (valid := earlier.valid(manifest)):
            inside = {c for c in valid if {c.one, c.other} <= set(keys)}
            return PairTable([*earlier.pairs_found_by(inside)], inside)
    return PairTable(exact_pairs({key: index(key) for key in keys}), by_digest)


def _unchanged(earlier: EarlierTable, manifest: Manifest, repeated: Set[Comparison], index: IndexPath) -> PairTable:
    """Take over the near pairs of an earlier table whose splits have not changed, but of comparisons made again.

    Their rows have the roles and classes that they have now.
    """
    staying = earlier.valid(manifest) - repeated
    kept = [*earlier.pairs_found_by(staying)]
    rows = rows_of_pairs(kept, index)
    pairs = []
    for pair in kept:
        row, other_row = (rows.get((side.split, side.id)) for side in pair.sides)
        if row and other_row and row.digest != other_row.digest:
            pairs.append(pair_of(row.side, other_row.side, pair.distance))
    return PairTable(pairs, staying)


def write_duplicates(
    layout: Layout, manifest: Manifest, table: PairTable, equal_files: Sequence[Path] = ()
) -> DuplicatesEntry:
    """Write a release's table, with the bytes of a file of equal pairs if there is one; returns its manifest entry."""
    pairs = write_pairs(layout.duplicates, table.pairs)
    # Another version of pyarrow writes the same pairs with other bytes, which would be an empty change.
    if equal := next((path for path in equal_files if read_pairs(path) == pairs), None):
        layout.duplicates.write_bytes(equal.read_bytes())
    return DuplicatesEntry(
        *astuple(file_entry(layout, layout.duplicates)),
        rows=len(pairs),
        compared=compared_entries(table.comparisons),
        counts=counted(pairs),
        doubtful=doubtful_splits(pairs, manifest),
    )
