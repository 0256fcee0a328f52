"""Indexes image files in class folders by listing each folder, without opening or examining single files.

A complete ImageNet has 1.3 million files. Names go to Arrow one class at a time, so that Python never holds them all.

Tested by `tests/builders/sources/test_layouts.py`.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError, more, one_line
from builders.sources.base import OtherDataError, PartitionIndex, Stray, partition_table
from builders.storage.paths import store_of
from builders.storage.text_files import read_lines

Explain = Callable[["ClassFolder", str], str]
"""Returns why a file in a class folder is not an image of that class, or raises `BuildError` if the copy is wrong."""


@dataclass(frozen=True)
class ClassFolder:
    """A folder with the images of one class.

    `prefix` precedes the file name in the source id. `pattern` is the regular expression (ASCII) of the names of this
    class's images. `ending` is a pair for mirrors that add the class to each name: an ending that names may have, and
    the ending that replaces it in the source id.
    """

    class_id: str
    path: Path
    prefix: str
    pattern: str
    ending: tuple[str, str] | None = None


@dataclass(frozen=True)
class Names:
    """The sorted names in a folder: matching ones as an Arrow array, the others as a list."""

    images: pa.Array
    others: list[str]


def child_names(folder: Path) -> list[str]:
    """Return the sorted names in a folder; the order of a listing depends on the file system.

    Raises:
        BuildError: it cannot be listed, for instance because it is a file.
    """
    with _told(folder):
        return store_of(folder).names(folder)


def _names_in_each(folders: Sequence[ClassFolder], root: Path) -> Iterator[list[str]]:
    with _told(root):
        yield from store_of(root).names_in_each([folder.path for folder in folders])


@contextlib.contextmanager
def _told(folder: object) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        place = folder if error.filename is None else error.filename
        raise BuildError(
            f"Cannot list {printable(str(place))}: {error.strerror}. Put the folder in its place, or remove it."
        ) from error


def match_names(names: Sequence[str], pattern: str) -> Names:
    """Split sorted names into those that match a pattern of ASCII characters and the others."""
    # Only ASCII names go to Arrow: it takes no invalid UTF-8, and no pattern matches other characters.
    plain = names if "".join(names).isascii() else [name for name in names if name.isascii()]
    candidates = text_array(plain)
    matches = pc.match_substring_regex(candidates, pattern)
    if len(plain) == len(names) and pc.all(matches).as_py():
        return Names(candidates, [])
    images = candidates.filter(matches)
    return Names(images, sorted(set(names).difference(images.to_pylist())))


def text_array(texts: Sequence[str]) -> pa.Array:
    """Return texts as an Arrow array; one text that Arrow divides goes there three times as fast as many."""
    divided = pc.split_pattern(pa.array(["\0".join(texts)], pa.string()), "\0").values
    # No file system has a name with a zero byte, but an archive may.
    return divided if len(divided) == len(texts) else pa.array(texts, pa.string())


def printable(name: str) -> str:
    """Return a file name as printable text, whatever bytes it has: what no line can show is written as an escape."""
    text = os.fsencode(name).decode("utf-8", "replace")
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def relative(path: Path, root: Path) -> str:
    """Return a path below the root with forward slashes; `.` for the root itself."""
    text, above = str(path), str(root).rstrip(os.sep) + os.sep
    if text.startswith(above):  # a tenth of the time of pathlib, for each of some thousand folders
        return text.removeprefix(above).replace(os.sep, "/")
    return path.relative_to(root).as_posix()


def joined(prefix: str, names: pa.Array) -> pa.Array:
    """Put one prefix before every name."""
    return pc.binary_join_element_wise(pa.scalar(prefix), names, pa.scalar(""))


def with_ending(names: pa.Array, ending: tuple[str, str]) -> pa.Array:
    """Replace one ending of names by another; returns the same array where no name has it."""
    longer, shorter = ending
    if not pc.any(pc.ends_with(names, longer)).as_py():
        return names
    return pc.replace_substring_regex(names, pattern=f"{re.escape(longer)}$", replacement=shorter)


def class_column(class_ids: Sequence[str], codes: np.ndarray) -> pa.DictionaryArray:
    """Make the `class_id` column from positions in a list of class ids."""
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(class_ids, pa.string()))


def class_codes(class_ids: Sequence[str]) -> Mapping[str, int]:
    """Return the position of each class id."""
    return {class_id: code for code, class_id in enumerate(class_ids)}


def plain_reason(folder: Path, name: str, wanted: str) -> str:
    """Return why a name is not an image of its class; it looks at the file, so it is for strays only."""
    return "a folder" if (folder / name).is_dir() else f"not named {wanted}"


def stray_children(folder: Path, root: Path, known: Sequence[str], wanted: str) -> list[Stray]:
    """Return the entries of a folder other than the known names, as strays."""
    expected = set(known)
    return [
        Stray(relative(folder / printable(name), root), f"not {wanted}")
        for name in child_names(folder)
        if name not in expected
    ]


def strays_between(root: Path, folder: Path, paths: Sequence[str], wanted: str) -> list[Stray]:
    """Return the strays beside nested paths, on every level.

    Args:
        root: the folder that the strays' paths are relative to.
        folder: the folder that `paths` are relative to.
        paths: the entries that belong there, with forward slashes.
        wanted: what the entries are, as in "a class folder".
    """
    children: dict[str, list[str]] = {}
    for path in paths:
        parts = path.split("/")
        for depth, name in enumerate(parts):
            children.setdefault("/".join(parts[:depth]), []).append(name)
    levels = sorted(children.items())
    return [stray for inner, names in levels for stray in stray_children(folder / inner, root, names, wanted)]


def scan_class_folders(
    title: str, root: Path, folders: Sequence[ClassFolder], class_ids: Sequence[str], explain: Explain
) -> tuple[pa.Table, list[Stray]]:
    """Index folders that hold one class each.

    Args:
        title: the source's title.
        root: the folder that the column `file` is relative to.
        folders: existing folders, in the order of the rows.
        class_ids: all class ids of the source, in the owner's order.
        explain: called for each name that does not match its folder's pattern.

    Raises:
        OtherDataError: a folder is not empty and has no image of its class.
    """
    code_of = class_codes(class_ids)
    ids, files, codes, counts = [], [], [], []
    strays: list[Stray] = []
    for folder, children in zip(folders, _names_in_each(folders, root), strict=True):
        names = match_names(children, folder.pattern)
        if names.others and not len(names.images):
            refuse_strays_alone(title, folder, names.others, explain)
        place = "" if folder.path == root else relative(folder.path, root) + "/"
        strays += [Stray(place + printable(name), explain(folder, name)) for name in names.others]
        named = names.images if folder.ending is None else with_ending(names.images, folder.ending)
        ids.append(joined(folder.prefix, named))
        # In most layouts the id is the path; then both columns share one array.
        same_path = place == folder.prefix and named is names.images
        files.append(ids[-1] if same_path else joined(place, names.images))
        codes.append(code_of[folder.class_id])
        counts.append(len(names.images))
    same = all(one is other for one, other in zip(ids, files, strict=True))
    source_ids = pa.chunked_array(ids, pa.string())
    table = partition_table(
        class_column(class_ids, np.repeat(np.array(codes, np.int32), counts)),
        source_ids,
        source_ids if same else pa.chunked_array(files, pa.string()),
    )
    return table, strays


def refuse_strays_alone(title: str, folder: ClassFolder, names: Sequence[str], explain: Explain) -> None:
    """Refuse a class folder without images; the message names a visible file rather than a desktop's hidden one."""
    name = next((name for name in names if not name.startswith(".")), names[0])
    reason = explain(folder, name)
    raise OtherDataError(
        f"{title}: the class folder {folder.path} holds no image of its class: {printable(name)} is {reason}"
        f"{more(names, 1)}. Restore its images, remove the folder, or give another copy of {title}."
    )


@dataclass(frozen=True)
class SideBySide:
    """The reader for class folders side by side that are named by class ids, with what differs between sources.

    `pattern` gives the regular expression (ASCII) of the names of a class's images, `wanted` the same for messages.
    Other entries beside the folders are reported as not being a `child`. `lists` are the owner's lists of ids,
    relative to the parent folder, and `ending` is the part of each id that they leave out.
    """

    title: str
    partition: str
    classes: Callable[[], Mapping[str, str]]
    pattern: Callable[[str], str]
    wanted: Callable[[str], str]
    child: str = "a class folder"
    lists: tuple[str, ...] = ()
    ending: str = ""

    def scan(self, root: Path, folder: Path) -> PartitionIndex | None:
        """Index the class folders in a folder; returns None if there are none."""
        if not folder.is_dir():
            return None
        names = [name for name in child_names(folder) if name in self.classes()]
        if not names:
            return None
        table, strays = scan_class_folders(
            self.title,
            root,
            [ClassFolder(name, folder / name, f"{name}/", self.pattern(name)) for name in names],
            tuple(self.classes()),
            lambda place, name: plain_reason(place.path, name, self.wanted(place.class_id)),
        )
        strays += stray_children(folder, root, names, self.child)
        missing = self._missing(folder.parent, table["source_id"])
        return PartitionIndex(
            self.partition, f"class folders in {relative(folder, root)}", "file", table, tuple(strays), missing
        )

    def below(self, name: str) -> Callable[[Path, Path], PartitionIndex | None]:
        """Return a finder that looks for the class folders in a named subfolder."""
        return lambda root, home: self.scan(root, home / name)

    def _missing(self, home: Path, ids: pa.ChunkedArray) -> pa.Array:
        """Return the ids that the owner's lists have and the folders lack; lists that are missing are skipped."""
        paths = [home / name for name in self.lists if (home / name).is_file()]
        listed = pa.array([listed for path in paths for listed in self._listed(path)], pa.string())
        return listed.filter(pc.invert(pc.is_in(listed, ids.combine_chunks())))

    def _listed(self, path: Path) -> Iterator[str]:
        """Yield the ids of one of the owner's lists."""
        for number, line in enumerate(read_lines(path, "Unpack the archive again."), start=1):
            for listed in line.split():
                class_id, _, name = f"{listed}{self.ending}".partition("/")
                if class_id not in self.classes() or re.search(self.pattern(class_id), name) is None:
                    raise BuildError(
                        f"{self.title}: line {number} of {path} does not list an image of its classes: "
                        f"{one_line(listed)}. Unpack the archive again."
                    )
                yield f"{class_id}/{name}"
