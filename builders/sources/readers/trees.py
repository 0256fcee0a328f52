"""Lists the files of a copy as Arrow columns: those of folders, of an archive, or of a mirror's Parquet files.

No image is opened; a complete ImageNet has 1.3 million.

Tested by `tests/builders/sources/readers/test_patterns.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.sources.base import Container
from builders.sources.formats.tar_headers import File
from builders.sources.readers import tars
from builders.sources.readers.folders import children_of_each, relative, text_array, with_prefix

Tars = Iterable[tuple[str, Path, Sequence[File]]]
"""For each tar the name of its folder in a tree, the file that holds its bytes, and its files."""


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
        start: what all names begin with, before the path below the place. In folders a name is the file's path from
            the root, so that the columns `name` and `file` are one array.
    """

    root: Path
    place: Path
    description: str
    prefix: str
    how: Container
    rows: pa.Table
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
    """List folders below an existing place, given by their paths; an empty one is the place itself.

    Raises:
        BuildError: one cannot be listed.
    """
    where = relative(place, root)
    prefix = "" if where == "." else f"{where}/"
    listed = children_of_each([place / folder if folder else place for folder in folders], root)
    names = [
        text_array(children, f"{prefix}{folder}/" if folder else prefix)
        for folder, children in zip(folders, listed, strict=True)
    ]
    all_names = pa.concat_arrays([pa.array([], pa.string()), *names])
    return Tree(root, place, f"{description} in {where}", prefix, "file", _rows(all_names, all_names), prefix)


def in_archive(root: Path, home: Path, stem: str, top: str = "") -> Tree | None:
    """List `<stem>.tar`, which is read in place, or `<stem>.tar.gz`; returns None if there is neither.

    A tar that is called `.tar.gz` and is not compressed, as ImageNetV2's owners have it, is read in place, too.

    Args:
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
    in_place = path == plain or tars.is_plain(path)
    files = tars.members(path) if in_place else tars.compressed_members(path)
    return in_tars(root, path, [("", path, files)], top, how="span" if in_place else "targz")


def in_tars(root: Path, place: Path, parts: Tars, top: str = "", how: Container = "span") -> Tree:
    """List the files of tars in a folder or an archive, limited to a folder inside with a slash at its end.

    Where a tar has a folder of its own in the tree, folders inside it are dropped.
    """
    none = pa.array([], pa.string())
    tables = [_rows(none, none)]
    for folder, file, files in parts:
        # However a path is spelled, nothing is ever unpacked to the place that it names.
        above = r"^.*/" if folder else r"^/*(\./)?"
        names = pc.replace_substring_regex(text_array([file.name for file in files]), above, "")
        rows = _rows(
            with_prefix(f"{folder}/", names) if folder else names,
            pa.repeat(pa.scalar(relative(file, root), pa.string()), len(files)),
            pa.array([file.start for file in files], pa.int64()),
            pa.array([file.size for file in files], pa.int64()),
        )
        tables.append(rows.filter(pc.starts_with(rows["name"], top)) if top else rows)
    where = relative(place, root)
    prefix = f"{where}:{top}" if not place.is_dir() else "" if where == "." else f"{where}/"
    return Tree(root, place, f"archive {where}", prefix, how, pa.concat_tables(tables).combine_chunks(), top)


def in_parquet(root: Path, files: Sequence[Path], names: Callable[[Path], pa.Array]) -> Tree | None:
    """List the rows of a mirror's sorted files by the names that a function reads; None if there are no files."""
    if not files:
        return None
    tables = []
    for path in files:
        row_names = names(path)
        file = pa.repeat(pa.scalar(relative(path, root), pa.string()), len(row_names))
        tables.append(_rows(row_names, file, pa.array(np.arange(len(row_names), dtype=np.int64))))
    place = files[0].parent
    rows = pa.concat_tables(tables).combine_chunks()
    return Tree(root, place, f"Parquet files in {relative(place, root)}", "", "parquet", rows)


def _rows(
    names: pa.Array, files: pa.Array, offsets: pa.Array | None = None, sizes: pa.Array | None = None
) -> pa.Table:
    zeros = pa.repeat(pa.scalar(0, pa.int64()), len(names)) if offsets is None else offsets
    unknown = pa.repeat(pa.scalar(-1, pa.int64()), len(names)) if sizes is None else sizes
    return pa.table({"name": names, "file": files, "offset": zeros, "size": unknown})
