"""Makes the comparisons of a table of duplicates again, from the images that were decoded for other checks.

Tested by `tests/hf_scripts/checks/test_duplicates.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.duplicates.exact import DIGEST, Digests, exact_pairs, rows_at
from builders.release.duplicates import Pair, Row, groups, pair_of, unfolded
from builders.release.entries import SIMILARITY, DuplicatesEntry, Manifest
from builders.release.split_entries import is_training
from builders.storage.parquet import read_parquet
from hf_scripts.checks.images import Decoded

# Distances are computed in float32, whose values below 1 are at most 6e-8 apart.
ROUNDING = 1e-6

_Image = tuple[npt.NDArray[np.uint8], str]
_Numbers = tuple[int, int]


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
                digests = {key: self._digests(key) for key in keys}
                found = exact_pairs({key: self.indexes[key] for key in keys}, digests) if keys else []
                yield from (pair for pair in found if pair.splits in compared)

    def similar(self) -> Iterator[Pair]:
        """The pairs of rows within the threshold whose bytes differ."""
        training = {key for key, entry in self.manifest.by_key().items() if is_training(key, entry)}
        for one, other in sorted(self._compared(SIMILARITY)):
            if one in self.decoded and other in self.decoded:
                yield from self._similar(one, other, training)

    def named(self, pairs: Sequence[Pair]) -> Iterator[tuple[int, Pair, _Image, _Image]]:
        """Each pair whose images are both here, by number, with its two scaled images and digests of pixels."""
        wanted: dict[str, set[str]] = {}
        for pair in pairs:
            wanted.setdefault(pair.split, set()).add(pair.id)
            wanted.setdefault(pair.other_split, set()).add(pair.other_id)
        images: dict[tuple[str, str], _Image] = {}
        for key in sorted(wanted.keys() & self.decoded.keys()):
            some = self.decoded[key]
            for number, name in enumerate(read_parquet(self.indexes[key], ["id"])["id"].to_pylist()):
                if name in wanted[key] and some.digests[number]:
                    scaled = some.pixels[number] if len(some.pixels) else np.zeros(0, np.uint8)
                    images[key, name] = scaled, some.digests[number]
        for number, pair in enumerate(pairs):
            sides = images.get((pair.split, pair.id)), images.get((pair.other_split, pair.other_id))
            if sides[0] is not None and sides[1] is not None:
                yield number, pair, sides[0], sides[1]

    def _compared(self, by: str) -> set[tuple[str, str]]:
        return {(found.one, found.other) for found in unfolded(self.table.compared) if found.by == by}

    def _digests(self, key: str) -> Digests:
        return lambda: [pa.array(self.decoded[key].digests, pa.string())]

    def _similar(self, one: str, other: str, training: set[str]) -> Iterator[Pair]:
        """The similar pairs of two splits.

        The distance is not symmetric. A build moves the images of other splits over those of a training split; of two
        splits that are both or neither, a pair must be near in both directions to be expected.
        """
        from builders.duplicates.search import THRESHOLD, find  # SciPy, for which --help should not wait

        orders = [both for both in ((one, other), (other, one)) if both[1] in training and both[0] not in training]
        found: list[dict[_Numbers, float]] = []
        for query, reference in orders or ((one, other), (other, one)):
            pairs = find(
                self.decoded[query].pixels,
                self.decoded[reference].pixels,
                threshold=THRESHOLD - ROUNDING,
                advance=lambda _: None,
            )
            sides_found = (pairs.queries, pairs.references) if query == one else (pairs.references, pairs.queries)
            places = zip(*(side.tolist() for side in sides_found), strict=True)
            found.append(dict(zip(places, pairs.distances.tolist(), strict=True)))
        numbers = sorted(set.intersection(*map(set, found)))
        sides = [self._sides(key, [both[side] for both in numbers]) for side, key in enumerate((one, other))]
        for both, (row, digest), (other_row, other_digest) in zip(numbers, *sides, strict=True):
            if digest != other_digest:
                yield pair_of(row, other_row, min(distances[both] for distances in found))

    def _sides(self, key: str, numbers: Sequence[int]) -> list[tuple[Row, str]]:
        """Rows of a split by number, each with its content digest."""
        some, places = np.unique(np.array(numbers, np.int64), return_inverse=True)
        digests = read_parquet(self.indexes[key], [DIGEST])[DIGEST].take(pa.array(some)).to_pylist()
        rows = list(zip(rows_at(self.indexes[key], key, some), digests, strict=True))
        return [rows[place] for place in places.tolist()]
