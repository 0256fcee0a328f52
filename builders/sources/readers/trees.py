"""Lists the files of folders, archives or a mirror's Parquet files as Arrow columns, and matches their names.

No image is opened; a complete ImageNet has 1.3 million.

Tested by `tests/builders/sources/readers/test_patterns.py`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.sources.base import Container, Home, Stray
from builders.sources.formats.tar_headers import File
from builders.sources.readers import tars, zips
from builders.sources.readers.folders import escape_name, listing, relative, text_array
from builders.storage.folders import files_below, names_in_each

_AGAIN = "_again"

Tars = Iterable[tuple[str, Path, Sequence[File]]]
"""For each tar the name of its folder in a tree, the file that holds its bytes, and its files."""


@dataclass(frozen=True)
class Tree:
    """The files of a folder, an archive or a mirror at `home`; `place` is the folder or archive itself.

    `description` says in words what holds them, such as `archive food-101.tar.gz`, and `how` is their container.

    `rows` has the columns `name` (with forward slashes), `file`, `offset` and `size` as in `PARTITION_SCHEMA`, and
    those of a pattern's groups; in folders an entry may be a folder itself. Names begin with `start` before the path
    below the place: in folders a name is the path from the root, so that `name` and `file` are one array. Messages
    have `prefix` there instead, which of archives ends in a colon and the folder inside.

    `others` are the names of files that were left out, each with the reason, empty where it is the pattern.
    """

    home: Home
    place: Path
    description: str
    prefix: str
    how: Container
    rows: pa.Table
    start: str = ""
    others: Sequence[tuple[str, str]] = field(default=(), repr=False)

    def column(self, name: str) -> pa.Array:
        """Return a column of the rows, for instance one that a group of the pattern gave."""
        return self.rows[name].combine_chunks()

    def path_of(self, name: str) -> str:
        """Return the path by which messages name an entry."""
        return f"{self.home.root}/{self.prefix}{name}"

    def is_folder(self, name: str) -> bool:
        """Whether an entry is a folder; it asks the file system, so call it only for the few that match no pattern."""
        return self.how == "file" and (self.place / name).is_dir()

    def match(self, pattern: str) -> Tree:
        """Return the files whose names match a pattern of `match_names`, with its groups as columns."""
        fits, groups = match_names(self.column("name"), pattern, self.start)
        matched = self.keep(fits, "") if fits.false_count else self
        return matched.with_columns(**groups)

    def with_columns(self, **columns: pa.Array) -> Tree:
        """Return the files with additional or replaced columns."""
        rows = self.rows.drop_columns([name for name in columns if name in self.rows.column_names])
        for name, values in columns.items():
            rows = rows.append_column(name, values)
        return dataclasses.replace(self, rows=rows)

    def keep(self, mask: pa.Array, reason: str | None = None) -> Tree:
        """Return the files that a mask keeps; the others become strays if a reason is given, else they are dropped."""
        others = self.others
        if reason is not None:
            left_out = self.rows["name"].filter(pc.invert(mask)).to_pylist()
            others = [*others, *((name[len(self.start) :], reason) for name in left_out)]
        return dataclasses.replace(self, rows=self.rows.filter(mask), others=others)

    def strays(self, reason: Callable[[str], str]) -> tuple[Stray, ...]:
        """Return the files left out, sorted; `reason` explains those that do not match the pattern."""
        return tuple(Stray(self.prefix + escape_name(name), why or reason(name)) for name, why in sorted(self.others))


def match_names(names: pa.Array, pattern: str, start: str = "") -> tuple[pa.Array, Mapping[str, pa.Array]]:
    """Match names against a pattern; returns which match, and the pattern's groups of those.

    The pattern is a regular expression (RE2) of the whole name behind `start`. RE2 has no references back: a group
    called `x_again` (or `x_again2`) has the text of the group `x` wherever both have any, and stands in for it
    elsewhere. Names that are not ASCII do not match: no source has such.
    """
    parts = pc.extract_regex(names, f"^{re.escape(start)}(?:{pattern})$")
    groups = {field.name: parts.field(field.name) for field in parts.type}
    below = names if start.isascii() else pc.utf8_slice_codeunits(names, len(start))
    fits = pc.and_(parts.is_valid(), pc.string_is_ascii(below))
    for repeat in [name for name in groups if _AGAIN in name]:
        repeated, name = groups.pop(repeat), repeat.partition(_AGAIN)[0]
        empty, first = pc.equal(repeated, ""), groups[name]
        fits = pc.and_kleene(fits, pc.or_(pc.or_(empty, pc.equal(first, "")), pc.equal(repeated, first)))
        groups[name] = pc.if_else(empty, first, repeated)
    return fits, {name: values.filter(fits) for name, values in groups.items()} if fits.false_count else groups


def in_folders(home: Home, place: Path, folders: Sequence[str] = ("",), description: str = "image files") -> Tree:
    """List folders below an existing place, given by their paths; an empty path is the place itself."""
    inside = (f"{folder}/" if folder else "" for folder in folders)
    with listing(home.root):
        listed = names_in_each([place / folder if folder else place for folder in folders])
        return _of_files(home, place, zip(inside, listed, strict=True), description)


def in_depth(home: Home, place: Path) -> Tree:
    """List the files below an existing place at any depth, without following links."""
    return _of_files(home, place, [("", sorted(files_below(place)))], "image files")


def _of_files(home: Home, place: Path, paths: Iterable[tuple[str, Sequence[str]]], description: str) -> Tree:
    """Return the tree of files on disk, given by their paths below a place, in groups that begin alike."""
    where = relative(place, home.root)
    prefix = "" if where == "." else f"{where}/"
    names = [text_array(endings, prefix + start) for start, endings in paths]
    all_names = pa.concat_arrays([pa.array([], pa.string()), *names])
    return Tree(home, place, f"{description} in {where}", prefix, "file", _rows(all_names, all_names), prefix)


def in_archive(home: Home, stem: str, top: str = "") -> Tree | None:
    """List `<stem>.tar`, which is read in place, `<stem>.tar.gz` or `<stem>.tgz`; returns None if there is none.

    A tar that is called `.tar.gz` and is not compressed, as ImageNetV2's owners have it, is read in place, too. The
    tree is limited to the folder `top` inside, which has a slash at its end, if one is given.
    """
    paths = [home.folder / f"{stem}{ending}" for ending in (".tar", ".tar.gz", ".tgz")]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return None
    in_place = path == paths[0] or tars.is_plain(path)
    files = tars.members(path) if in_place else tars.compressed_members(path)
    return in_tars(home, path, [("", path, files)], top, how="span" if in_place else "targz")


def in_zip(home: Home, name: str, top: str = "") -> Tree | None:
    """List a zip, limited to a folder `top` inside as `in_archive` is; returns None if it is not there."""
    path = home.folder / name
    return in_tars(home, path, [("", path, zips.members(path))], top, how="zip") if path.is_file() else None


def in_tars(home: Home, place: Path, parts: Tars, top: str = "", how: Container = "span") -> Tree:
    """List the files of tars in a folder or an archive; a folder's path, ending with a slash, limits the listing.

    Any file with named ranges of bytes may stand for a tar. Where a tar has a folder of its own in the tree, folders
    inside it are dropped.
    """
    none = pa.array([], pa.string())
    tables = [_rows(none, none)]
    for folder, file, files in parts:
        # However a path is spelled, nothing is ever unpacked to the place that it names.
        above = r"^.*/" if folder else r"^/*(\./)?"
        names = pc.replace_substring_regex(text_array([file.name for file in files]), above, "")
        rows = _rows(
            pc.binary_join_element_wise(f"{folder}/", names, "") if folder else names,
            pa.repeat(pa.scalar(relative(file, home.root), pa.string()), len(files)),
            pa.array([file.start for file in files], pa.int64()),
            pa.array([file.size for file in files], pa.int64()),
        )
        tables.append(rows.filter(pc.starts_with(rows["name"], top)) if top else rows)
    where = relative(place, home.root)
    prefix = f"{where}:{top}" if not place.is_dir() else "" if where == "." else f"{where}/"
    return Tree(home, place, f"archive {where}", prefix, how, pa.concat_tables(tables).combine_chunks(), top)


def in_parquet(home: Home, files: Iterable[tuple[Path, pa.Array, pa.Array]]) -> Tree | None:
    """List the rows of a mirror's sorted files, given each file's names and labels; None without files.

    The rows have a column `label`, too.
    """
    tables, paths = [], []
    for path, names, labels in files:
        paths.append(path)
        file = pa.repeat(pa.scalar(relative(path, home.root), pa.string()), len(names))
        rows = _rows(names, file, pa.array(np.arange(len(names), dtype=np.int64)))
        tables.append(rows.append_column("label", labels))
    if not paths:
        return None
    place = paths[0].parent
    description = f"Parquet files in {relative(place, home.root)}"
    return Tree(home, place, description, "", "parquet", pa.concat_tables(tables).combine_chunks())


def _rows(
    names: pa.Array, files: pa.Array, offsets: pa.Array | None = None, sizes: pa.Array | None = None
) -> pa.Table:
    zeros = pa.repeat(pa.scalar(0, pa.int64()), len(names)) if offsets is None else offsets
    unknown = pa.repeat(pa.scalar(-1, pa.int64()), len(names)) if sizes is None else sizes
    return pa.table({"name": names, "file": files, "offset": zeros, "size": unknown})
