"""Lists the files of a copy as Arrow columns: those of folders, of an archive, or of a mirror's Parquet files.

No image is opened; a complete ImageNet has 1.3 million. Names that are not ASCII are kept apart: no source has such
names, and some are not even UTF-8, which Arrow does not take.

Tested by `tests/builders/sources/readers/test_patterns.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from builders.sources.base import Container
from builders.sources.readers import tars
from builders.sources.readers.folders import children_of_each, relative, text_array
from builders.sources.readers.tars import Member


@dataclass(frozen=True)
class Tree:
    """The files of a folder, an archive or a mirror.

    Args:
        root: the user's folder.
        place: the folder or archive that holds the files; of a mirror the first file's folder.
        description: what holds the files, in words, such as `archive food-101.tar.gz`.
        prefix: what stands before a name in messages, relative to the root. Of folders it ends in a slash or is
            empty, of archives it ends in a colon and the folder inside.
        how: the container of each file.
        rows: the columns `name` (with forward slashes), `file`, `offset` and `size` as in `PARTITION_SCHEMA`. In
            folders an entry may be a folder itself.
        non_ascii: names below the place that are not ASCII.
        start: what all names begin with, before the path below the place. In folders a name is the file's path from
            the root, so that the columns `name` and `file` are one array.
    """

    root: Path
    place: Path
    description: str
    prefix: str
    how: Container
    rows: pa.Table
    non_ascii: tuple[str, ...] = ()
    start: str = ""

    @property
    def home(self) -> Path:
        """The folder that holds the files or their container."""
        return self.place if self.place.is_dir() else self.place.parent

    def path_of(self, name: str) -> str:
        """Return the path of an entry for messages."""
        return f"{self.root}/{self.prefix}{name}"

    def is_folder(self, name: str) -> bool:
        """Whether an entry is a folder; this asks the file system, so it is for the few that match no pattern."""
        return self.how == "file" and (self.place / name).is_dir()


def in_folders(root: Path, place: Path, folders: Sequence[str] = ("",), description: str = "image files") -> Tree:
    """List folders below a place.

    Args:
        root: the user's folder.
        place: an existing folder.
        folders: paths below it; an empty one is the place itself.
        description: what the files are, in words.

    Raises:
        BuildError: one cannot be listed.
    """
    where = relative(place, root)
    prefix = "" if where == "." else f"{where}/"
    names: list[pa.Array] = []
    non_ascii: list[str] = []
    listed = children_of_each([place / folder if folder else place for folder in folders], root)
    for folder, children in zip(folders, listed, strict=True):
        folder_prefix = f"{prefix}{folder}/" if folder else prefix
        ascii_names = children if "".join(children).isascii() else [name for name in children if name.isascii()]
        names.append(text_array(ascii_names, folder_prefix))
        if len(ascii_names) < len(children):
            non_ascii += [f"{folder_prefix}{name}"[len(prefix) :] for name in children if not name.isascii()]
    all_names = pa.concat_arrays([pa.array([], pa.string()), *names])
    rows = _rows(all_names, all_names)
    return Tree(root, place, f"{description} in {where}", prefix, "file", rows, tuple(non_ascii), prefix)


def in_archive(title: str, root: Path, home: Path, stem: str, top: str = "") -> Tree | None:
    """List `<stem>.tar`, which is read in place, or `<stem>.tar.gz`; returns None if there is neither.

    A tar that is called `.tar.gz` and is not compressed, as ImageNetV2's owners have it, is read in place, too.

    Args:
        title: the source's title.
        root: the user's folder.
        home: the folder to look in.
        stem: the archive's name without ending.
        top: the folder inside to which the tree is limited, with a slash at its end; empty for all files.

    Raises:
        BuildError: the archive cannot be read.
    """
    plain, packed = home / f"{stem}.tar", home / f"{stem}.tar.gz"
    path = next((path for path in (plain, packed) if path.is_file()), None)
    if path is None:
        return None
    if path == plain or tars.is_plain(path):
        return _of_tars(root, path, "span", [("", path, tars.members(path))], top)
    return _of_tars(root, path, "targz", [("", path, tars.compressed_members(title, path))], top)


def in_archives(root: Path, home: Path, names: Sequence[str], keep: Callable[[str], bool]) -> Tree | None:
    """List several uncompressed tars of a folder as one tree; returns None if none of them is there.

    Args:
        root: the user's folder.
        home: the folder that holds the tars.
        names: their names.
        keep: whether a file in one is listed; see `tars.members`.

    Raises:
        BuildError: one cannot be read.
    """
    paths = [home / name for name in names if (home / name).is_file()]
    if not paths:
        return None
    tree = _of_tars(root, home, "span", (("", path, tars.members(path, keep)) for path in paths))
    return dataclasses.replace(tree, description=f"archives {', '.join(path.name for path in paths)}")


def in_tars(root: Path, place: Path, inner: Iterable[tuple[str, Path, Sequence[Member]]]) -> Tree:
    """List tars that are read in place, each as one folder of the tree.

    Args:
        root: the user's folder.
        place: the folder or tar that holds them.
        inner: for each tar the name of its folder in the tree, the file that holds its bytes, and its members.
    """
    return _of_tars(root, place, "span", ((f"{name}/", file, members) for name, file, members in inner))


def _of_tars(
    root: Path, place: Path, how: Container, parts: Iterable[tuple[str, Path, Sequence[Member]]], top: str = ""
) -> Tree:
    """List the members of tars; folders inside a tar that is itself a folder of the tree are dropped."""
    tables: list[pa.Table] = []
    non_ascii: list[str] = []
    for folder_prefix, file, members in parts:
        paths = [folder_prefix + member.name if folder_prefix else member.path for member in members]
        below_top = [row for row in zip(paths, members, strict=True) if row[0].startswith(top)]
        ascii_members = [(path, member) for path, member in below_top if path.isascii()]
        non_ascii += [path[len(top) :] for path, _ in below_top if not path.isascii()]
        tables.append(
            _rows(
                text_array([path[len(top) :] for path, _ in ascii_members]),
                pa.repeat(pa.scalar(relative(file, root), pa.string()), len(ascii_members)),
                pa.array([member.offset for _, member in ascii_members], pa.int64()),
                pa.array([member.size for _, member in ascii_members], pa.int64()),
            )
        )
    where = relative(place, root)
    prefix = f"{where}:{top}" if not place.is_dir() else "" if where == "." else f"{where}/"
    empty = pa.array([], pa.string())
    rows = pa.concat_tables([_rows(empty, empty), *tables]).combine_chunks()
    return Tree(root, place, f"archive {where}", prefix, how, rows, tuple(non_ascii))


def in_parquet(root: Path, files: Sequence[Path], names: Callable[[Path], pa.Array]) -> Tree | None:
    """List the rows of a mirror's files; returns None if there are no files.

    Args:
        root: the user's folder.
        files: sorted.
        names: reads the name of each row of a file.
    """
    if not files:
        return None
    tables = []
    for path in files:
        row_names = names(path)
        file = pa.repeat(pa.scalar(relative(path, root), pa.string()), len(row_names))
        tables.append(_rows(row_names, file, pa.array(np.arange(len(row_names), dtype=np.int64))))
    where = relative(files[0].parent, root)
    return Tree(
        root, files[0].parent, f"Parquet files in {where}", "", "parquet", pa.concat_tables(tables).combine_chunks()
    )


def _rows(
    names: pa.Array, files: pa.Array, offsets: pa.Array | None = None, sizes: pa.Array | None = None
) -> pa.Table:
    zeros = pa.repeat(pa.scalar(0, pa.int64()), len(names)) if offsets is None else offsets
    unknown = pa.repeat(pa.scalar(-1, pa.int64()), len(names)) if sizes is None else sizes
    return pa.table({"name": names, "file": files, "offset": zeros, "size": unknown})
