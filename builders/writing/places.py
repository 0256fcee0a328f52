"""Finds the images of planned splits: in files, inside tars, or in packs into which containers are unpacked.

A container has its rows in another order than the release, and often can only be read in large units (a Parquet row
group, a pickle, a compressed array), so reading single images would read each unit a hundred times. A pack has images
of a container end to end, so that each can be read by offset. It is written in one pass over the container, and
removed when the release is done. The images' lengths are kept, because a later run needs them to cut the same shards.

Tested by `tests/builders/pipeline/test_run.py`.
"""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.declare.quotas import Originals
from builders.generate.batches import SEALED_SUFFIX
from builders.generate.inputs import COMPANION_VALUE
from builders.plan.originals import companion_rows
from builders.plan.planner import PlannedSplit
from builders.sources.base import IN_PLACE, Container, SourceIndex
from builders.sources.sizes import look_up_sizes
from builders.sources.unpack import UNPACKERS
from builders.storage.byte_ranges import PACK_SUFFIX
from builders.storage.files import atomic_path
from builders.storage.paths import store_of

STAGING = "staging"
"""Root key of pack files, beside the source keys."""

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Located:
    """Where some images are: the columns `root`, `file`, `offset`, `size`, and the packs that some of them lie in."""

    columns: Mapping[str, pa.Array]
    sizes: Int64
    packs: tuple[Pack, ...]


@dataclass(frozen=True)
class Places:
    """Finds the images of sources.

    Args:
        indexes: sources by key.
        unpacked: where the images of a source are that lie in containers, by its key.
        advance: called with the number of images found since the last call.
    """

    indexes: Mapping[str, SourceIndex]
    unpacked: Mapping[str, Unpacked]
    advance: Callable[[int], None] = lambda _: None

    def find(self, key: str, rows: Int64) -> Located:
        """Find the images in some rows of a source's index.

        Raises:
            BuildError: a file of the index is no longer there or cannot be looked at.
        """
        index = self.indexes[key]
        listed = index.take(["how", "file", "offset", "size"], rows)
        files = listed["file"].combine_chunks()
        roots = pa.array([key] * len(rows), pa.string())
        packs: tuple[Pack, ...] = ()
        offsets, sizes = listed["offset"].to_numpy().copy(), listed["size"].to_numpy().copy()
        how = listed["how"].cast(pa.string()).to_numpy(zero_copy_only=False)
        if (unpacked := self.unpacked.get(key)) is not None:
            inside = np.flatnonzero(~np.isin(how, IN_PLACE))
            positions = unpacked.find(rows[inside])
            offsets[inside], sizes[inside] = unpacked.offsets[positions], unpacked.sizes[positions]
            pack_numbers = unpacked.pack_of[positions]
            packs = tuple(unpacked.packs[number] for number in np.unique(pack_numbers))
            files = _replaced(files, inside, [unpacked.packs[number].path.name for number in pack_numbers])
            roots = _replaced(roots, inside, [STAGING] * len(inside))
        look_up_sizes(index, files, np.flatnonzero((how == "file") & (sizes < 0)), sizes, self.advance)
        columns = {"root": roots, "file": files, "offset": pa.array(offsets), "size": pa.array(sizes)}
        return Located(columns, sizes, packs)

    def find_companions(self, companions: Originals, planned: PlannedSplit) -> Located:
        """Find the images of another source that a split's generator takes.

        Raises:
            BuildError: the other source has no image for one of the split's.
        """
        index = self.indexes[companions.of.key]
        rows = companion_rows(index, companions.partitions[0], planned.table["source_id"])
        located = self.find(companions.of.key, rows)
        columns = {f"companion_{name}": column for name, column in located.columns.items()}
        hashes = index.take(["original_hash"], rows)["original_hash"].combine_chunks()
        return Located({**columns, f"{COMPANION_VALUE}original_hash": hashes}, located.sizes, located.packs)


def packed_rows(index: SourceIndex, splits: Sequence[PlannedSplit]) -> Int64:
    """Return the ascending rows in a source's containers that some splits need, also as companions."""
    key, in_place = index.source.key, np.array([piece.how in IN_PLACE for piece in index.pieces], bool)
    rows = [np.zeros(0, np.int64)]
    for split in splits if not in_place.all() else ():
        if split.split.source.key == key:
            rows.append(split.rows)
        if (companions := split.split.companions) is not None and companions.of.key == key:
            rows.append(companion_rows(index, companions.partitions[0], split.table["source_id"]))
    distinct = np.unique(np.concatenate(rows))
    packed: Int64 = distinct[~in_place[index.piece_of(distinct)]]
    return packed


def _replaced(column: pa.Array, rows: Int64, values: list[str]) -> pa.Array:
    names = np.array(column.to_pylist(), dtype=object)
    names[rows] = values
    return pa.array(names.tolist(), pa.string())


class Packed(abc.ABC):
    """Images that are unpacked into a pack.

    Attributes:
        path: the pack.
    """

    path: Path

    @abc.abstractmethod
    def images(self) -> Iterator[Iterable[bytes | memoryview]]:
        """Return the images in order, some at a time.

        Raises:
            BuildError: they cannot be read.
        """

    def lengths(self) -> Int64:
        """Return the length of each image in bytes, in order; unpacks the images if that was never done."""
        if not self._lengths_path.exists():
            self.unpack()
        lengths: Int64 = store_of(self._lengths_path).array(self._lengths_path)
        return lengths

    def unpack(self) -> None:
        """Write the pack, then the lengths.

        Raises:
            BuildError: as `images`.
        """
        lengths: list[int] = []
        with atomic_path(self.path) as temporary, temporary.open("wb") as sink:
            for images in self.images():
                lengths += [sink.write(image) for image in images]
        with atomic_path(self._lengths_path) as temporary, temporary.open("wb") as sink:
            np.save(sink, np.array(lengths, dtype=np.int64))

    @property
    def _lengths_path(self) -> Path:
        return self.path.with_suffix(".lengths.npy")


@dataclass(frozen=True, eq=False)
class Pack(Packed):
    """Some rows (ascending) of one container, and the file that their images are unpacked into."""

    container: Path
    how: Container
    rows: Int64
    path: Path

    @classmethod
    def of(cls, index: SourceIndex, how: Container, file: str, rows: Int64, staging: Path) -> Pack:
        """Create a pack named after the source, the file and the rows: a rerun finds it, other rows get another."""
        key = hashlib.sha256(f"{file}\n".encode() + rows.tobytes()).hexdigest()[:16]
        path = staging / f"{index.source.key}-{key}{PACK_SUFFIX}"
        return cls(index.root / file, how, rows, path)

    def images(self) -> Iterator[Iterable[bytes | memoryview]]:
        """Yield the images of the rows."""
        yield from UNPACKERS[self.how](self.container, self.rows)


@dataclass(frozen=True, eq=False)
class Unpacked:
    """Positions of unpacked images in their packs.

    `rows` are ascending row numbers of the index; for row i, `pack_of[i]` is the number of its pack in `packs`, and
    its bytes are `sizes[i]` at `offsets[i]` there.
    """

    rows: Int64
    pack_of: Int64
    offsets: Int64
    sizes: Int64
    packs: tuple[Pack, ...]

    def find(self, rows: Int64) -> Int64:
        """Return the positions of some rows of the index in these arrays."""
        positions: Int64 = np.searchsorted(self.rows, rows)
        return positions


def unpack_containers(index: SourceIndex, rows: Int64, staging: Path, advance: Callable[[int], None]) -> Unpacked:
    """Unpack images from containers, each container in one pass.

    Args:
        index: the source.
        rows: ascending row numbers of the index for all splits together, so that each file is read only once.
        staging: folder for the packs.
        advance: called with the number of images unpacked since the last call.

    Raises:
        BuildError: a container cannot be read, or a row has no image bytes.
    """
    columns = index.take(["file", "offset", "how"], rows)
    files = columns["file"].combine_chunks().dictionary_encode()
    hows = columns["how"].cast(pa.string())
    codes, inside = files.indices.to_numpy(), columns["offset"].to_numpy()
    pack_of, offsets, sizes = (np.zeros(len(rows), dtype=np.int64) for _ in range(3))
    packs: list[Pack] = []
    for name, code in sorted((name, code) for code, name in enumerate(files.dictionary.to_pylist())):
        positions = np.flatnonzero(codes == code)
        positions = positions[np.argsort(inside[positions], kind="stable")]
        pack = Pack.of(index, hows[int(positions[0])].as_py(), name, inside[positions], staging)
        lengths = pack.lengths()
        pack_of[positions] = len(packs)
        sizes[positions] = lengths
        offsets[positions] = np.cumsum(lengths) - lengths
        packs.append(pack)
        advance(len(positions))
    return Unpacked(rows, pack_of, offsets, sizes, tuple(packs))


def remove_packs(staging: Path, own: Iterable[Path]) -> None:
    """Remove the packs of a finished build, with their sealed residuals; the lengths are kept.

    On this machine all of them go, in a store this run's `own` alone.
    """
    store_of(staging).remove_staged(staging, (PACK_SUFFIX, SEALED_SUFFIX), own)
