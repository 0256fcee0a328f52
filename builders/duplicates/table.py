"""Assembles the table of duplicates of a release from its index files, its pixels and earlier tables.

Equal content digests are searched for in the index files of all splits, whenever they were built. Pairs that need
pixels (near-duplicates, and equal pixels in other bytes) are searched for in the release folder and its state, so that
a split of an earlier run is compared without its source; or they are carried over from the table of an earlier run or
of a published release while the rows of both splits are unchanged. So the table does not depend on the order of runs.

Tested by `tests/builders/duplicates/test_table.py` and `tests/builders/duplicates/test_table_of_pixels.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from msgspec.structs import astuple

from builders.duplicates.exact import DIGEST, exact_pairs, index_digests, rows_of_pairs, searched_pairs
from builders.duplicates.kept import kept_pixels, pixel_tasks
from builders.executors.base import Executor, Meter
from builders.release.digests import rows_digest
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
from builders.release.entries import METHODS, SIMILARITY, DuplicatesEntry, Manifest, SplitEntry
from builders.release.layout import Layout
from builders.release.manifest import file_entry
from builders.release.schema import PIXEL_DIGEST
from builders.storage.parquet import read_parquet, read_schema

if TYPE_CHECKING:
    from builders.declare.benchmark import Benchmark

IndexPath = Callable[[str], Path]
"""Returns a readable path of the index file of a split (`config/split`)."""


class PairTable(NamedTuple):
    """Pairs of rows, in no particular order, and the comparisons that found them."""

    pairs: Sequence[Pair] = ()
    comparisons: Set[Comparison] = frozenset()


_NOTHING = PairTable()


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
        return EarlierTable(manifest, _NOTHING)
    return EarlierTable(manifest, PairTable(read_pairs(table), {*listed_comparisons(manifest.duplicates.compared)}))


def complete(
    manifest: Manifest,
    index: IndexPath,
    earlier_tables: Sequence[EarlierTable] = (),
    pixel_pairs: PairTable = _NOTHING,
    *,
    trusting: bool = False,
) -> PairTable:
    """Assemble the table of a release.

    Equal content digests are searched for again. Of earlier tables, of this release or of others that its splits come
    from, those pairs are kept that have different digests, whose rows still exist, and whose splits have not changed.
    `trusting` does not read the index files of splits that one origin has already compared with each other.
    """
    entries = manifest.by_key()
    pairs, compared = list(pixel_pairs.pairs), set(pixel_pairs.comparisons)
    for keys in groups(manifest):
        # Generated images have digests over pixels, and others over bytes.
        generated = {key for key in keys if entries[key].made is not None}
        by_digest = {
            comparison("pixels" if generated.issuperset(splits) else "bytes", *splits)
            for splits in itertools.combinations_with_replacement(keys, 2)
        }
        trusted = (earlier for earlier in earlier_tables if trusting and by_digest <= earlier.valid(manifest))
        reused = next(trusted, None)
        if reused is None:
            pairs += exact_pairs({key: index(key) for key in keys})
            compared |= by_digest
        else:
            inside = {c for c in reused.valid(manifest) if {c.one, c.other} <= set(keys)}
            pairs += reused.pairs_found_by(inside)
            compared |= inside
    comparisons = set(compared)
    for earlier in earlier_tables:
        staying = earlier.valid(manifest) - compared
        kept = [*earlier.pairs_found_by(staying)]
        rows = rows_of_pairs(kept, index)
        for pair in kept:
            row, other_row = (rows.get((side.split, side.id)) for side in pair.sides)
            if row and other_row and row.digest != other_row.digest:
                pairs.append(pair_of(row.side, other_row.side, pair.distance))  # with their current roles and classes
        comparisons |= staying
    return PairTable(pairs, comparisons)


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


# Comparing by pixels


def compare_pixels(
    layout: Layout,
    manifest: Manifest,
    benchmark: Benchmark,
    executor: Executor,
    meter: Meter,
    earlier_tables: Sequence[EarlierTable] = (),
) -> PairTable:
    """Compare the splits of a release by pixels, as far as its folder has pixels.

    The declaration names the splits that are searched for near-duplicates; a search whose comparison is valid in an
    earlier table is skipped.
    """
    known = set[Comparison]().union(*(earlier.valid(manifest) for earlier in earlier_tables))
    known_splits = {key for key, entry in manifest.by_key().items() if entry.is_known}
    wanted = [
        splits
        for splits in compared_by_similarity(benchmark, manifest.by_key(), known_splits)
        if comparison(SIMILARITY, *splits) not in known
    ]
    near, equal = _near_duplicates(layout, manifest, wanted, executor, meter), _equal_pixels(layout, manifest)
    return PairTable((*near.pairs, *equal.pairs), near.comparisons | equal.comparisons)


def _near_duplicates(
    layout: Layout, manifest: Manifest, wanted: Sequence[tuple[str, str]], executor: Executor, meter: Meter
) -> PairTable:
    entries, readable = manifest.by_key(), list[tuple[str, str]]()
    kept = {key: kept_pixels(layout, key, entries[key]) for key in sorted({*itertools.chain(*wanted)})}
    for key, of in wanted:
        if all(kept[name] is not None or _has_shards(layout, entries[name]) for name in (key, of)):
            readable.append((key, of))
        else:
            where = f"the pixels of one of them are not in {layout.root}"
            meter.note(f"{key} is not compared with the images of {of}: {where}")
    if not readable:
        return _NOTHING
    from builders.duplicates.stored import Search, find_stored, long_search, steps  # only who searches imports SciPy

    lacking = [key for key in sorted({*itertools.chain(*readable)}) if kept[key] is None]
    if lacking:
        tasks = [task for key in lacking for task in pixel_tasks(layout, key, entries[key])]
        with meter.step(
            "reading images", sum(sum(len(group.rows) for group in task.groups) for task in tasks)
        ) as advance:
            executor.run(tasks, advance)
        kept |= {key: kept_pixels(layout, key, entries[key]) for key in lacking}
    # The tasks have read what was lacking.
    pixels = {key: files for key, files in kept.items() if files is not None}
    searches = [Search(pixels[key], pixels[of], near_distance(manifest, key)) for key, of in readable]
    if told := long_search(searches):
        meter.note(told)
    pairs: list[Pair] = []
    with meter.step("searching for near-duplicates", steps(searches)) as advance:
        found = find_stored(searches, executor, advance)
    for (key, of), numbers in zip(readable, found, strict=True):
        pairs += searched_pairs(numbers, (key, layout.index(key)), (of, layout.index(of)))
    return PairTable(pairs, {comparison(SIMILARITY, *keys) for keys in readable})


def _equal_pixels(layout: Layout, manifest: Manifest) -> PairTable:
    """Compare decoded (`--check decode`) and generated images by digests over pixels."""
    entries, pairs, comparisons = manifest.by_key(), list[Pair](), set[Comparison]()
    for keys in groups(manifest):
        digests = {key: column for key in keys if (column := _decoded(layout, key, entries[key])) is not None}
        if digests:
            digests |= {key: index_digests(layout.index(key)) for key in keys if entries[key].made is not None}
        pairs += exact_pairs({key: layout.index(key) for key in sorted(digests)}, digests)
        comparisons |= {comparison("pixels", split, other_split) for split in digests for other_split in digests}
    return PairTable(pairs, comparisons)


def _decoded(layout: Layout, key: str, entry: SplitEntry) -> pa.ChunkedArray | None:
    """Return digests over the pixels of a split's rows; None if not all were decoded, or for other rows."""
    config, _, name = key.partition("/")
    parts = sorted((layout.state / "parts" / config).glob(f"{name}-?????-of-?????.parquet"))
    if not parts or any(PIXEL_DIGEST not in read_schema(part).names for part in parts):
        return None
    columns = ["id", "label", "role", DIGEST, PIXEL_DIGEST]
    rows = pa.concat_tables(read_parquet(part, columns) for part in parts)
    return rows[PIXEL_DIGEST] if rows_digest(rows) == entry.digest else None


def _has_shards(layout: Layout, entry: SplitEntry) -> bool:
    return bool(entry.data) and all((layout.root / file.path).is_file() for file in entry.data)


def compared_by_similarity(
    benchmark: Benchmark, keys: Collection[str], known: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of splits (`config/split`) that are compared: the one that is searched, and the other one.

    Each split of a config with `duplicates_of` is compared with the training images, and with every split of the
    config that has in-distribution rows alone (`known`), itself included. The distance is not symmetric; of two such
    splits the first by name is the one that is searched, so that whoever compares them again knows the direction
    (`hf_scripts.checks.duplicates`).
    """
    for config in benchmark.configs:
        if not config.duplicates_of:
            continue
        config_keys = [key for key in keys if key.startswith(f"{config.name}/")]
        yielded: set[frozenset[str]] = set()
        for of in [config.duplicates_of, *sorted(key for key in config_keys if key in known)]:
            for key in config_keys:
                if of in keys and frozenset((key, of)) not in yielded:
                    yielded.add(frozenset((key, of)))
                    yield key, of
