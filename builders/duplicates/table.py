"""Assembles the table of duplicates of a release from its index files and from earlier tables.

Equal content digests are searched for in the index files of all splits, whenever they were built. Pairs that need
pixels (equal pixels of different bytes, near-duplicates) come from the build, or are carried over from the table of an
earlier run or of a published release while the rows of both splits are unchanged. So the table does not depend on the
order of runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from builders.duplicates.exact import exact_pairs, rows_of_pairs
from builders.release.duplicates import (
    Comparison,
    Pair,
    compared_entries,
    comparison,
    counted,
    groups,
    listed_comparisons,
    pair_of,
    read_pairs,
    write_pairs,
)
from builders.release.entries import DuplicatesEntry, Manifest
from builders.release.layout import Layout
from builders.release.manifest import file_entry

IndexPath = Callable[[str], Path]
"""Returns a readable path of the index file of a split (`config/split`)."""


@dataclass(frozen=True)
class PairTable:
    """Pairs of rows, in no particular order, and the comparisons that found them."""

    pairs: tuple[Pair, ...] = ()
    comparisons: frozenset[Comparison] = frozenset()


_NOTHING = PairTable()


@dataclass(frozen=True)
class Origin:
    """An earlier table, and the manifest of the rows that it compares."""

    manifest: Manifest
    table: PairTable


def origin(manifest: Manifest, table: Path) -> Origin:
    """Read a release's table, to be carried over; `table` is read only if the manifest lists it.

    Raises:
        BuildError: the file is not a table of duplicates.
    """
    if manifest.duplicates is None:
        return Origin(manifest, _NOTHING)
    compared = frozenset(listed_comparisons(manifest.duplicates.compared))
    return Origin(manifest, PairTable(tuple(read_pairs(table)), compared))


def carried(origins: Iterable[Origin], manifest: Manifest) -> frozenset[Comparison]:
    """Return the comparisons of earlier tables that are valid for a manifest: of splits that have the same rows."""
    digests = {(key, entry.digest) for key, entry in manifest.by_key().items()}
    comparisons: set[Comparison] = set()
    for earlier in origins:
        unchanged = {key for key, entry in earlier.manifest.by_key().items() if (key, entry.digest) in digests}
        comparisons.update(c for c in earlier.table.comparisons if {c.one, c.other} <= unchanged)
    return frozenset(comparisons)


def complete(
    manifest: Manifest,
    index: IndexPath,
    origins: Sequence[Origin] = (),
    pixel_pairs: PairTable = _NOTHING,
    *,
    trusting: bool = False,
) -> PairTable:
    """Assemble the table of a release.

    Equal content digests are searched for again. Of earlier tables, of this release or of others that its splits come
    from, those pairs are kept that have different digests, whose rows still exist, and whose splits have not changed.
    `trusting` does not read the index files of splits that one origin has already compared with each other.
    """
    pairs, compared = list(pixel_pairs.pairs), set(pixel_pairs.comparisons)
    for keys in groups(manifest):
        by_digest = digest_comparisons(manifest, keys)
        reused = next((o for o in origins if trusting and by_digest <= carried([o], manifest)), None)
        if reused is None:
            pairs += exact_pairs({key: index(key) for key in keys})
            compared |= by_digest
        else:
            pairs += [pair for pair in reused.table.pairs if set(pair.splits) <= set(keys)]
            compared |= {c for c in reused.table.comparisons if {c.one, c.other} <= set(keys)}
    comparisons = set(compared)
    for earlier in origins:
        staying = carried([earlier], manifest) - compared
        splits = {(c.one, c.other) for c in staying}
        pairs += _still_there([pair for pair in earlier.table.pairs if pair.splits in splits], index)
        comparisons |= staying
    return PairTable(tuple(pairs), frozenset(comparisons))


def digest_comparisons(manifest: Manifest, keys: Sequence[str]) -> set[Comparison]:
    """Return the comparisons by content digest: of pixels if both splits have generated images, else of bytes."""
    entries = manifest.by_key()
    generated = {key for key in keys if entries[key].made is not None}
    return {
        comparison("pixels" if generated.issuperset(splits) else "bytes", *splits)
        for splits in itertools.combinations_with_replacement(keys, 2)
    }


def write_duplicates(layout: Layout, table: PairTable) -> DuplicatesEntry:
    """Write a release's table; returns its entry in the manifest."""
    write_pairs(layout.duplicates, table.pairs)
    return table_entry(layout, table)


def table_entry(layout: Layout, table: PairTable) -> DuplicatesEntry:
    """Return the manifest's entry of the table on disk."""
    pairs = read_pairs(layout.duplicates)
    file = file_entry(layout, layout.duplicates)
    return DuplicatesEntry(
        path=file.path,
        size=file.size,
        sha256=file.sha256,
        rows=len(pairs),
        compared=compared_entries(table.comparisons),
        counts=counted(pairs),
    )


def _still_there(pairs: Sequence[Pair], index: IndexPath) -> list[Pair]:
    """Return the pairs whose rows still exist and differ in digest, with their current roles and classes."""
    rows = rows_of_pairs(pairs, index)
    existing = []
    for pair in pairs:
        row, other_row = rows.get((pair.split, pair.id)), rows.get((pair.other_split, pair.other_id))
        if row and other_row and row[1] != other_row[1]:
            existing.append(pair_of(row[0], other_row[0], pair.distance))
    return existing
