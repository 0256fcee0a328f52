"""Lists folders and looks up their files, on this machine or in a store.

A function raises `OSError` where a folder or file is not there or cannot be used, and `BuildError` where there is no
regular file, or where a store refuses or fails.

Tested by `tests/builders/storage/stores/test_listings.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from builders.storage.files import refuse_irregular
from builders.storage.object_path import ObjectPath
from unknown_detection.durable import TEMPORARY


def takes_requests(folder: Path) -> bool:
    """Whether each look into a folder is a request to a store, which makes a user wait."""
    return isinstance(folder, ObjectPath)


_MOST_NAMES = 100_000
"""Names in the cache of listings of this machine at most (ours): 10 MB."""


_Names = Callable[[Path], Iterable[str]]
"""Lists names in a folder, in any order."""


class _Listings(dict[tuple[_Names, str], list[str]]):
    """What functions list of folders of this machine: what came first, until it has `_MOST_NAMES` names."""

    names = 0


_CACHE: ContextVar[_Listings | None] = ContextVar("listings of this machine", default=None)


@contextmanager
def cached_listings(root: Path) -> Iterator[object]:
    """Cache the listings of a source's folder inside the block, since all layouts of all sources are tried on it."""
    if isinstance(root, ObjectPath):
        with root.cached_listings() as cache:
            yield cache
        return
    cache = _CACHE.get()
    token = _CACHE.set(_Listings() if cache is None else cache)
    try:
        yield None
    finally:
        _CACHE.reset(token)


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder, sorted since the order of a listing depends on the file system."""
    # `listdir` takes a third of the time of iterdir, over 1.3 million names.
    return folder.names() if isinstance(folder, ObjectPath) else _listed(os.listdir, folder)


def _listed(names_of: _Names, folder: Path) -> list[str]:
    """Return what a function lists of a folder, sorted, from the cache if it has that."""
    cache, key = _CACHE.get(), (names_of, str(folder))
    if cache is not None and key in cache:
        return [*cache[key]]
    names = sorted(names_of(folder))
    if cache is not None and cache.names + len(names) <= _MOST_NAMES:
        cache[key] = [*names]
        cache.names += len(names)
    return names


def names_in_each(folders: Sequence[Path]) -> Iterator[list[str]]:
    """Yield the names in each folder; folders of a store are listed several at a time."""
    first = folders[0] if folders else None
    return first.names_in_each(folders) if isinstance(first, ObjectPath) else map(names_in, folders)


def folders_in(folder: Path) -> list[str]:
    """Return the sorted names of the folders, and of links to folders, in a folder."""
    if isinstance(folder, ObjectPath):
        return [name for name in folder.names() if (folder / name).is_dir()]
    return _listed(_folders_here, folder)


def _folders_here(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries if _is_folder(entry)]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    # A link may be circular, or lead where we have no permission; `isdir` is false for both.
    return os.path.isdir(entry.path) if entry.is_symlink() else entry.is_dir()  # noqa: PTH112


def is_readable(folder: Path) -> bool:
    """Whether this user may list and enter a folder; true for a store, where only a request can tell."""
    return isinstance(folder, ObjectPath) or os.access(folder, os.R_OK | os.X_OK)


def files_below(folder: Path, *, skip_closed: bool = False) -> Iterator[str]:
    """Yield the relative paths of all files and links below a folder, with forward slashes; follows no link.

    Folders that this user may not list are skipped on request, such as the `lost+found` of a file system.
    """
    if isinstance(folder, ObjectPath):
        yield from folder.files_below()
        return

    def refuse(error: OSError) -> None:
        if not (skip_closed and isinstance(error, PermissionError)):
            raise error

    for place, folders, names in os.walk(folder, onerror=refuse):
        folders.sort()
        inner = Path(place).relative_to(folder).as_posix()
        prefix = "" if inner == "." else f"{inner}/"
        linked = (name for name in folders if os.path.islink(os.path.join(place, name)))  # noqa: PTH114, PTH118
        yield from (f"{prefix}{name}" for name in (*names, *linked))


def entries_below(root: Path, excluded: Collection[str]) -> Iterator[Path]:
    """Yield all files and links below a folder, sorted, except the excluded names at its top."""
    if isinstance(root, ObjectPath):
        yield from root.entries(excluded)
        return
    for top in sorted(path for path in root.iterdir() if path.name not in excluded):
        for path in (top, *sorted(top.rglob("*"))) if not top.is_symlink() else (top,):
            if path.is_symlink() or not path.is_dir():
                yield path


def sizes_of(root: Path, files: Sequence[str]) -> Iterator[int]:
    """Yield the bytes of regular files, given by their paths relative to a folder."""
    if isinstance(root, ObjectPath):
        yield from root.sizes(files)
        return
    start = f"{root}{os.sep}"
    for file in files:
        status = os.stat(start + file)  # noqa: PTH116 - a Path costs more than the call
        refuse_irregular(start + file, status.st_mode)
        yield status.st_size


def links_of(root: Path, files: Sequence[str]) -> list[str]:
    """Return the files that are symbolic links, sorted; all are given by their paths relative to a folder."""
    if isinstance(root, ObjectPath):
        return []  # a store has none
    start = f"{root}{os.sep}"
    return sorted(file for file in files if os.path.islink(start + file))  # noqa: PTH114 - a Path costs more


def remove_temporary(root: Path, folders: Sequence[str]) -> None:
    """Remove what killed runs left half-written in a folder and in some folders below it."""
    if isinstance(root, ObjectPath):
        return  # what is half-written lies in a temporary folder here
    leftovers = [*root.glob(f".*{TEMPORARY}")]
    for folder in folders:
        leftovers += (root / folder).rglob(f".*{TEMPORARY}")
    for leftover in sorted(leftovers):
        leftover.unlink()


def remove_staged(folder: Path, suffixes: Iterable[str], own: Iterable[Path]) -> None:
    """Remove all files with some suffixes from a folder; in a store, which other runs share, only those of `own`."""
    if isinstance(folder, ObjectPath):
        for path in own:
            path.unlink(missing_ok=True)
        return
    for suffix in suffixes:
        for path in sorted(folder.glob(f"*{suffix}")):
            path.unlink()
