"""Compares a release's images by pixels for its table of duplicates: near-duplicates, and equal pixels in other bytes.

Both comparisons read the release folder and its state, so that a split built by an earlier run is compared without its
source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.declare.benchmark import Benchmark
from builders.duplicates.distance import SIDE, scaled
from builders.duplicates.exact import DIGEST, exact_pairs, index_digests, searched_pairs
from builders.duplicates.table import PairTable
from builders.executors.base import Meter
from builders.release.digests import rows_digest
from builders.release.duplicates import KNOWN_ROLE, Comparison, Pair, comparison, groups
from builders.release.entries import SIMILARITY, Manifest
from builders.release.layout import Layout
from builders.release.reader import rgb_images
from builders.release.schema import PIXEL_DIGEST
from builders.release.split_entries import SplitEntry
from builders.storage.files import atomic_path
from builders.storage.parquet import read_parquet, read_schema
from builders.storage.paths import store_of

Pixels = npt.NDArray[np.uint8]


def compare_pixels(
    layout: Layout, manifest: Manifest, benchmark: Benchmark, meter: Meter, known: frozenset[Comparison]
) -> PairTable:
    """Compare the splits of a release by pixels, as far as its folder has them.

    The declaration names the splits that are searched for near-duplicates; a search whose comparison is `known` from
    earlier tables is skipped.
    """
    near, equal = _near_duplicates(layout, manifest, benchmark, meter, known), _equal_pixels(layout, manifest)
    return PairTable((*near.pairs, *equal.pairs), near.comparisons | equal.comparisons)


def _near_duplicates(
    layout: Layout, manifest: Manifest, benchmark: Benchmark, meter: Meter, known: frozenset[Comparison]
) -> PairTable:
    entries, readable = manifest.by_key(), list[tuple[str, str]]()
    known_splits = {key for key, entry in entries.items() if entry.roles == (KNOWN_ROLE,)}
    for key, of in compared_by_similarity(benchmark, entries, known_splits):
        if comparison(SIMILARITY, key, of) in known:
            continue
        if all(_has_pixels(layout, entries[name]) for name in (key, of)):
            readable.append((key, of))
        else:
            where = f"the pixels of one of them are not in {layout.root}"
            meter.note(f"{key} is not compared with the images of {of}: {where}")
    if not readable:
        return PairTable()
    from builders.duplicates.search import find_pairs  # only a benchmark that is searched pays for its imports

    meter.step("searching for near-duplicates", sum(entries[key].rows for key, _ in readable))
    pairs: list[Pair] = []
    references: dict[str, Pixels] = {}
    for key, of in readable:
        if of not in references:
            references = {of: _pixels(layout, of, entries[of])}
        numbers = find_pairs(_pixels(layout, key, entries[key]), references[of], advance=meter.advance)
        pairs += searched_pairs(numbers, (key, layout.index(key)), (of, layout.index(of)))
    return PairTable(tuple(pairs), frozenset(comparison(SIMILARITY, *keys) for keys in readable))


def _equal_pixels(layout: Layout, manifest: Manifest) -> PairTable:
    """Compare decoded (`--check decode`) and generated images by digests over pixels."""
    entries, pairs, comparisons = manifest.by_key(), list[Pair](), set[Comparison]()
    for keys in groups(manifest):
        digests = {key: column for key in keys if (column := _decoded(layout, key, entries[key])) is not None}
        if digests:
            digests |= {key: index_digests(layout.index(key)) for key in keys if entries[key].made is not None}
        pairs += exact_pairs({key: layout.index(key) for key in sorted(digests)}, digests)
        comparisons |= {comparison("pixels", split, other_split) for split in digests for other_split in digests}
    return PairTable(tuple(pairs), frozenset(comparisons))


def _decoded(layout: Layout, key: str, entry: SplitEntry) -> pa.ChunkedArray | None:
    """Return digests over the pixels of a split's rows; None if not all were decoded, or for other rows."""
    config, _, name = key.partition("/")
    parts = sorted((layout.state / "parts" / config).glob(f"{name}-?????-of-?????.parquet"))
    if not parts or any(PIXEL_DIGEST not in read_schema(part).names for part in parts):
        return None
    columns = ["id", "label", "role", DIGEST, PIXEL_DIGEST]
    rows = pa.concat_tables(read_parquet(part, columns) for part in parts)
    return rows[PIXEL_DIGEST] if rows_digest(rows) == entry.digest else None


def _has_pixels(layout: Layout, entry: SplitEntry) -> bool:
    if not entry.data:
        return layout.pixels(entry.digest).is_file()
    return all((layout.root / file.path).is_file() for file in entry.data)


def _pixels(layout: Layout, key: str, entry: SplitEntry) -> Pixels:
    """Load the images of a split in the order of its rows: (n, 32, 32, 3)."""
    if not entry.data:
        stored: Pixels = store_of(layout.root).array(layout.pixels(entry.digest))
        return stored
    pixels = np.zeros((entry.rows, SIDE, SIDE, 3), np.uint8)
    for number, image in enumerate(rgb_images(layout.root, key, entry, np.arange(entry.rows))):
        pixels[number] = scaled(image)
    return pixels


def compared_by_similarity(
    benchmark: Benchmark, keys: Collection[str], known: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield each split (`config/split`) that is searched for near-duplicates, with the split it is compared with.

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


def are_compared(benchmark: Benchmark, key: str) -> bool:
    """Whether a split (`config/split`) takes part in a search for near-duplicates."""
    return any(
        config.duplicates_of and (key == config.duplicates_of or key.startswith(f"{config.name}/"))
        for config in benchmark.configs
    )


def write_pixels(layout: Layout, digest: str, pixels: Pixels) -> None:
    """Store the pixels of a split without shards; `digest` is the digest of its rows."""
    with atomic_path(layout.pixels(digest)) as temporary, temporary.open("wb") as opened:
        np.save(opened, pixels)
