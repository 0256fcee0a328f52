"""What one look at a source learns of a store: which names lie in a folder, and which version a file has.

Readers ask of hundreds of names whether they are folders. In a store each such question is one or two requests, so
while a look lasts they are answered from the listing of the folder above, a thousand names a request. Kept are names
and sizes, not what fsspec says of each object, which is thirty times as much; and no listing outlives its look, since
other processes write to the same folders.

What lies outside of the folder that the person gave is not looked at: credentials may be for that folder alone.
"""

from __future__ import annotations

import bisect
import contextlib
import errno
import itertools
import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, NamedTuple

from builders.errors import BuildError
from builders.storage.stores.errors import store_errors

FOLDER = -1
"""What stands for a size where a name is that of a folder."""

_MOST_NAMES = 200_000
"""Names that a look keeps besides those of the last folder (ours): about 20 MB."""

LISTED_TOGETHER = 16
"""Folders that are listed at the same time (ours); S3 takes 5,500 such requests a second and prefix."""

_FEW = 2
"""Files of a folder up to which each is asked for, rather than all names of the folder (ours)."""

_LISTED_AHEAD = 64
"""Folders whose names are held at most, of those that are listed ahead (ours)."""


class Listing(NamedTuple):
    """The sorted names in a folder with their sizes, `FOLDER` for folders."""

    names: list[str]
    sizes: list[int]

    def size(self, name: str) -> int | None:
        """Bytes of a file, `FOLDER` for a folder, None if there is no such name."""
        place = bisect.bisect_left(self.names, name)
        return self.sizes[place] if place < len(self.names) and self.names[place] == name else None


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
        found = folder.fs.ls(folder.path, detail=True)
    base = folder.path.rstrip("/") + "/"
    sizes: dict[str, int] = {}
    for one in found:
        name = one["name"].removeprefix(base).rstrip("/")
        if one["name"].rstrip("/") == base[:-1]:
            if one["type"] == "file" and len(found) == 1 and not one["name"].endswith("/"):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
            continue
        size = FOLDER if one["type"] == "directory" else int(one["size"])
        sizes[name] = FOLDER if sizes.get(name) == FOLDER else size
    names = sorted(sizes)
    return Listing(names, [sizes[name] for name in names])


def list_ahead(folders: Iterable[Any], *, missing: bool = False) -> Iterator[Listing]:
    """List folders, each a `StorePath` of one store, in their order and several at the same time.

    A folder that is not there has no names where `missing` says so; else it raises, as `list_folder`.
    """

    def listed(folder: Any) -> Listing:
        try:
            return list_folder(folder)
        except (FileNotFoundError, NotADirectoryError):
            if missing:
                return Listing([], [])
            raise

    waiting = iter(folders)
    while some := list(itertools.islice(waiting, _LISTED_AHEAD)):
        with ThreadPoolExecutor(_together(some[0])) as threads:
            yield from threads.map(listed, some)


def _together(path: Any) -> int:
    """Requests at the same time; filesystems that are not asynchronous may answer one at a time."""
    return LISTED_TOGETHER if path.fs.async_impl else 1


def sizes_of(root: Any, files: Sequence[str]) -> list[int | None]:
    """The sizes of some files as listings have them: `FOLDER` for a folder, None for what is not there.

    Args:
        root: a folder, a `StorePath`.
        files: paths relative to it.

    Raises:
        BuildError: the store refuses or fails.
    """
    places: dict[str, list[int]] = {}
    for place, file in enumerate(files):
        places.setdefault(file.rpartition("/")[0], []).append(place)
    found: list[int | None] = [None] * len(files)
    many = {folder: some for folder, some in sorted(places.items()) if len(some) > _FEW}
    listings = list_ahead((root / folder if folder else root for folder in many), missing=True)
    for some, listing in zip(many.values(), listings, strict=True):
        for place in some:
            found[place] = listing.size(files[place].rpartition("/")[2])
    few = [place for folder, some in places.items() if folder not in many for place in some]
    with ThreadPoolExecutor(_together(root)) as threads:
        for place, size in zip(few, threads.map(lambda place: _size(root, files[place]), few), strict=True):
            found[place] = size
    return found


def _size(root: Any, file: str) -> int | None:
    found = (root / file).info()
    return None if found is None else FOLDER if found["type"] == "directory" else int(found["size"])


class Look:
    """One look at a folder of a store, given by its address.

    Attributes:
        versions: of the files that were opened, by address.
    """

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        self.versions: dict[str, str] = {}
        self._listings: OrderedDict[str, Listing | OSError] = OrderedDict()
        self._names = 0

    def listing(self, folder: Any) -> Listing:
        """List a folder, or remember its listing; raises as `list_folder`, also of what is outside."""
        address = str(folder).rstrip("/")
        if address not in self._listings:
            # Of a folder that does not exist its own parent knows, which is nearly always listed already.
            if address != self.root and (size := self._size(folder)) != FOLDER:
                number = errno.ENOENT if size is None else errno.ENOTDIR
                raise OSError(number, os.strerror(number), address)  # the subclass of its number
            self._keep(address, folder)
        self._listings.move_to_end(address)
        found = self._listings[address]
        if isinstance(found, OSError):
            raise found
        return found

    def fill(self, folder: Any) -> None:
        """List a folder with all folders below it at once, where these are many and have few names."""
        names: dict[str, dict[str, int]] = {str(folder).rstrip("/"): {}}
        for path, size in folder.files():
            child, size_of = path, size
            while str(child.parent).rstrip("/") not in names:
                names[str(child.parent).rstrip("/")] = {child.name: size_of}
                child, size_of = child.parent, FOLDER
            names[str(child.parent).rstrip("/")][child.name] = size_of
        for address, sizes in names.items():
            self._put(address, Listing(sorted(sizes), [sizes[name] for name in sorted(sizes)]))

    def info(self, path: Any) -> dict[str, Any] | None:
        """Type and size of what is at a path, named as fsspec does; None if nothing is there or it is outside.

        Raises:
            BuildError: the store refuses or fails.
        """
        size = self._size(path)
        if size is None:
            return None
        return {"name": path.path, "type": "directory" if size == FOLDER else "file", "size": max(size, 0)}

    def remember(self, path: Any, details: Mapping[str, Any]) -> None:
        """Remember the version of a file that was opened.

        Raises:
            BuildError: it was opened before, and had another one.
        """
        if self.versions.setdefault(str(path), version_of(details)) != version_of(details):
            raise changed(path)

    def _keep(self, address: str, folder: Any) -> None:
        try:
            found: Listing | OSError = list_folder(folder)
        except (FileNotFoundError, NotADirectoryError) as error:
            found = error
        self._put(address, found)

    def _put(self, address: str, found: Listing | OSError) -> None:
        self._names += _count(found) - _count(self._listings.get(address))
        self._listings[address] = found
        while self._names > _MOST_NAMES and len(self._listings) > 1:
            _, oldest = self._listings.popitem(last=False)
            self._names -= _count(oldest)

    def _size(self, path: Any) -> int | None:
        address = str(path).rstrip("/")
        try:
            if address == self.root:
                self.listing(path)
                return FOLDER
            return self.listing(path.parent).size(path.name) if address.startswith(f"{self.root}/") else None
        except (FileNotFoundError, NotADirectoryError):
            return None


def _count(found: Listing | OSError | None) -> int:
    return len(found.names) if isinstance(found, Listing) else 0


def version_of(details: Mapping[str, Any]) -> str:
    """What tells a file from others of its name: the ETag, or all that fsspec says of it."""
    return str(details.get("ETag") or sorted((name, str(value)) for name, value in details.items()))


def changed(address: object) -> BuildError:
    """The error for a file that has another version than was listed."""
    return BuildError(
        f"{address} changed during the build: the store has another version of it than was listed. Run the same "
        "command again; it resumes."
    )


_LOOK: ContextVar[Look | None] = ContextVar("look", default=None)


def current() -> Look | None:
    """The look that lasts."""
    return _LOOK.get()


@contextlib.contextmanager
def looking_at(root: str) -> Iterator[Look]:
    """Look at a folder, given by its address, while the block runs; within another look at it, go on."""
    before = _LOOK.get()
    if before is not None and before.root == root.rstrip("/"):
        yield before
        return
    look = Look(root)
    token = _LOOK.set(look)
    try:
        yield look
    finally:
        _LOOK.reset(token)
