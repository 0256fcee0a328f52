"""Lists the image files of one set in a copy of a published benchmark, folder by folder.

Tested by `tests/builders/adopt/test_copies.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.errors import BuildError

Log = Callable[[str], None]
"""Prints one line for the user."""

LABELLED = "labels"
"""Folder between a set and its class folders in the authors' archives."""

UNLABELLED = "no-labels"
"""Folder between a set and folders that are not named after classes."""

_SUFFIXES = (b".jpeg", b".jpg", b".png", b".bmp", b".gif", b".webp", b".tif", b".tiff")
_SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8")
_HIDDEN = (b".", b"__MACOSX")


@dataclass(frozen=True)
class FileListing:
    """The image files of one set, folder by folder, sorted.

    File i is `names[i]` in `folders[folder_of[i]]`. `classes` gives for each of `folders` the class that it is named
    after, as a path, or "" for a folder that is not named after one. `empty` lists class folders without images.
    `ignored` lists the entries left out: hidden ones, and files with neither the extension nor the signature of an
    image.
    """

    folders: tuple[Path, ...]
    classes: tuple[str, ...]
    folder_of: npt.NDArray[np.int64]
    names: pa.Array = field(repr=False)
    empty: tuple[tuple[str, Path], ...]
    ignored: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.names)

    def path(self, file: int) -> Path:
        """Return the path of a file, by its number."""
        return self.folders[int(self.folder_of[file])] / os.fsdecode(self.names[file].as_py())


def list_images(folder: Path) -> FileListing:
    """List the images below one set's folder; only files without an image's extension are opened.

    Links to folders are followed, and each folder is listed once.

    Raises:
        BuildError: a folder cannot be read.
    """
    folders, classes, counts, names = [], [], [], []
    empty: list[tuple[str, Path]] = []
    ignored: list[Path] = []
    seen = set()
    pending: list[tuple[Path, tuple[str, ...]]] = [(folder, ())]
    while pending:
        current, parents = pending.pop()
        with reading_copy(current):
            status = current.stat()
            subfolders, images, strays = _children(current)
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        ignored += [current / name for name in strays]
        pending += [(current / name, (*parents, name)) for name in reversed(subfolders)]
        named_after = "" if parents[:1] == (UNLABELLED,) else "/".join(parents[parents[:1] == (LABELLED,) :])
        if images:
            folders.append(current)
            classes.append(named_after)
            counts.append(len(images))
            names.append(pa.array(images, pa.binary()))
        elif named_after and not subfolders:
            empty.append((named_after, current))
    all_names = pa.concat_arrays(names) if names else pa.array([], pa.binary())
    folder_of = np.repeat(np.arange(len(folders), dtype=np.int64), np.array(counts, dtype=np.int64))
    return FileListing(tuple(folders), tuple(classes), folder_of, all_names, tuple(empty), tuple(ignored))


def _children(folder: Path) -> tuple[list[str], list[bytes], list[str]]:
    """Names of the folders, images and other files in a folder, each sorted."""
    subfolders, images, strays = [], [], []
    with os.scandir(os.fsencode(folder)) as entries:
        for entry in entries:
            # Desktops leave hidden entries: macOS writes `._x.JPEG` beside x.JPEG on foreign disks.
            if entry.name.startswith(_HIDDEN):
                strays.append(os.fsdecode(entry.name))
            elif entry.is_dir():
                subfolders.append(os.fsdecode(entry.name))
            elif entry.name.lower().endswith(_SUFFIXES) or _is_signed(entry):
                images.append(entry.name)
            else:
                strays.append(os.fsdecode(entry.name))
    return sorted(subfolders), sorted(images), sorted(strays)


def _is_signed(entry: os.DirEntry[bytes]) -> bool:
    if not entry.is_file():
        return False
    with Path(os.fsdecode(entry.path)).open("rb") as opened:
        return opened.read(12).startswith(_SIGNATURES)


@contextmanager
def reading_copy(path: Path) -> Iterator[None]:
    """Turn an error while reading the copy into a `BuildError`."""
    try:
        yield
    except OSError as error:
        raise BuildError(
            f"Cannot read {error.filename or path}: {error.strerror}. Restore it in the adopted copy and run again."
        ) from error
