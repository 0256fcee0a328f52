"""Pack files: images unpacked from containers and concatenated, so that each can be read by offset.

A container has its rows in another order than the release, and often can only be read in large units (a Parquet row
group, a pickle, a compressed array), so reading single images would read each unit a hundred times. A pack is written
in one pass over the container, and removed when the release is done. The images' lengths are kept, because a later
run needs them to cut the same shards.

Tested by `tests/builders/pipeline/test_run.py`.
"""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.generate.batches import SEALED_SUFFIX
from builders.sources.base import Container, SourceIndex
from builders.sources.unpack import UNPACKERS
from builders.storage.atomic import atomic_path
from builders.storage.byte_ranges import PACK_SUFFIX
from builders.storage.paths import store_of

Int64 = npt.NDArray[np.int64]


class Packed(abc.ABC):
    """What is unpacked into a pack.

    Attributes:
        path: the pack.
    """

    path: Path

    @abc.abstractmethod
    def images(self) -> Iterator[Iterable[bytes | memoryview]]:
        """The images in order, some at a time.

        Raises:
            BuildError: they cannot be read.
        """

    def lengths(self) -> Int64:
        """Bytes of each image, in order; unpacks the images if that was never done."""
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
    """Some rows (ascending) of one container, and the file that their images are unpacked into.

    `versions` are those of the source (`SourceIndex.versions`).
    """

    container: Path
    how: Container
    rows: Int64
    path: Path
    versions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, index: SourceIndex, how: Container, file: str, rows: Int64, staging: Path) -> Pack:
        """Create a pack named after the source, the file and the rows: a rerun finds it, other rows get another."""
        key = hashlib.sha256(f"{file}\n".encode() + rows.tobytes()).hexdigest()[:16]
        path = staging / f"{index.source.key}-{key}{PACK_SUFFIX}"
        return cls(index.root / file, how, rows, path, index.versions)

    def images(self) -> Iterator[Iterable[bytes | memoryview]]:
        """The images of the rows; raises at their end if the container in a store is not the one that was indexed."""
        yield from UNPACKERS[self.how](self.container, self.rows)
        store_of(self.container).refuse_changed(self.container, self.versions)


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
        """Positions of some rows of the index in the arrays of this value."""
        found: Int64 = np.searchsorted(self.rows, rows)
        return found


def unpack(index: SourceIndex, rows: Int64, staging: Path, advance: Callable[[int], None]) -> Unpacked:
    """Unpack images from containers, each container in one pass.

    Args:
        index: the source.
        rows: ascending row numbers of the index for all splits together, so that each file is read only once.
        staging: folder for the packs.
        advance: called with the number of images unpacked since the last call.

    Raises:
        BuildError: a container cannot be read, or a row has no image bytes.
    """
    places = index.take(["file", "offset", "how"], rows)
    files = places["file"].combine_chunks().dictionary_encode()
    hows = places["how"].cast(pa.string())
    codes, inside = files.indices.to_numpy(), places["offset"].to_numpy()
    pack_of, offsets, sizes = (np.zeros(len(rows), dtype=np.int64) for _ in range(3))
    packs: list[Pack] = []
    for name, code in sorted((name, code) for code, name in enumerate(files.dictionary.to_pylist())):
        here = np.flatnonzero(codes == code)
        here = here[np.argsort(inside[here], kind="stable")]
        pack = Pack.of(index, hows[int(here[0])].as_py(), name, inside[here], staging)
        lengths = pack.lengths()
        pack_of[here] = len(packs)
        sizes[here] = lengths
        offsets[here] = np.cumsum(lengths) - lengths
        packs.append(pack)
        advance(len(here))
    return Unpacked(rows, pack_of, offsets, sizes, tuple(packs))


def remove_packs(staging: Path, own: Iterable[Path]) -> None:
    """Remove the packs of a finished build, with their sealed residuals; the lengths are kept.

    On this machine all that are there go, in a store this run's `own` alone.
    """
    store_of(staging).remove_staged(staging, (PACK_SUFFIX, SEALED_SUFFIX), own)
