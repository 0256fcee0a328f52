"""Object storage as a `Store`, in as few requests as possible; `Store` describes the methods.

Tested by `tests/builders/storage/test_remote.py` and `tests/builders/pipeline/test_object_storage.py`.
"""

from __future__ import annotations

import contextlib
import errno
import stat
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from io import BytesIO, FileIO
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from builders.errors import BuildError, one_line
from builders.storage.byte_ranges import Ranges
from builders.storage.files import read_regular, refuse_irregular, require_space
from builders.storage.paths import as_path
from builders.storage.scratch import scratch_folder
from builders.storage.store import Store
from builders.storage.stores import listings
from builders.storage.stores.errors import ChangedMeanwhileError, client_errors, is_change, os_error, store_errors
from builders.storage.stores.path import StorePath
from builders.storage.stores.prefetch import RemoteRanges

_END = 1 << 16
"""Bytes of the end of a Parquet file that pyarrow reads first, which hold the footer of all but wide or long files."""


class RemoteStore(Store):
    """Object stores. Each path is a `StorePath`, which elsewhere is typed as `Path`, and here as `Any`."""

    is_local = False

    def require_access(self, path: Any, *, writing: bool = False) -> None:
        path.require_access(writing=writing)

    def inside(self, root: Path, path: str | Path) -> Path:
        # A store has no links, and takes any name for a name.
        text = str(path)
        if not text.isprintable() or any(name in ("", ".", "..") for name in text.split("/")):
            raise BuildError(
                f"{one_line(text)} does not lie inside {root}. Remove it, and run the same command again."
            )
        return root / text

    def require_space(self, root: Path, sizes: Sequence[int]) -> None:
        advice = (
            "Files are written there before they are sent: set TMPDIR to a folder with space for one of each worker, "
            "and run the same command again."
        )
        require_space(Path(tempfile.gettempdir()), max(sizes, default=0), "The build needs", advice)

    @contextlib.contextmanager
    def lock(self, path: Path, busy: str, root: Path, folders: Sequence[str]) -> Iterator[None]:
        yield

    def is_locked(self, path: Path) -> bool:
        return False

    def cached_listings(self, root: Path) -> AbstractContextManager[object]:
        return listings.cached_listings(str(root))

    def names(self, folder: Any) -> list[str]:
        return list(folder.names())

    def names_in_each(self, folders: Sequence[Path]) -> Iterator[list[str]]:
        return map(list, listings.list_ahead(folders))

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
                raise os_error(errno.ENOENT, root / file)
            refuse_irregular(str(root / file), stat.S_IFDIR if size == listings.FOLDER else stat.S_IFREG)
            yield size

    def links(self, root: Path, files: Sequence[str]) -> list[str]:
        return []

    def open(self, path: Any) -> FileIO:
        return cast(FileIO, cast(Any, as_path(path)).open_growing())

    def open_whole(self, path: Path) -> BytesIO:
        return BytesIO(read_regular(path))

    def ranges(self) -> Ranges:
        return RemoteRanges()

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

    def array(self, path: Path) -> npt.NDArray[Any]:
        array: npt.NDArray[Any] = np.load(BytesIO(path.read_bytes()))
        return array

    @contextlib.contextmanager
    def written(self, path: Any, *, durable: bool = True) -> Iterator[Path]:
        with scratch_folder("upload") as folder:
            temporary = folder / path.name
            yield temporary
            path.put(temporary)

    def replace(self, path: Any, data: bytes, is_read: Callable[[bytes | None], bool]) -> None:
        # S3 and stores like it check the condition themselves (`If-Match`, `If-None-Match`). gcsfs can refuse to
        # replace a file. Otherwise the version is requested again just before, which leaves the moment between.
        before = _version(path)
        try:
            content = path.read_bytes() if before else None
        except FileNotFoundError:
            content = None
        if not is_read(content):
            raise ChangedMeanwhileError(path)
        try:
            if path.protocol in ("s3", "s3a"):
                path.write(data, **({"IfMatch": before} if before else {"IfNoneMatch": "*"}))
            else:
                if _version(path) != before:
                    raise ChangedMeanwhileError(path)
                creates = not before and path.protocol in ("gs", "gcs")
                path.write(data, **({"mode": "create"} if creates else {}))
        except client_errors() as error:
            if not is_change(error):
                with store_errors("write", path):
                    raise
            # A request that came through is sent again where its answer was cut, and then finds what it wrote itself.
            if path.info() is None or path.read_bytes() != data:
                raise ChangedMeanwhileError(path) from error

    def remove_staged(self, folder: Path, suffixes: Iterable[str], own: Iterable[Path]) -> None:
        for path in own:
            path.unlink(missing_ok=True)


def _version(path: StorePath) -> str:
    """Return the version of a file: the ETag, or all that fsspec says of it; empty if there is no file."""
    info = path.info()
    if info is None or info["type"] != "file":
        return ""
    return str(info.get("ETag") or sorted((name, str(value)) for name, value in info.items()))
