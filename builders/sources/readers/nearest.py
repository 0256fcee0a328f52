"""Finds the accepted layout that a folder resembles most, for the message that the dataset was not found.

Tested by `tests/builders/sources/test_errors.py`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from builders.sources.readers.folders import child_names, printable
from builders.storage.paths import store_of

_DEPTH = 4
_CHILDREN = 4
_ALIKE = 0.6
"""Least ratio of `difflib.SequenceMatcher`; 0.6 is also what `difflib.get_close_matches` asks for."""

# The parts of a path that vary by image or class: placeholders in descriptions; wnids, keys and numbers in file names.
_VARIABLE = re.compile(r"<[^>]*>|\*|[0-9a-f]{16,}|n?[0-9]+", re.ASCII)
_PATH = re.compile(r"[\w#.-]*[/.][\w#./-]*\w", re.ASCII)


@dataclass(frozen=True)
class Nearest:
    """A path in the user's folder, and the description of the layout that it resembles."""

    path: str
    layout: str


def nearest(root: Path, layouts: Sequence[str]) -> Nearest | None:
    """Compare some paths below a folder with the paths in descriptions of layouts.

    Args:
        root: an existing folder.
        layouts: descriptions with paths, such as `train/<wnid>/<wnid>_<number>.JPEG`.

    Returns:
        The most similar pair, or None if none is similar enough.
    """
    wanted = [(shape, text) for text in layouts for shape in _PATH.findall(_VARIABLE.sub("#", text))]
    best, found = _ALIKE, None
    for path in _paths(root, "", _DEPTH):
        for shape, text in wanted:
            alike = difflib.SequenceMatcher(None, _VARIABLE.sub("#", path), shape, autojunk=False).ratio()
            if alike > best:
                best, found = alike, Nearest(path, text)
    return found


def _paths(folder: Path, place: str, depth: int) -> Iterator[str]:
    """Yield some files below a folder: the first few visible children of each folder, by name."""
    names = [name for name in child_names(folder) if not name.startswith(".")]
    for name in names[:_CHILDREN]:
        path = folder / name
        if not path.is_dir():
            yield place + printable(name)
        elif depth and not path.is_symlink() and store_of(path).is_readable(path):
            yield from _paths(path, f"{place}{printable(name)}/", depth - 1)
