"""Lists the folders of a store, and caches listings while a source is indexed.

Readers ask of hundreds of names whether they are folders. In a store each such question is one or two requests, so
they are answered from the cached listing of the folder above, a thousand names a request. The cache has names and
sizes, not what fsspec says of each object, which is thirty times as much. It ends with the block that uses it, since
other processes write to the same folders.

Nothing outside of the folder that the person gave is requested: credentials may be for that folder alone.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

from builders.storage.stores.errors import os_error, store_errors

FOLDER = -1
"""The size of a folder in a listing."""

_MOST_FOLDERS = 200
"""Folders in a cache (ours), of those that were used last: 40 MB for a thousand images each."""

LISTED_TOGETHER = 16
"""Folders that are listed at the same time (ours); S3 takes 5,500 such requests a second and prefix."""

_FEW = 2
"""Files of a folder up to which each is asked for, rather than all names of the folder (ours)."""

_LISTED_AHEAD = 64
"""Folders whose names are held at most, of those that are listed ahead (ours)."""

Listing = dict[str, int]
"""The names in a folder, sorted, with their sizes; `FOLDER` for folders."""


def list_folder(folder: Any) -> Listing:
    """List a folder, given as `StorePath`; `FileNotFoundError` or `NotADirectoryError` if there is none.

    The order in which a store gives names does not matter. A name that is both a file's and a folder's stands for the
    folder. The empty object that consoles put in place of a folder is none of its files.
    """
    with store_errors("list", folder):
        entries = folder.fs.ls(folder.path, detail=True)
    base = folder.path.rstrip("/") + "/"
    sizes: dict[str, int] = {}
    for entry in entries:
        name = entry["name"].removeprefix(base).rstrip("/")
        if entry["name"].rstrip("/") == base[:-1]:
            if entry["type"] == "file" and len(entries) == 1 and not entry["name"].endswith("/"):
                raise os_error(errno.ENOTDIR, folder)
            continue
        size = entry_size(entry)
        sizes[name] = FOLDER if sizes.get(name) == FOLDER else size
    return dict(sorted(sizes.items()))


def entry_size(entry: Mapping[str, Any]) -> int:
    """Return the size of a file by fsspec's description, or `FOLDER`."""
    return FOLDER if entry["type"] == "directory" else int(entry["size"] or 0)


def list_ahead(folders: Iterable[Any], read: Callable[[Any], Listing] = list_folder) -> Iterator[Listing]:
    """Yield the listings of a store's folders in order, requesting several at a time."""
    remaining = iter(folders)
    while batch := list(itertools.islice(remaining, _LISTED_AHEAD)):
        with _threads(batch[0]) as threads:
            yield from threads.map(read, batch)


def _list_if_there(folder: Any) -> Listing:
    try:
        return list_folder(folder)
    except (FileNotFoundError, NotADirectoryError):
        return {}


def _threads(path: Any) -> ThreadPoolExecutor:
    # A filesystem that is not asynchronous may take one request at a time alone.
    return ThreadPoolExecutor(LISTED_TOGETHER if path.fs.async_impl else 1)


def sizes_of(root: Any, files: Sequence[str]) -> list[int | None]:
    """Return the sizes of files below a `StorePath`: `FOLDER` for a folder, None if nothing is there."""
    numbers_of: dict[str, list[int]] = {}
    for number, file in enumerate(files):
        numbers_of.setdefault(file.rpartition("/")[0], []).append(number)
    sizes: list[int | None] = [None] * len(files)
    large = {folder: numbers for folder, numbers in sorted(numbers_of.items()) if len(numbers) > _FEW}
    listings = list_ahead((root / folder if folder else root for folder in large), _list_if_there)
    for numbers, listing in zip(large.values(), listings, strict=True):
        for number in numbers:
            sizes[number] = listing.get(files[number].rpartition("/")[2])
    few = [number for folder, numbers in numbers_of.items() if folder not in large for number in numbers]
    with _threads(root) as threads:
        for number, size in zip(few, threads.map(lambda number: (root / files[number]).size(), few), strict=True):
            sizes[number] = size
    return sizes


class ListingCache:
    """A cache of the listings of a store's folder, given by address, and of the folders below it."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        self.listing = functools.lru_cache(_MOST_FOLDERS)(self._listing)

    def size(self, path: Any) -> int | None:
        """Return the size of a file, or `FOLDER`; None if nothing is there, or it is not below the folder."""
        address = str(path).rstrip("/")
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if address == self.root:
                self.listing(path)
                return FOLDER
            if address.startswith(f"{self.root}/"):
                return self.listing(path.parent).get(path.name)
        return None

    def _listing(self, folder: Any) -> Listing:
        # Of a folder that does not exist its own parent knows, which is nearly always listed already.
        if str(folder).rstrip("/") != self.root and (size := self.size(folder)) != FOLDER:
            raise os_error(errno.ENOENT if size is None else errno.ENOTDIR, folder)
        return list_folder(folder)


CACHE: ContextVar[ListingCache | None] = ContextVar("listings", default=None)
"""The cache of the innermost `cached_listings` block."""


@contextlib.contextmanager
def cached_listings(root: str) -> Iterator[ListingCache]:
    """Cache listings below a folder, given by address, inside the block; nested blocks share one cache."""
    outer = CACHE.get()
    if outer is not None and outer.root == root.rstrip("/"):
        yield outer
        return
    cache = ListingCache(root)
    token = CACHE.set(cache)
    try:
        yield cache
    finally:
        CACHE.reset(token)
