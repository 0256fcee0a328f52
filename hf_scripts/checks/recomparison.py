"""Makes the comparisons of a table of duplicates again, from the images that were decoded for other checks.

Tested by `tests/hf_scripts/checks/test_duplicates.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.duplicates.exact import Digests, exact_pairs, near_pairs, paired_ids
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
    """Compares the images of splits again that a table's manifest lists as compared.

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
        """The pairs of rows whose decoded pixels are equal.

        In a large group of equal images, which pairs are listed depends on all splits that were compared with each
        other (`builders.duplicates.exact.ALL_PAIRS`), so all of them must be here.
        """
        compared = self._compared("pixels")
        for group in groups(self.manifest):
            keys = [key for key in group if any(key in both for both in compared)]
            if all(key in self.decoded for key in keys):
                digests: dict[str, Digests] = {
                    key: partial(iter, [pa.array(self.decoded[key].digests, pa.string())]) for key in keys
                }
                found = exact_pairs({key: self.indexes[key] for key in keys}, digests) if keys else []
                yield from (pair for pair in found if pair.splits in compared)

    def similar(self) -> Iterator[Pair]:
        """The pairs of rows within the threshold whose bytes differ."""
        for both in sorted(self._compared(SIMILARITY)):
            if all(key in self.decoded for key in both):
                yield from self._similar(*sorted(both, key=self._order_as_reference, reverse=True))

    def named(self, pairs: Sequence[Pair]) -> Iterator[tuple[int, Pair, _Image, _Image]]:
        """Each pair whose images are both here, by number, with its two scaled images and digests of pixels."""
        ids = paired_ids(pairs)
        images: dict[tuple[str, str], _Image] = {}
        for key in sorted(ids.keys() & self.decoded.keys()):
            some = self.decoded[key]
            for number, name in enumerate(read_parquet(self.indexes[key], ["id"])["id"].to_pylist()):
                if name in ids[key] and some.digests[number]:
                    scaled = some.pixels[number] if len(some.pixels) else np.zeros(0, np.uint8)
                    images[key, name] = scaled, some.digests[number]
        for number, pair in enumerate(pairs):
            sides = images.get((pair.split, pair.id)), images.get((pair.other_split, pair.other_id))
            if sides[0] is not None and sides[1] is not None:
                yield number, pair, sides[0], sides[1]

    def _compared(self, by: str) -> set[tuple[str, str]]:
        return {(found.one, found.other) for found in listed_comparisons(self.table.compared) if found.by == by}

    def _order_as_reference(self, key: str) -> tuple[bool, bool, str]:
        """Sorts the splits of a comparison: the first is the reference, over which a build moves the other's images.

        It is a training split, or else an in-distribution one; of two such splits it is the first by name.
        """
        entry = self.manifest.by_key()[key]
        return not is_training(key, entry), entry.roles != (KNOWN_ROLE,), key

    def _similar(self, query: str, reference: str) -> Iterator[Pair]:
        """The similar pairs of two splits."""
        from builders.duplicates.search import THRESHOLD, find_pairs  # SciPy, for which --help should not wait

        images = (self.decoded[key].pixels for key in (query, reference))
        pairs = find_pairs(*images, threshold=THRESHOLD - ROUNDING, advance=lambda _: None)
        return near_pairs(pairs, (query, self.indexes[query]), (reference, self.indexes[reference]))
