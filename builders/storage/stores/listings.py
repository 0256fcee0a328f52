"""Lists folders of a store, and caches the listings while a source is indexed.

Readers ask of hundreds of names whether they are folders. In a store each such question is one or two requests, so
they are answered from the cached listing of the folder above, a thousand names a request. The cache has names and
sizes, not what fsspec says of each object, which is thirty times as much. It ends with the block that uses it, since
other processes write to the same folders.

Nothing outside of the folder that the person gave is requested: credentials may be for that folder alone.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

from builders.storage.stores.errors import store_errors

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
    """List a folder, a `StorePath`; the order in which a store gives names does not matter.

    A name that is both a file's and a folder's stands for the folder. The empty object that consoles put in place of a
    folder is none of its files.

    Raises:
        FileNotFoundError: there is no such folder.
        NotADirectoryError: it is a file.
        BuildError: the store refuses or fails.
    """
    with store_errors("list", folder):
        entries = folder.fs.ls(folder.path, detail=True)
    base = folder.path.rstrip("/") + "/"
    sizes: dict[str, int] = {}
    for entry in entries:
        name = entry["name"].removeprefix(base).rstrip("/")
        if entry["name"].rstrip("/") == base[:-1]:
            if entry["type"] == "file" and len(entries) == 1 and not entry["name"].endswith("/"):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
            continue
        size = _entry_size(entry)
        sizes[name] = FOLDER if sizes.get(name) == FOLDER else size
    return dict(sorted(sizes.items()))


def list_ahead(folders: Iterable[Any], *, missing: bool = False) -> Iterator[Listing]:
    """Yield the listings of folders, each a `StorePath` of one store, in order; several are requested at a time.

    With `missing`, a folder that does not exist has no names; otherwise it raises as `list_folder`.
    """

    def list_or_empty(folder: Any) -> Listing:
        try:
            return list_folder(folder)
        except (FileNotFoundError, NotADirectoryError):
            if missing:
                return {}
            raise

    remaining = iter(folders)
    while batch := list(itertools.islice(remaining, _LISTED_AHEAD)):
        with ThreadPoolExecutor(_concurrency(batch[0])) as threads:
            yield from threads.map(list_or_empty, batch)


def _concurrency(path: Any) -> int:
    """Return the number of parallel requests: 1 for filesystems that are not asynchronous, which may take no more."""
    return LISTED_TOGETHER if path.fs.async_impl else 1


def sizes_of(root: Any, files: Sequence[str]) -> list[int | None]:
    """Return the sizes of files below a `StorePath`: `FOLDER` for a folder, None where nothing is there.

    Raises:
        BuildError: the store refuses or fails.
    """
    numbers_of: dict[str, list[int]] = {}
    for number, file in enumerate(files):
        numbers_of.setdefault(file.rpartition("/")[0], []).append(number)
    sizes: list[int | None] = [None] * len(files)
    large = {folder: numbers for folder, numbers in sorted(numbers_of.items()) if len(numbers) > _FEW}
    listings = list_ahead((root / folder if folder else root for folder in large), missing=True)
    for numbers, listing in zip(large.values(), listings, strict=True):
        for number in numbers:
            sizes[number] = listing.get(files[number].rpartition("/")[2])
    few = [number for folder, numbers in numbers_of.items() if folder not in large for number in numbers]
    with ThreadPoolExecutor(_concurrency(root)) as threads:
        entries = threads.map(lambda number: (root / files[number]).info(), few)
        for number, entry in zip(few, entries, strict=True):
            sizes[number] = None if entry is None else _entry_size(entry)
    return sizes


def _entry_size(entry: Mapping[str, Any]) -> int:
    return FOLDER if entry["type"] == "directory" else int(entry["size"])


class ListingCache:
    """The listings of a folder of a store, given by its address, and of folders below it."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        self._listings: OrderedDict[str, Listing | OSError] = OrderedDict()

    def listing(self, folder: Any) -> Listing:
        """Return the listing of a folder, cached if possible; raises as `list_folder`, also for a folder outside."""
        address = str(folder).rstrip("/")
        if address not in self._listings:
            # Of a folder that does not exist its own parent knows, which is nearly always listed already.
            if address != self.root and (size := self._size(folder)) != FOLDER:
                number = errno.ENOENT if size is None else errno.ENOTDIR
                raise OSError(number, os.strerror(number), address)  # the subclass of its number
            self._list(address, folder)
        self._listings.move_to_end(address)
        listing = self._listings[address]
        if isinstance(listing, OSError):
            raise listing
        return listing

    def info(self, path: Any) -> dict[str, Any] | None:
        """Return `name`, `type` and `size` of a path as fsspec does; None if nothing is there or it is outside.

        Raises:
            BuildError: the store refuses or fails.
        """
        size = self._size(path)
        if size is None:
            return None
        return {"name": path.path, "type": "directory" if size == FOLDER else "file", "size": max(size, 0)}

    def _list(self, address: str, folder: Any) -> None:
        try:
            self._listings[address] = list_folder(folder)
        except (FileNotFoundError, NotADirectoryError) as error:
            self._listings[address] = error
        if len(self._listings) > _MOST_FOLDERS:
            self._listings.popitem(last=False)

    def _size(self, path: Any) -> int | None:
        address = str(path).rstrip("/")
        try:
            if address == self.root:
                self.listing(path)
                return FOLDER
            return self.listing(path.parent).get(path.name) if address.startswith(f"{self.root}/") else None
        except (FileNotFoundError, NotADirectoryError):
            return None


_CACHE: ContextVar[ListingCache | None] = ContextVar("listings", default=None)


def current_cache() -> ListingCache | None:
    """Return the cache of the innermost `cached_listings` block."""
    return _CACHE.get()


@contextlib.contextmanager
def cached_listings(root: str) -> Iterator[ListingCache]:
    """Cache listings below a folder, given by its address, while the block runs; nested blocks share a cache."""
    outer = _CACHE.get()
    if outer is not None and outer.root == root.rstrip("/"):
        yield outer
        return
    cache = ListingCache(root)
    token = _CACHE.set(cache)
    try:
        yield cache
    finally:
        _CACHE.reset(token)
