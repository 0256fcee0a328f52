"""Lists folders without looking at individual files, and makes columns of names.

A complete ImageNet has 1.3 million files. Names go to Arrow one class at a time, so that Python never holds them all.

Tested by `tests/builders/sources/test_layouts.py`.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.storage.folders import is_readable, names_in
from unknown_detection.names import folded
from unknown_detection.words import printable


def child_names(folder: Path) -> list[str]:
    """Return the names in a folder, sorted since the order of a listing depends on the file system.

    Raises:
        BuildError: it cannot be listed, for instance because it is a file.
    """
    with listing(folder):
        return names_in(folder)


_OF_SYSTEMS = frozenset({"__MACOSX", "@eaDir", "#recycle", "@Recycle", "$RECYCLE.BIN", "System Volume Information"})
"""Folders that macOS adds to archives, Synology's drives to each folder (with smaller copies of its pictures), and
drives of Synology, QNAP and Windows to a disk (with what was deleted)."""


def is_hidden(name: str) -> bool:
    """Whether desktops hide a name: it begins with a dot, or is a folder that systems add and nobody made."""
    return name.startswith(".") or name in _OF_SYSTEMS


@contextlib.contextmanager
def listing(folder: Path) -> Iterator[None]:
    """Turn what the system refuses while a folder, or one below it, is listed into a `BuildError`."""
    try:
        yield
    except OSError as error:
        if isinstance(error, PermissionError):
            raise not_permitted(error) from error
        place = folder if error.filename is None else error.filename
        raise BuildError(
            f"Cannot list {escape_name(str(place))}: {error.strerror}. Put the folder in its place, or remove it."
        ) from error


def not_permitted(error: PermissionError) -> BuildError:
    """Return the error that names the folder which this user may not list or enter."""
    path = Path(os.fsdecode(error.filename or "."))
    folder = next((each for each in reversed([path, *path.parents]) if each.is_dir() and not is_readable(each)), path)
    return BuildError(
        f"Cannot list {escape_name(str(folder))}: {error.strerror}. Allow this user to list and enter it (chmod "
        "u+rx), or run this as one who may."
    )


def with_folders_above(folder: Path) -> list[Path]:
    """Return a folder and the three above it, where an owner's list may lie.

    Kaggle's list of ImageNet lies three above the images' `ILSVRC/Data/CLS-LOC`, and OpenOOD's lists as far above its
    `images_largescale/openimage_o/images`.
    """
    absolute = folder.absolute()
    return [absolute, *absolute.parents[:3]]


def text_array(texts: Sequence[str], prefix: str = "") -> pa.Array:
    """Return file names, each after a prefix, as an Arrow array; bytes that are not UTF-8 are replaced."""
    joined = prefix + f"\0{prefix}".join(texts)
    if not joined.isascii():
        texts = [_utf8(text) for text in texts]
        joined = prefix + f"\0{prefix}".join(texts)
    # Divided by Arrow in a third of the time. No file system has a name with a zero byte, but an archive may.
    divided = pc.split_pattern(pa.array([joined], pa.string()), "\0").values
    return divided if len(divided) == len(texts) else pa.array([prefix + text for text in texts], pa.string())


def _utf8(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")


def escape_name(name: str) -> str:
    """Return a file name of any bytes as printable text with escapes."""
    return printable(_utf8(name))


def relative(path: Path, root: Path) -> str:
    """Return a path relative to the root with forward slashes; `.` for the root itself."""
    text, above = str(path), str(root).rstrip(os.sep) + os.sep
    if text.startswith(above):  # a tenth of the time of pathlib, for each of some thousand folders
        return text.removeprefix(above).replace(os.sep, "/")
    return path.relative_to(root).as_posix()


def by_spelling(classes: Mapping[str, str]) -> Callable[[str], str | None]:
    """Return a function that finds a class by its id or name, however it separates words; None for other texts.

    Mirrors write "/b/balcony/exterior" as "b_balcony_exterior", "Balcony exterior" and the like, in any encoding.
    """

    def plain(text: str) -> str:
        return re.sub(r"[/_\- ]+", " ", folded(text)).strip()

    spellings = {plain(text): class_id for class_id, name in classes.items() for text in (class_id, name)}
    return lambda text: spellings.get(plain(text))
