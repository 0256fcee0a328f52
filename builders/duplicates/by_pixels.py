"""Compares the splits of a release by their pixels: near-duplicates, and equal pixels in other bytes.

What is compared lies in the release folder and its state, so a split of an earlier run is compared without its source.

Tested by `tests/builders/duplicates/test_table_of_pixels.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from builders.duplicates.exact import DIGEST, exact_pairs, index_digests, searched_pairs
from builders.duplicates.kept import kept_pixels, pixel_tasks
from builders.duplicates.pixels import Pixels
from builders.duplicates.stored import Search, find_stored, long_search, steps
from builders.duplicates.table import NOTHING, EarlierTable, PairTable, joined
from builders.executors.base import Executor, Meter
from builders.release.digests import rows_digest
from builders.release.duplicates import Comparison, Pair, comparison, groups, near_distance
from builders.release.entries import SIMILARITY, Manifest, SplitEntry
from builders.release.layout import Layout
from builders.release.schema import PIXEL_DIGEST
from builders.storage.kept_tables import find_kept

if TYPE_CHECKING:
    from builders.declare.benchmark import Benchmark


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
    return joined([_near_duplicates(layout, manifest, wanted, executor, meter), _equal_pixels(layout, manifest)])


def _near_duplicates(
    layout: Layout, manifest: Manifest, wanted: Sequence[tuple[str, str]], executor: Executor, meter: Meter
) -> PairTable:
    """Search each first split's images in the second's, for those pairs of splits whose images are both here."""
    entries = manifest.by_key()
    kept = {key: kept_pixels(layout, key, entries[key]) for key in sorted({*itertools.chain(*wanted)})}
    here = {key for key, pixels in kept.items() if pixels is not None or _has_shards(layout, entries[key])}
    for key, of in (splits for splits in wanted if not here.issuperset(splits)):
        where = f"the pixels of one of them are not in {layout.root}"
        meter.note(f"{key} is not compared with the images of {of}: {where}")
    readable = [splits for splits in wanted if here.issuperset(splits)]
    if not readable:
        return NOTHING
    needed = {key: kept[key] for key in sorted({*itertools.chain(*readable)})}
    pixels = _with_those_of_shards(layout, entries, needed, executor, meter)
    searches = [Search(pixels[key], pixels[of], near_distance(manifest, key)) for key, of in readable]
    if told := long_search(searches):
        meter.note(told)
    with meter.step("searching for near-duplicates", steps(searches)) as advance:
        found = find_stored(searches, executor, advance)
    pairs: list[Pair] = []
    for (key, of), numbers in zip(readable, found, strict=True):
        pairs += searched_pairs(numbers, (key, layout.index(key)), (of, layout.index(of)))
    return PairTable(pairs, {comparison(SIMILARITY, *keys) for keys in readable})


def _with_those_of_shards(
    layout: Layout,
    entries: Mapping[str, SplitEntry],
    kept: Mapping[str, Pixels | None],
    executor: Executor,
    meter: Meter,
) -> dict[str, Pixels]:
    """Return the images of splits as they are compared, read from their shards where they are not kept."""
    lacking = [key for key, pixels in kept.items() if pixels is None]
    if lacking:
        tasks = [task for key in lacking for task in pixel_tasks(layout, key, entries[key])]
        images = sum(len(group.rows) for task in tasks for group in task.groups)
        with meter.step("reading images", images) as advance:
            executor.run(tasks, advance)
    now = dict(kept) | {key: kept_pixels(layout, key, entries[key]) for key in lacking}
    return {key: pixels for key, pixels in now.items() if pixels is not None}


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
    tables = [table for part in parts if (table := find_kept(part)) is not None]
    if not tables or len(tables) < len(parts) or any(PIXEL_DIGEST not in table.column_names for table in tables):
        return None
    columns = ["id", "label", "role", DIGEST, PIXEL_DIGEST]
    rows = pa.concat_tables(table.select(columns).replace_schema_metadata(None) for table in tables)
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
