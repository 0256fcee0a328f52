"""A path in a store, with the methods of `pathlib.Path` that these tools use.

Tested by `tests/builders/storage/stores/test_path.py` and `test_errors.py`.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import io
import logging
import os
import stat
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from upath.extensions import ProxyUPath

from builders.errors import BuildError, one_line
from builders.storage.files import refuse_irregular
from builders.storage.object_path import ObjectPath
from builders.storage.scratch import scratch_folder
from builders.storage.stores import listings
from builders.storage.stores.errors import (
    EMPTY,
    NO_BUCKET,
    ChangedMeanwhileError,
    client_errors,
    code_of,
    is_change,
    os_error,
    store_errors,
)
from builders.storage.stores.file import GrowingReadAhead, RangedFile
from unknown_detection.words import is_printable

ATTEMPTS = 5
"""How often botocore sends a request that a store answers with 500 or 503 or cuts: about 8 seconds of waiting between
(ours; botocore's mode `standard` waits a random part of 1, 2, 4, ... seconds)."""

PROBE_ATTEMPTS = 2
"""How often it sends the first request, whose failure is reported at once."""

CUTS = 3
"""How often s3fs asks where an answer is cut in the middle (ours; its default of 5 multiplies `ATTEMPTS`)."""

CONNECT_SECONDS, READ_SECONDS = 5, 60
"""Timeouts of a connection and of an answer's next bytes (ours)."""

READ_AHEAD = 1 << 20
"""Bytes that are read beyond what is asked for (ours): the small columns behind the images of a row group."""

READ_WHOLE = 8 << 20
"""Bytes that are read at a time of a file that is read from its start to its end (ours)."""

TOGETHER = 32
"""Connections of a process: 32 requests in 35 ms are 900 images a second, more than a core decodes (ours)."""

UPLOAD_PART = 16 << 20
"""Bytes of a part of a multipart upload (ours); files up to twice of it are one request. S3 takes 10,000 parts."""

UPLOADED_TOGETHER = 4
"""Parts that are sent at the same time, all of which are in memory."""


def options(protocol: str, attempts: int | None = None) -> dict[str, Any]:
    """Return the keyword arguments of a protocol's filesystem; credentials come from the environment."""
    keywords: dict[str, Any] = {"use_listings_cache": False}  # other processes write to the same folder
    if protocol in ("s3", "s3a"):
        keywords["max_concurrency"] = UPLOADED_TOGETHER
        keywords["config_kwargs"] = {
            "max_pool_connections": TOGETHER,
            "retries": {"mode": "standard", "total_max_attempts": attempts or ATTEMPTS},
            "connect_timeout": CONNECT_SECONDS,
            "read_timeout": READ_SECONDS,
        }
    return keywords


_OBJECTS = ("s3", "s3a", "gs", "gcs")
"""Protocols of stores with buckets and without folders, whose clients take the size of parts."""


_NO_STORE = (AttributeError, NotImplementedError, TypeError)
"""Exceptions of fsspec for filesystems that are no object store: `github:` without a repository, `reference:` without
its file, a wrapper that names no filesystem to wrap; and `data:` where a path is joined to it."""


def store_path(address: str) -> StorePath:
    """Return the path of an address that `as_path` has checked; `ImportError` if a package is missing."""
    protocol = address.partition("://")[0]
    logging.getLogger("gcsfs").setLevel(logging.CRITICAL)  # it logs tracebacks of what it then raises
    warnings.filterwarnings("ignore", "UPath .* filesystem not explicitly implemented")
    with store_errors("use", address):
        try:
            path = StorePath(address, **options(protocol))
            path.fs.retries = CUTS  # of s3fs; others do not read it
            path / "x"
        except _NO_STORE as error:
            raise BuildError(
                f"{protocol}:// cannot be used here: its filesystem takes more than an address, or has no folders. "
                "Give a folder or s3://."
            ) from error
    return path


def filesystem_of(address: str) -> Any:
    """Return the fsspec filesystem of an address, whatever characters the file's name has."""
    protocol, _, location = address.partition("://")
    return store_path(f"{protocol}://{location.partition('/')[0]}").fs


class StorePath(ObjectPath, ProxyUPath):  # type: ignore[misc]  # has no types where the extra is not installed
    """A path in a store.

    It differs from a universal-pathlib path in this: a request that a store refuses or fails is an error, where
    `UPath.is_file` and `exists` answer False; listings are sorted; a question about a file takes one or two requests.
    Its methods raise `FileNotFoundError` where there is no such file, and `BuildError` for other errors of a store.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return store_path, (str(self),)  # another process makes a client of its own

    def __rtruediv__(self, folder: Path | str) -> StorePath:
        return self  # below any folder, as an absolute path

    def expanduser(self) -> StorePath:
        return self

    def resolve(self, strict: bool = False) -> StorePath:
        return self

    def require_access(self, *, writing: bool = False) -> None:
        # Ask for the bucket, so that a wrong address or wrong credentials are reported before any work is done.
        bucket = self.path.strip("/").partition("/")[0]
        if self.protocol in _OBJECTS:
            # With few attempts, so that errors are reported at once.
            probe = type(self)(f"{self.protocol}://{bucket}/", **options(self.protocol, PROBE_ATTEMPTS))
            probe.fs.retries = 1
            try:
                with store_errors("use", str(self)):
                    probe.fs.info(bucket)
            except FileNotFoundError as error:
                raise BuildError(f"Cannot use {self}: {NO_BUCKET}") from error
        if writing:
            file = self / ".state" / "asked"  # one name, so that the next run removes what this one could not
            with store_errors("write", str(self)):
                file.write(b"-")
            file.unlink(missing_ok=True)

    def info(self) -> dict[str, Any] | None:
        # What the store says of a file or folder: `type`, `size`, and more by its kind; None if there is none.
        try:
            with store_errors("look at", str(self)):
                return dict(self.fs.info(self.path))
        except FileNotFoundError:
            return None

    def size(self) -> int | None:
        # `listings.FOLDER` for a folder; None if there is none. While listings are cached, they answer.
        if (cache := listings.CACHE.get()) is not None:
            return cache.size(self)
        info = self.info()
        return None if info is None else listings.entry_size(info)

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        return self.size() is not None

    def is_file(self) -> bool:
        return self.size() not in (None, listings.FOLDER)

    def is_dir(self) -> bool:
        return self.size() == listings.FOLDER

    def is_symlink(self) -> bool:
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        size = self.size()
        if size is None:
            raise os_error(errno.ENOENT, self)
        kind = stat.S_IFDIR if size == listings.FOLDER else stat.S_IFREG
        return os.stat_result((kind, 0, 0, 0, 0, 0, max(size, 0), 0, 0, 0))

    def names(self) -> list[str]:
        # Sorted. Raises `FileNotFoundError` or `NotADirectoryError` where there is no such folder.
        cache = listings.CACHE.get()
        return list(listings.list_folder(self) if cache is None else cache.listing(self))

    @staticmethod
    def names_in_each(folders: Sequence[Path]) -> Iterator[list[str]]:
        return map(list, listings.list_ahead(folders))

    def cached_listings(self) -> AbstractContextManager[object]:
        return listings.cached_listings(str(self))

    def iterdir(self) -> Iterator[StorePath]:
        # Sorted; empty if there is no such folder.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            yield from (self / name for name in self.names())

    def files(self) -> list[tuple[StorePath, int]]:
        # All files below a folder with their sizes, sorted by path; one request for each thousand.
        try:
            with store_errors("list", str(self)):
                entries = self.fs.find(self.path, detail=True)
        except FileNotFoundError:
            return []
        base = self.path.rstrip("/") + "/"
        return [
            (self / name.removeprefix(base), int(entry["size"]))
            for name, entry in sorted(entries.items())
            if name.startswith(base) and not name.endswith("/")
        ]

    def files_below(self) -> Iterator[str]:
        base = f"{self.path.rstrip('/')}/"
        return (path.path.removeprefix(base) for path, _ in self.files())

    def entries(self, excluded: Collection[str]) -> Iterator[StorePath]:
        # One listing, where asking for each file would be a request for each.
        return (path for path, _ in self.files() if path.relative_to(self).parts[0] not in excluded)

    def sizes(self, files: Sequence[str]) -> Iterator[int]:
        for file, size in zip(files, listings.sizes_of(self, files), strict=True):
            if size is None:
                raise os_error(errno.ENOENT, self / file)
            refuse_irregular(str(self / file), stat.S_IFDIR if size == listings.FOLDER else stat.S_IFREG)
            yield size

    def inside(self, path: str | Path) -> StorePath:
        # A store has no links, and takes any name for a name.
        text = str(path)
        if not is_printable(text) or any(name in ("", ".", "..") for name in text.split("/")):
            raise BuildError(
                f"{one_line(text)} does not lie inside {self}. Remove it, and run the same command again."
            )
        joined: StorePath = self / text
        return joined

    def glob(self, pattern: str, **_: Any) -> Iterator[StorePath]:
        # Of one folder: the pattern has no slash.
        yield from (path for path in self.iterdir() if fnmatch.fnmatchcase(path.name, pattern))

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            with store_errors("remove", str(self)):
                self.fs.rm_file(self.path)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def read_bytes(self) -> bytes:
        return self._read(0)  # without a start, s3fs first asks for the size

    def read_end(self, size: int) -> bytes:
        # The last bytes, or all that the file has, in one request.
        return self._read(-size)[-size:]  # a store may send more than it was asked for (RFC 9110, 14.2)

    def _read(self, start: int) -> bytes:
        try:
            with store_errors("read", str(self)):
                return bytes(self.fs.cat_file(self.path, start=start))
        except BuildError as error:
            if code_of(error) in EMPTY:
                return b""
            raise

    def read_text(self, encoding: str | None = None, errors: str | None = None, newline: str | None = None) -> str:
        return io.TextIOWrapper(io.BytesIO(self.read_bytes()), encoding or "utf-8", errors, newline).read()

    def open_ranges(self, read_ahead: int = READ_AHEAD) -> RangedFile:
        # Bytes behind a range are kept for the next.
        return self._open(block_size=read_ahead or 1, cache_type="readahead" if read_ahead else "none")

    def open_regular(self) -> Any:
        # To read forward, with or without gaps: the more is read in a row, the more is read ahead.
        one_at_a_time = {} if self.fs.async_impl else {"concurrency": 1}
        return self._open(cache_type=GrowingReadAhead.name, cache_options=one_at_a_time)

    def _open(self, **options: Any) -> RangedFile:
        with store_errors("read", str(self)):
            return RangedFile(self.fs.open(self.path, "rb", **options), str(self))

    def open(self, mode: str = "r", *args: Any, **options: Any) -> Any:
        # To read from start to end.
        if mode != "rb":
            raise ValueError(f"{self} is opened as {mode!r}: files in a store are read as rb, or written as a whole")
        return io.BufferedReader(self.open_ranges(read_ahead=0), READ_WHOLE)

    def write(self, data: bytes, **condition: Any) -> None:
        # In one request, which may have 5 GB.
        if self.protocol in ("s3", "s3a"):
            condition["chunksize"] = len(data) + 1  # or s3fs sends it in parts, and drops the condition
        self._make_parent()
        self.fs.pipe_file(self.path, data, **condition)

    @contextlib.contextmanager
    def atomic_path(self) -> Iterator[Path]:
        with scratch_folder("upload") as folder:
            temporary = folder / self.name
            yield temporary
            self.put(temporary)

    def replace_unless_changed(self, data: bytes, is_read: Callable[[bytes | None], bool]) -> None:
        # S3 and stores like it check the condition themselves (`If-Match`, `If-None-Match`). gcsfs can refuse to
        # replace a file. Otherwise the version is requested again just before, which leaves the moment between.
        before = self._version()
        try:
            content = self.read_bytes() if before else None
        except FileNotFoundError:
            content = None
        if not is_read(content):
            raise ChangedMeanwhileError(self)
        try:
            if self.protocol in ("s3", "s3a"):
                self.write(data, **({"IfMatch": before} if before else {"IfNoneMatch": "*"}))
            else:
                if self._version() != before:
                    raise ChangedMeanwhileError(self)
                creates = not before and self.protocol in ("gs", "gcs")
                self.write(data, **({"mode": "create"} if creates else {}))
        except client_errors() as error:
            if not is_change(error):
                with store_errors("write", self):
                    raise
            # A request that came through is sent again where its answer was cut, and then finds what it wrote itself.
            if self.info() is None or self.read_bytes() != data:
                raise ChangedMeanwhileError(self) from error

    def _version(self) -> str:
        # The ETag, or all that fsspec says of the file; empty if there is no file.
        info = self.info()
        if info is None or info["type"] != "file":
            return ""
        return str(info.get("ETag") or sorted((name, str(value)) for name, value in info.items()))

    def put(self, local: Path) -> None:
        # Write it from a local file, in one request or in parts; it has all of its new bytes, or is unchanged.
        with store_errors("write", str(self)):
            self._make_parent()
            parts = {"chunksize": UPLOAD_PART} if self.protocol in _OBJECTS else {}
            self.fs.put_file(str(local), self.path, **parts)

    def _make_parent(self) -> None:
        if self.protocol not in _OBJECTS:
            self.fs.makedirs(self.fs._parent(self.path), exist_ok=True)
