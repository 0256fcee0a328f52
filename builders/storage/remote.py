"""Object storage as a `Store`, in as few requests as possible; `Store` describes the methods.

Tested by `tests/builders/pipeline/test_object_storage.py`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from io import BytesIO, FileIO
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from builders.errors import BuildError, one_line
from builders.storage.byte_ranges import PACK_SUFFIX, Ranges, read_error, size_error
from builders.storage.files import read_regular, refuse_irregular
from builders.storage.paths import as_path
from builders.storage.scratch import scratch_folder
from builders.storage.store import Store
from builders.storage.stores import listings
from builders.storage.stores.errors import ChangedMeanwhileError
from builders.storage.stores.prefetch import Prefetch, Read, read_starts
from builders.storage.stores.versions import ABSENT, current_version, refuse_changed, replace

_END = 1 << 16
"""Bytes of the end of a Parquet file that pyarrow reads first, which hold the footer of all but wide or long files."""


class RemoteStore(Store):
    """Object stores. Each path is a `StorePath`, which elsewhere is typed as `Path`, and here as `Any`."""

    is_local = False

    def require_access(self, path: Any, *, writing: bool = False) -> None:
        path.require_access(writing=writing)

    def is_folder(self, path: Any) -> bool:
        return bool(path.probe(str(path)).is_dir())

    def inside(self, root: Path, path: str | Path) -> Path:
        # A store has no links, and takes any name for a name.
        text = str(path)
        if not text.isprintable() or any(name in ("", ".", "..") for name in text.split("/")):
            raise BuildError(
                f"{one_line(text)} does not lie inside {root}. Remove it, and run the same command again."
            )
        return root / text

    def space_for(self, root: Path, sizes: Sequence[int]) -> tuple[Path, int, str]:
        remedy = (
            "Files are written there before they are sent: set TMPDIR to a folder with space for one of each worker"
        )
        return Path(tempfile.gettempdir()), max(sizes, default=0), remedy

    @contextlib.contextmanager
    def lock(self, path: Path, busy: str) -> Iterator[None]:
        yield

    def is_locked(self, path: Path) -> bool:
        return False

    @contextlib.contextmanager
    def cached_listings(self, root: Path) -> Iterator[Mapping[str, str]]:
        with listings.cached_listings(str(root)) as cache:
            yield cache.versions

    def names(self, folder: Any) -> list[str]:
        return list(folder.names())

    def names_in_each(self, folders: Sequence[Path]) -> Iterator[list[str]]:
        return (listing.names for listing in listings.list_ahead(folders))

    def list_below(self, folder: Path) -> None:
        if (cache := listings.current_cache()) is not None:
            cache.list_below(folder)

    def folders(self, folder: Path) -> list[str]:
        return [name for name in self.names(folder) if (folder / name).is_dir()]

    def is_readable(self, folder: Path) -> bool:
        return True

    def files_below(self, folder: Any) -> Iterator[str]:
        base = f"{folder.path.rstrip('/')}/"
        return (path.path.removeprefix(base) for path, _ in folder.files())

    def entries(self, root: Any, excluded: Collection[str]) -> Iterator[Path]:
        # One listing, where asking for each file would be a request for each.
        return (path for path, _ in root.files() if path.relative_to(root).parts[0] not in excluded)

    def sizes(self, root: Path, files: Sequence[str]) -> Iterator[int]:
        for file, size in zip(files, listings.sizes_of(root, files), strict=True):
            if size is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(root / file))
            refuse_irregular(str(root / file), stat.S_IFDIR if size == listings.FOLDER else stat.S_IFREG)
            yield size

    def links(self, root: Path, files: Sequence[str]) -> list[str]:
        return []

    def refuse_changed(self, path: Path, versions: Mapping[str, str]) -> None:
        for address in (str(path), *map(str, path.parents)):
            if address in versions:
                refuse_changed(address, versions[address])

    def open(self, path: Any) -> FileIO:
        return cast(FileIO, cast(Any, as_path(path)).open_growing())

    def open_whole(self, path: Path) -> BytesIO:
        return BytesIO(read_regular(path))

    @contextlib.contextmanager
    def mapped(self, path: Path) -> Iterator[bytes]:
        yield read_regular(path)

    def ranges(self, versions: Mapping[str, str]) -> Ranges:
        return RemoteRanges(versions)

    def starts(self, root: Path, places: Sequence[tuple[str, int, int]]) -> Iterator[bytes]:
        return read_starts([Read(os.path.join(str(root), file), offset, size) for file, offset, size in places])  # noqa: PTH118

    def parquet(self, path: Any, part: str, **options: Any) -> pq.ParquetFile:
        if part == "whole":
            return pq.ParquetFile(pa.BufferReader(path.read_bytes()))
        if part == "schema":
            # A file with a longer footer, or a damaged one, is read as a whole.
            with contextlib.suppress(pa.ArrowInvalid):
                return pq.ParquetFile(pa.BufferReader(path.read_end(_END)))
        # Whole chunks of columns are read, whatever the options say of buffers.
        return pq.ParquetFile(path.open_ranges(), **{**options, "pre_buffer": False, "buffer_size": 0})

    def arrow(self, path: Any) -> Any:
        return path.open_ranges()

    def array(self, path: Path, *, mapped: bool = False) -> npt.NDArray[Any]:
        array: npt.NDArray[Any] = np.load(BytesIO(path.read_bytes()))
        return array

    @contextlib.contextmanager
    def written(self, path: Any, *, durable: bool = True) -> Iterator[Path]:
        with scratch_folder("upload") as folder:
            temporary = folder / path.name
            yield temporary
            path.put(temporary)

    def replace(self, path: Any, data: bytes, is_read: Callable[[bytes | None], bool]) -> None:
        before = current_version(path)
        try:
            content = None if before == ABSENT else path.read_bytes()
        except FileNotFoundError:
            content = None
        if not is_read(content):
            raise ChangedMeanwhileError(path)
        replace(path, data, before)  # which also refuses a file that changed after its version was requested

    def remove_temporary(self, root: Path, folders: Iterable[str]) -> None:
        pass  # stores have none

    def remove_staged(self, folder: Path, suffixes: Iterable[str], own: Iterable[Path]) -> None:
        for path in own:
            path.unlink(missing_ok=True)


class RemoteRanges(Ranges):
    """Reads byte ranges of files in stores, and fetches announced ones ahead, many at the same time.

    Args:
        versions: of archives, by address.
    """

    def __init__(self, versions: Mapping[str, str]) -> None:
        super().__init__()
        self._versions = versions
        self._ahead = Prefetch(versions)

    def expect(self, reads: Iterable[tuple[str, int, int]]) -> None:
        self._ahead.expect([self._read(*read) for read in reads])

    def read(self, path: str, offset: int, size: int) -> bytes:
        try:
            data = self._ahead.take(self._read(path, offset, size))
        except OSError as error:
            raise read_error(error, path) from error
        if len(data) != size:
            raise size_error(path, size, len(data))
        return data

    def read_into(self, target: memoryview, path: str, offset: int) -> None:
        target[:] = self.read(path, offset, len(target))

    def close(self) -> None:
        self._ahead.close()

    def _read(self, path: str, offset: int, size: int) -> Read:
        # Any file but an archive and a pack of ours is a single image: its bytes are all of the file.
        whole = offset == 0 and path not in self._versions and not path.endswith(PACK_SUFFIX)
        return Read(path, offset, size, whole)
