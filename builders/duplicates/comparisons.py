"""Compares a release's images by pixels for its table of duplicates: near-duplicates, and equal pixels in other bytes.

Both comparisons read the release folder and its state, so that a split built by an earlier run is compared without its
source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.declare.benchmark import Benchmark
from builders.duplicates.distance import scaled
from builders.duplicates.exact import DIGEST, Digests, exact_pairs, index_digests, searched_pairs
from builders.duplicates.table import PairTable
from builders.executors.base import Meter
from builders.generate.arrays import SIDE
from builders.release import images
from builders.release.digests import rows_digest
from builders.release.duplicates import KNOWN_ROLE, Comparison, Pair, comparison, groups
from builders.release.entries import SIMILARITY, Manifest
from builders.release.layout import Layout
from builders.release.schema import PIXEL_DIGEST
from builders.storage.files import atomic_path
from builders.storage.parquet import open_parquet, read_parquet, read_schema, row_batches
from builders.storage.paths import store_of

Pixels = npt.NDArray[np.uint8]

_BATCH_ROWS = 256


class PixelComparisons:
    """Compares the splits of a release by pixels, as far as its folder has them.

    Args:
        layout: the release folder, with shards and index files of every split in `manifest`.
        manifest: the release's manifest.
        benchmark: the declaration, which names the splits that are searched for near-duplicates.
        meter: shows progress.
    """

    def __init__(self, layout: Layout, manifest: Manifest, benchmark: Benchmark, meter: Meter) -> None:
        self.layout, self.manifest, self.benchmark, self.meter = layout, manifest, benchmark, meter
        self.entries = manifest.by_key()

    def table(self, known: frozenset[Comparison]) -> PairTable:
        """Return the pairs found; a search for near-duplicates is skipped if `known` has its comparison."""
        near, equal = self._near_duplicates(known), self._equal_pixels()
        return PairTable((*near.pairs, *equal.pairs), near.comparisons | equal.comparisons)

    def _near_duplicates(self, known: frozenset[Comparison]) -> PairTable:
        known_splits = {key for key, entry in self.entries.items() if entry.roles == (KNOWN_ROLE,)}
        missing = [
            keys
            for keys in compared_by_similarity(self.benchmark, self.entries, known_splits)
            if comparison(SIMILARITY, *keys) not in known
        ]
        readable = [keys for keys in missing if all(map(self._has_pixels, keys))]
        for key, of in missing:
            if (key, of) not in readable:
                where = f"the pixels of one of them are not in {self.layout.root}"
                self.meter.note(f"{key} is not compared with the images of {of}: {where}")
        if not readable:
            return PairTable()
        # Imported here: only a benchmark that asks for the search pays for its imports.
        from builders.duplicates.search import find_pairs

        self.meter.step("searching for near-duplicates", sum(self.entries[key].rows for key, _ in readable))
        pairs: list[Pair] = []
        references: dict[str, Pixels] = {}
        for key, of in readable:
            if of not in references:
                references = {of: self._pixels(of)}
            numbers = find_pairs(self._pixels(key), references[of], advance=self.meter.advance)
            pairs += searched_pairs(numbers, (key, self._index(key)), (of, self._index(of)))
        return PairTable(tuple(pairs), frozenset(comparison(SIMILARITY, *keys) for keys in readable))

    def _equal_pixels(self) -> PairTable:
        """Compare decoded (`--check decode`) and generated images by digests over pixels."""
        pairs: list[Pair] = []
        comparisons: set[Comparison] = set()
        for keys in groups(self.manifest):
            decoded = {key: column for key in keys if (column := self._decoded(key)) is not None}
            digests: dict[str, Digests] = {key: partial(iter, column.chunks) for key, column in decoded.items()}
            if digests:
                digests |= {key: index_digests(self._index(key)) for key in keys if self.entries[key].made is not None}
            pairs += exact_pairs({key: self._index(key) for key in sorted(digests)}, digests)
            comparisons |= {comparison("pixels", split, other_split) for split in digests for other_split in digests}
        return PairTable(tuple(pairs), frozenset(comparisons))

    def _decoded(self, key: str) -> pa.ChunkedArray | None:
        """Return digests over the pixels of a split's rows; None if not all were decoded, or for other rows."""
        config, _, name = key.partition("/")
        parts = sorted((self.layout.state / "parts" / config).glob(f"{name}-?????-of-?????.parquet"))
        if not parts or any(PIXEL_DIGEST not in read_schema(part).names for part in parts):
            return None
        columns = ["id", "label", "role", DIGEST, PIXEL_DIGEST]
        rows = pa.concat_tables(read_parquet(part, columns) for part in parts)
        return rows[PIXEL_DIGEST] if rows_digest(rows) == self.entries[key].digest else None

    def _index(self, key: str) -> Path:
        return self.layout.root / self.entries[key].index.path

    def _has_pixels(self, key: str) -> bool:
        entry = self.entries[key]
        if not entry.data:
            return self.layout.pixels(entry.digest).is_file()
        return all((self.layout.root / file.path).is_file() for file in entry.data)

    def _pixels(self, key: str) -> Pixels:
        """Load the images of a split in the order of its rows: (n, 32, 32, 3)."""
        entry = self.entries[key]
        if not entry.data:
            stored: Pixels = store_of(self.layout.root).array(self.layout.pixels(entry.digest))
            return stored
        pixels = np.zeros((entry.rows, SIDE, SIDE, 3), np.uint8)
        number = 0
        for file in entry.data:
            with open_parquet(self.layout.root / file.path) as opened:
                for batch in row_batches(opened, _BATCH_ROWS, ["image"]):
                    for data in pc.struct_field(batch.column(0), "bytes"):
                        pixels[number] = scaled(images.decode(data.as_py()))
                        number += 1
        return pixels


def compared_by_similarity(
    benchmark: Benchmark, keys: Collection[str], known: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield each split (`config/split`) that is searched for near-duplicates, with the split it is compared with.

    Each split of a config with `duplicates_of` is compared with the training images, and with every in-distribution
    split of the config: with those of `known`, itself included. The distance is not symmetric; of two in-distribution
    splits the first by name is the one that is searched, so that whoever compares them again knows the direction
    (`hf_scripts.checks.duplicates`).

    Args:
        benchmark: the declaration.
        keys: the existing splits.
        known: those with in-distribution rows alone.
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
