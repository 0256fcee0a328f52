"""Searches a folder and the folders below it for a dataset: archives and mirrors add levels of folders.

Tested by `tests/builders/sources/test_errors.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from builders.sources.readers.folders import escape_name, relative
from builders.storage.paths import store_of

DEPTH = 4
"""Levels below the user's folder that are searched. Kaggle's ImageNet has three, `ILSVRC/Data/CLS-LOC`."""

WIDTH = 40
"""A folder with more subfolders than this holds classes rather than datasets, and is not searched."""

FOLDERS = 1000
"""Folders searched before the search ends: the user may have given the root of a disk."""

T = TypeVar("T")


@dataclass(frozen=True)
class SearchResult(Generic[T]):
    """The result of a search: folders with what was read in them, and skipped folders with the reason."""

    matches: tuple[tuple[Path, T], ...]
    skipped: tuple[str, ...]


def search_below(root: Path, read: Callable[[Path], T | None]) -> SearchResult[T]:
    """Call `read` on a folder and the folders below it, level by level and by name.

    Folders below one in which something was found belong to it and are not searched. Hidden folders are never
    searched, and links out of `root` are not followed.

    Args:
        root: the user's folder.
        read: returns what it finds in a folder, or None.
    """
    matches: list[tuple[Path, T]] = []
    skipped: list[str] = []
    top = root.resolve()
    seen = {top}
    level, searched = [root], 0
    for depth in range(DEPTH + 1):
        below: list[Path] = []
        for home in level:
            if searched == FOLDERS:
                return SearchResult(tuple(matches), (*skipped, f"all after the first {FOLDERS:,} folders"))
            searched += 1
            match = read(home)
            if match is not None:
                matches.append((home, match))
            elif depth < DEPTH:
                below += _inner(home, top, seen, skipped, root)
        level = below
    return SearchResult(tuple(matches), tuple(skipped))


def _inner(home: Path, top: Path, seen: set[Path], skipped: list[str], root: Path) -> list[Path]:
    """Return the subfolders to be searched, sorted; adds to `seen` and `skipped`."""
    names = [name for name in store_of(home).folders(home) if not name.startswith(".")]
    inner = []
    for name in names if len(names) <= WIDTH else ():
        path = home / name
        reason = _closed(path, top)
        if reason:
            skipped.append(f"{escape_name(relative(path, root))} ({reason})")
        elif (target := path.resolve()) not in seen:
            seen.add(target)
            inner.append(path)
    return inner


def _closed(path: Path, top: Path) -> str:
    """Return why a folder is not searched; empty if it is."""
    if not path.resolve().is_relative_to(top):
        return "a link to another place"
    if not store_of(path).is_readable(path):
        return "no permission"
    return "" if os.fsencode(path.name).decode("utf-8", "replace") == path.name else "its name is not UTF-8"
