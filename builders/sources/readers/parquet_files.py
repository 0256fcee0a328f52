"""Finds the Parquet files of a split in a Hub mirror, as the mirror or the Hub's converter names them.

Tested by `tests/builders/sources/test_errors.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from builders.errors import BuildError
from builders.sources.readers.folders import relative
from builders.storage.folders import names_in

# `train-00000-of-00002.parquet`, with a digest before the ending where `datasets` before 2.14 wrote it.
_SHARD_NAME = re.compile(r"-(\d{5})-of-(\d{5})(?:-[0-9a-f]{16})?\.parquet$", re.ASCII)

# The Hub's converter writes `<config>/<split>/0000.parquet` to the branch refs/convert/parquet, and the folder is
# `partial-<split>` where it stopped early.
_CONVERTED = re.compile(r"\d{4,}\.parquet", re.ASCII)
_CONVERTED_FOLDERS = ("{}", "partial-{}")

_DATA = "data"


def split_files(home: Path, split: str) -> list[Path]:
    """Return a split's sorted Parquet files: in `data/`, in the folder itself, or where the Hub converts them."""
    own = _names(home)
    names = [name for name in own if name.endswith(".parquet")]
    for folder in (_DATA, *(name.format(split) for name in _CONVERTED_FOLDERS)):
        if folder in own:
            names += [f"{folder}/{name}" for name in _names(home / folder) if name.endswith(".parquet")]
    if not names:
        return []
    return [home / name for name in split_names(names, split)]


def _names(folder: Path) -> list[str]:
    try:
        return names_in(folder)
    except OSError:  # there is none, or it is a file
        return []


def split_names(names: Iterable[str], split: str) -> list[str]:
    """Return those of a folder's files (paths with forward slashes) that are a split's Parquet files, sorted."""
    by_folder: dict[str, list[str]] = {}
    for name in names:
        folder, _, file = name.rpartition("/")
        by_folder.setdefault(folder, []).append(file)
    named = re.compile(rf"{re.escape(split)}-.*\.parquet")
    patterns = [(_DATA, named), ("", named), *((name.format(split), _CONVERTED) for name in _CONVERTED_FOLDERS)]
    for folder, pattern in patterns:
        if files := sorted(filter(pattern.fullmatch, by_folder.get(folder, ()))):
            return [f"{folder}/{name}" if folder else name for name in files]
    return []


def pattern(files: Sequence[Path], root: Path) -> str:
    """Return the path pattern of a split's files; `*` stands for the part in which they differ."""
    stem, separator, _ = files[0].name.partition("-")
    return f"{relative(files[0].parent, root)}/{stem + separator if separator else ''}*.parquet"


def refuse_gaps(title: str, paths: Sequence[Path]) -> None:
    """Refuse an incomplete set of sorted files, since a row's position in the complete set is its id.

    Raises:
        BuildError: the names are not `...-00000-of-<count>.parquet` up to the count, nor numbers from 0000 on.
    """
    if [path.name for path in paths] == [f"{number:04d}.parquet" for number in range(len(paths))]:
        return
    matches = [_SHARD_NAME.search(path.name) for path in paths]
    numbers = [tuple(map(int, match.groups())) for match in matches if match is not None]
    if numbers != [(number, len(paths)) for number in range(len(paths))]:
        raise BuildError(
            f"{title}: {paths[0].parent} lacks files of a set named like train-00000-of-00001.parquet (found: "
            f"{', '.join(path.name for path in paths)}), and an image is identified by its position in the whole set. "
            "Download the missing files of the mirror."
        )
