"""Selects the files of a tree that are images of a source, and their classes, by a pattern over their names.

Tested by `tests/builders/sources/readers/test_patterns.py`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError, one_line
from builders.sources.base import OtherDataError, PartitionIndex, Stray, partition_table
from builders.sources.readers import parquet, parquet_files, trees
from builders.sources.readers.folders import class_column, escape_name
from builders.sources.readers.parquet import ADVICE
from builders.sources.readers.trees import Tree

_AGAIN = "_again"


def match_names(names: pa.Array, pattern: str, start: str = "") -> tuple[pa.Array, Mapping[str, pa.Array]]:
    """Read the named groups of a pattern from names.

    Args:
        names: text, without nulls. Names that are not ASCII do not match: no source has such.
        pattern: a regular expression (RE2) of the whole name. RE2 has no references back: a group called `x_again`
            (or `x_again2`) has the text of the group `x` wherever both have any, and stands in for it elsewhere.
        start: text that every name begins with before the pattern.

    Returns:
        Whether each name matches, and the groups of those that do, by name.
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


@dataclass(frozen=True)
class MatchedFiles:
    """The files of a tree divided by a pattern: rows and groups of those that match, and the rows of the others.

    `reasons` say of some others why they are left out although they match.
    """

    tree: Tree
    rows: pa.Table
    groups: Mapping[str, pa.Array]
    unmatched: pa.Table
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def other_names(self) -> list[str]:
        """The sorted names, below the tree's place, of the files that do not match."""
        return sorted(self._below(self.unmatched))

    def _below(self, rows: pa.Table) -> list[str]:
        return [name[len(self.tree.start) :] for name in rows["name"].to_pylist()]

    def strays(self, reason: Callable[[str], str]) -> tuple[Stray, ...]:
        """List the other files as strays, each with the reason why it is not an image of the partition."""
        return tuple(
            Stray(self.tree.prefix + escape_name(name), self.reasons.get(name) or reason(name))
            for name in self.other_names
        )

    def select(self, mask: pa.Array) -> MatchedFiles:
        """Return the images of a mask; the others are dropped, and are no strays."""
        groups = {name: values.filter(mask) for name, values in self.groups.items()}
        return dataclasses.replace(self, rows=self.rows.filter(mask), groups=groups)

    def filter(self, mask: pa.Array, reason: str = "") -> MatchedFiles:
        """Return the images of a mask; the others become strays, for the given reason."""
        left_out = self.rows.filter(pc.invert(mask))
        reasons = {**self.reasons, **dict.fromkeys(self._below(left_out), reason)}
        unmatched = pa.concat_tables([self.unmatched, left_out])
        return dataclasses.replace(self.select(mask), unmatched=unmatched, reasons=reasons)

    def select_listed(self, ids: pa.Array, names: pa.Array) -> tuple[MatchedFiles, pa.Array]:
        """Return the images that a list of ids names, and the ids of the list that have no image."""
        return self.select(pc.is_in(ids, value_set=names)), names.filter(pc.invert(pc.is_in(names, value_set=ids)))

    def table(self, classes: pa.DictionaryArray, ids: pa.Array, own: Mapping[str, pa.Array] | None = None) -> pa.Table:
        """Return the images' index, given their `class_id` column, ids and the source's own columns."""
        files, offsets, sizes = (self.rows[name].combine_chunks() for name in ("file", "offset", "size"))
        # In most layouts the id is the path; then both columns share one array.
        return partition_table(classes, ids, ids if ids.equals(files) else files, offsets, sizes, own)


def match(tree: Tree, pattern: str) -> MatchedFiles:
    """Divide the files of a tree by a pattern; see `match_names`."""
    fits, groups = match_names(tree.rows["name"].combine_chunks(), pattern, tree.start)
    rows = tree.rows.filter(fits) if fits.false_count else tree.rows
    return MatchedFiles(tree, rows, groups, tree.rows.filter(pc.invert(fits)))


@dataclass(frozen=True)
class Pattern:
    """A source's pattern over the names of its images, for `match_names`, and how to find them in each kind of tree.

    `name_form` describes such names for messages, and `advice` is the next step for a mirror with other names.
    """

    key: str
    title: str
    pattern: str
    name_form: str
    advice: str = ADVICE

    def in_folders(
        self, root: Path, place: Path, folders: Sequence[str] = ("",), description: str = "image files"
    ) -> MatchedFiles:
        """Match the files of some folders below a place; see `trees.in_folders`."""
        return match(trees.in_folders(root, place, folders, description), self.pattern)

    def in_places(self, root: Path, home: Path, places: Sequence[str] = ()) -> MatchedFiles | None:
        """Match the files of the first folder that has images: the given ones below `home`, then `home`; else None."""
        folders = (*(home / place for place in places), home)
        matches = (self.in_folders(root, folder) for folder in folders if folder.is_dir())
        return next((files for files in matches if files.rows.num_rows), None)

    def in_archive(self, root: Path, home: Path, stem: str, top: str = "") -> MatchedFiles | None:
        """Match the files of `<stem>.tar` or `<stem>.tar.gz`; returns None if there is neither.

        Raises:
            BuildError: it cannot be read, or no file matches.
        """
        tree = trees.in_archive(root, home, stem, top)
        if tree is None:
            return None
        files = match(tree, self.pattern)
        if not files.rows.num_rows:
            raise BuildError(
                f"{self.title}: {tree.place} has no images like {top}{self.name_form}. Give a "
                f"copy of {self.title} with --{self.key}."
            )
        return files

    def in_parquet(
        self, root: Path, home: Path, splits: Sequence[str], names: Callable[[Path], pa.Array] | None = None
    ) -> MatchedFiles | None:
        """Match the rows of a mirror's splits, whose names begin its files' names; returns None if there are no files.

        `names` reads the names of a file's rows; without it they are the file names there.

        Raises:
            OtherDataError: a name does not match.
        """
        paths = [path for split in splits for path in parquet_files.split_files(home, split)]
        read = names or (lambda path: parquet.read_shard(self.title, path, labelled=False, advice=self.advice).names)
        tree = trees.in_parquet(root, paths, read)
        if tree is None:
            return None
        files = match(tree, self.pattern)
        self.refuse_row(files.tree, files.unmatched, f"is not like {self.name_form}")
        return files

    def refuse_row(self, tree: Tree, wrong_rows: pa.Table, problem: str) -> None:
        """Refuse a mirror with wrong rows; the message names the first.

        Raises:
            OtherDataError: there are such rows.
        """
        for row in wrong_rows.slice(0, 1).to_pylist():
            raise OtherDataError(
                f"{self.title}: the file name {one_line(row['name'])} {problem} (row {row['offset']} of "
                f"{tree.root / row['file']}). {self.advice}."
            )

    def keep_known(self, files: MatchedFiles, ids: pa.Array, known: pa.Array, reason: str) -> MatchedFiles:
        """Keep the images whose ids are known.

        Raises:
            OtherDataError: none is.
        """
        selected = files.filter(pc.is_in(ids, value_set=known), reason)
        if not selected.rows.num_rows:
            raise OtherDataError(
                f"{self.title}: none of the {len(ids):,} images in {files.tree.root} ({files.tree.description}) is "
                f"one of its {len(known):,}, for instance {ids[0]}. Give a copy of {self.title} with --{self.key}."
            )
        return selected

    def index_listed(
        self, name: str, files: MatchedFiles, ids: pa.Array, class_ids: Mapping[str, str], classes: Sequence[str]
    ) -> PartitionIndex | None:
        """Index a partition's images that a list names by id with the class, None if there is none.

        Images that the list lacks are no strays.
        """
        listed = pa.array(list(class_ids))
        selected, missing = files.select_listed(ids, listed)
        if not selected.rows.num_rows:
            return None
        ids = ids.filter(pc.is_in(ids, value_set=listed))
        of_rows = pa.array([class_ids[image] for image in ids.to_pylist()])
        codes = pc.index_in(of_rows, value_set=pa.array(classes)).to_numpy()
        return self.partition(name, selected, selected.table(class_column(classes, codes), ids), missing=missing)

    def partition(self, name: str, files: MatchedFiles, table: pa.Table, **fields: Any) -> PartitionIndex:
        """Return the index of a partition from its images' table and further fields; other files are strays."""
        strays = files.strays(lambda path: self.reason(files.tree, path))
        return PartitionIndex(name, files.tree.description, files.tree.how, table, strays, **fields)

    def reason(self, tree: Tree, name: str) -> str:
        """Say why an entry of a tree is not one of the images."""
        return "a folder" if tree.is_folder(name) else f"not named {self.name_form}"
