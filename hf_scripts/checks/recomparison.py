"""Repeats the comparisons of a table of duplicates with the images that were decoded for other checks.

Tested by `tests/hf_scripts/checks/test_duplicates.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.duplicates.exact import exact_pairs, ids_by_key, searched_pairs
from builders.release.duplicates import KNOWN_ROLE, Pair, groups, listed_comparisons
from builders.release.entries import SIMILARITY, DuplicatesEntry, Manifest
from builders.release.split_entries import is_training
from builders.storage.parquet import read_parquet
from hf_scripts.checks.images import Decoded

# Distances are computed in float32, whose values below 1 are at most 6e-8 apart.
ROUNDING = 1e-6

_Image = tuple[npt.NDArray[np.uint8], str]


@dataclass(frozen=True)
class Recomparison:
    """Repeats the comparisons that a manifest lists for its table of duplicates.

    Attributes:
        manifest: the release's manifest.
        table: its entry for the table.
        indexes: index files by `config/split`.
        decoded: the images of all rows of a split, by `config/split`; other splits are not compared.
    """

    manifest: Manifest
    table: DuplicatesEntry
    indexes: Mapping[str, Path]
    decoded: Mapping[str, Decoded]

    def equal_pixels(self) -> Iterator[Pair]:
        """Yield the pairs of rows whose decoded pixels are equal.

        In a large group of equal images, which pairs are listed depends on all splits that were compared with each
        other (`builders.duplicates.exact.ALL_PAIRS`), so such a group is skipped unless all of them are decoded.
        """
        compared = self._compared("pixels")
        for group in groups(self.manifest):
            keys = [key for key in group if any(key in splits for splits in compared)]
            if all(key in self.decoded for key in keys):
                digests = {key: pa.chunked_array([self.decoded[key].digests], pa.string()) for key in keys}
                pairs = exact_pairs({key: self.indexes[key] for key in keys}, digests) if keys else []
                yield from (pair for pair in pairs if pair.splits in compared)

    def similar(self) -> Iterator[Pair]:
        """Yield the pairs of rows within the threshold whose bytes differ."""
        for splits in sorted(self._compared(SIMILARITY)):
            if all(key in self.decoded for key in splits):
                yield from self._similar(*sorted(splits, key=self._order_as_reference, reverse=True))

    def images_of(self, pairs: Sequence[Pair]) -> Iterator[tuple[int, Pair, _Image, _Image]]:
        """Yield number, pair, and both scaled images with their pixel digests, of each pair that is decoded."""
        ids = ids_by_key(pairs)
        images: dict[tuple[str, str], _Image] = {}
        for key in sorted(ids.keys() & self.decoded.keys()):
            decoded = self.decoded[key]
            for number, name in enumerate(read_parquet(self.indexes[key], ["id"])["id"].to_pylist()):
                if name in ids[key] and decoded.digests[number]:
                    scaled = decoded.pixels[number] if len(decoded.pixels) else np.zeros(0, np.uint8)
                    images[key, name] = scaled, decoded.digests[number]
        for number, pair in enumerate(pairs):
            sides = images.get((pair.split, pair.id)), images.get((pair.other_split, pair.other_id))
            if sides[0] is not None and sides[1] is not None:
                yield number, pair, sides[0], sides[1]

    def _compared(self, by: str) -> set[tuple[str, str]]:
        return {(listed.one, listed.other) for listed in listed_comparisons(self.table.compared) if listed.by == by}

    def _order_as_reference(self, key: str) -> tuple[bool, bool, str]:
        """Return the key that sorts the reference of a comparison first, over which a build shifts the other's images.

        The reference is a training split, or else an in-distribution one; of two such splits the first by name.
        """
        entry = self.manifest.by_key()[key]
        return not is_training(key, entry), entry.roles != (KNOWN_ROLE,), key

    def _similar(self, query: str, reference: str) -> Iterator[Pair]:
        from builders.duplicates.search import THRESHOLD, find_pairs  # SciPy, for which --help should not wait

        images = (self.decoded[key].pixels for key in (query, reference))
        pairs = find_pairs(*images, threshold=THRESHOLD - ROUNDING, advance=lambda _: None)
        return searched_pairs(pairs, (query, self.indexes[query]), (reference, self.indexes[reference]))
