"""Applies a pattern over names to the files of a tree: which of them are images of a source, and of which class.

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
from builders.sources.readers.parquet_columns import ADVICE
from builders.sources.readers.trees import Tree

_AGAIN = "_again"


def match_names(names: pa.Array, pattern: str, start: str = "") -> tuple[pa.Array, Mapping[str, pa.Array]]:
    """Read the named groups of a pattern from names.

    Args:
        names: text, without nulls.
        pattern: a regular expression (RE2) of the whole name. RE2 has no references back: a group called `x_again`
            (or `x_again2`) has the text of the group `x` wherever both have any, and stands in for it elsewhere.
        start: text that every name begins with before the pattern.

    Returns:
        Whether each name matches, and the groups of those that do, by name.
    """
    parts = pc.extract_regex(names, f"^{re.escape(start)}(?:{pattern})$")
    groups = {field.name: parts.field(field.name) for field in parts.type}
    fits = parts.is_valid()
    for repeat in [name for name in groups if _AGAIN in name]:
        again, name = groups.pop(repeat), repeat.partition(_AGAIN)[0]
        empty, first = pc.equal(again, ""), groups[name]
        if pc.all(empty, min_count=0).as_py():
            continue
        fits = pc.and_kleene(fits, pc.or_(pc.or_(empty, pc.equal(first, "")), pc.equal(again, first)))
        groups[name] = pc.if_else(empty, first, again)
    if not pc.all(fits, min_count=0).as_py():
        groups = {name: values.filter(fits) for name, values in groups.items()}
    return fits, groups


@dataclass(frozen=True)
class MatchedFiles:
    """The files of a tree that match a pattern: their rows and the pattern's groups; and the rows of the others.

    `reasons` say of some of the others why they were left out although they match.
    """

    tree: Tree
    rows: pa.Table
    groups: Mapping[str, pa.Array]
    rest: pa.Table
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def others(self) -> list[str]:
        """The sorted names of the others, below the tree's place."""
        return sorted([*(name[len(self.tree.start) :] for name in self.rest["name"].to_pylist()), *self.tree.odd])

    def strays(self, reason: Callable[[str], str]) -> tuple[Stray, ...]:
        """List the other files as strays, each with the reason why it is not an image of the partition."""
        return tuple(
            Stray(self.tree.prefix + escape_name(name), self.reasons.get(name) or reason(name)) for name in self.others
        )

    def select(self, mask: pa.Array) -> MatchedFiles:
        """Keep some of the images and forget those left out, which are no strays."""
        if pc.all(mask, min_count=0).as_py():
            return self
        groups = {name: values.filter(mask) for name, values in self.groups.items()}
        return dataclasses.replace(self, rows=self.rows.filter(mask), groups=groups)

    def filter(self, mask: pa.Array, reason: str = "") -> MatchedFiles:
        """Keep some of the images; those left out are among the others, for the given reason."""
        left_out = self.rows.filter(pc.invert(mask))
        reasons = dict.fromkeys((name[len(self.tree.start) :] for name in left_out["name"].to_pylist()), reason)
        rest = pa.concat_tables([self.rest, left_out])
        return dataclasses.replace(self.select(mask), rest=rest, reasons={**self.reasons, **reasons})

    def listed(self, ids: pa.Array, names: pa.Array) -> tuple[MatchedFiles, pa.Array]:
        """Keep the images whose ids a list names; also returns the names of the list for which there is no image."""
        return self.select(pc.is_in(ids, value_set=names)), names.filter(pc.invert(pc.is_in(names, value_set=ids)))

    def table(self, classes: pa.DictionaryArray, ids: pa.Array, own: Mapping[str, pa.Array] | None = None) -> pa.Table:
        """The index of the images, given their `class_id` column, ids and the source's own columns."""
        files, offsets, sizes = (self.rows[name].combine_chunks() for name in ("file", "offset", "size"))
        # In most layouts the id is the path; then both columns share one array.
        return partition_table(classes, ids, ids if ids.equals(files) else files, offsets, sizes, own)


def match(tree: Tree, pattern: str) -> MatchedFiles:
    """Divide the files of a tree by a pattern; see `match_names`."""
    fits, groups = match_names(tree.rows["name"].combine_chunks(), pattern, tree.start)
    if pc.all(fits, min_count=0).as_py():
        return MatchedFiles(tree, tree.rows, groups, tree.rows.slice(0, 0))
    return MatchedFiles(tree, tree.rows.filter(fits), groups, tree.rows.filter(pc.invert(fits)))


@dataclass(frozen=True)
class Pattern:
    """A source's pattern over the names of its images, for `match_names`, and how to find them in each kind of tree.

    `wanted` describes such names for messages, and `advice` is the next step for a mirror with other names. `refuse`
    is called with every other name, and with its place for messages, to raise where it shows that a copy is wrong.
    """

    key: str
    title: str
    pattern: str
    wanted: str
    advice: str = ADVICE
    refuse: Callable[[str, str], None] = lambda name, place: None

    def in_folders(
        self, root: Path, place: Path, folders: Sequence[str] = ("",), what: str = "image files"
    ) -> MatchedFiles:
        """Match the files of some folders below a place; see `trees.in_folders`."""
        return match(trees.in_folders(root, place, folders, what), self.pattern)

    def in_places(self, root: Path, home: Path, places: Sequence[str] = ()) -> MatchedFiles | None:
        """Match the files of the first folder with images, of some below `home` and then itself; None if none has."""
        folders = (*(home / place for place in places), home)
        found = (self.in_folders(root, folder) for folder in folders if folder.is_dir())
        return next((images for images in found if images.rows.num_rows), None)

    def in_archive(self, root: Path, home: Path, stem: str, top: str = "") -> MatchedFiles | None:
        """Match the files of `<stem>.tar` or `<stem>.tar.gz`; returns None if there is neither.

        Raises:
            BuildError: it cannot be read, or no file matches.
        """
        tree = trees.in_archive(self.title, root, home, stem, top)
        if tree is None:
            return None
        found = match(tree, self.pattern)
        if not found.rows.num_rows:
            raise BuildError(
                f"{self.title}: {tree.place} has no images like {top}{self.wanted}. Give a "
                f"copy of {self.title} with --{self.key}."
            )
        return found

    def in_parquet(
        self, root: Path, home: Path, splits: Sequence[str], names: Callable[[Path], pa.Array] | None = None
    ) -> MatchedFiles | None:
        """Match the rows of a mirror's splits; returns None if there are no files.

        Args:
            root: the user's folder.
            home: the folder to look in.
            splits: the prefixes of the files' names.
            names: reads the names of a file's rows; without it they are the file names there.

        Raises:
            OtherDataError: a name does not match.
        """
        files = [path for split in splits for path in parquet_files.split_files(home, split)]
        tree = trees.in_parquet(root, files, names or self._names)
        if tree is None:
            return None
        found = match(tree, self.pattern)
        for row in found.rest.slice(0, 1).to_pylist():
            self.refuse(row["name"], str(root / row["file"]))
        self.refuse_row(found.tree, found.rest, f"is not like {self.wanted}")
        return found

    def refuse_row(self, tree: Tree, wrong: pa.Table, problem: str) -> None:
        """Refuse a mirror for the first of some wrong rows, if there are any.

        Raises:
            OtherDataError: there is one.
        """
        for row in wrong.slice(0, 1).to_pylist():
            raise OtherDataError(
                f"{self.title}: the file name {one_line(row['name'])} {problem} (row {row['offset']} of "
                f"{tree.root / row['file']}). {self.advice}."
            )

    def _names(self, path: Path) -> pa.Array:
        return parquet.read_shard(self.title, path, labelled=False, advice=self.advice).names

    def only(self, found: MatchedFiles, ids: pa.Array, known: pa.Array, reason: str) -> MatchedFiles:
        """Keep the images whose ids are known.

        Raises:
            OtherDataError: none is.
        """
        kept = found.filter(pc.is_in(ids, value_set=known), reason)
        if not kept.rows.num_rows:
            raise OtherDataError(
                f"{self.title}: none of the {len(ids):,} images in {found.tree.root} ({found.tree.where}) is one of "
                f"its {len(known):,}, for instance {ids[0]}. Give a copy of {self.title} with --{self.key}."
            )
        return kept

    def listed(
        self, name: str, found: MatchedFiles, ids: pa.Array, class_ids: Mapping[str, str], classes: Sequence[str]
    ) -> PartitionIndex | None:
        """Index the images that a list names; returns None if there is none. Others are no strays.

        Args:
            name: the partition.
            found: the images.
            ids: their ids.
            class_ids: the list, which gives the class of each id.
            classes: the source's classes, in order.
        """
        chosen, missing = found.listed(ids, pa.array(list(class_ids)))
        if not chosen.rows.num_rows:
            return None
        ids = ids.filter(pc.is_in(ids, value_set=pa.array(list(class_ids))))
        of_rows = pa.array([class_ids[image] for image in ids.to_pylist()])
        codes = pc.index_in(of_rows, value_set=pa.array(classes)).to_numpy()
        return self.partition(name, chosen, chosen.table(class_column(classes, codes), ids), missing=missing)

    def partition(self, name: str, found: MatchedFiles, table: pa.Table, **fields: Any) -> PartitionIndex:
        """Index images as a partition, given their table and further fields; the others are strays."""
        strays = found.strays(lambda other: self.reason(found.tree, other))
        return PartitionIndex(name, found.tree.where, found.tree.how, table, strays, **fields)

    def reason(self, tree: Tree, name: str) -> str:
        """Say why an entry of a tree is not one of the images."""
        self.refuse(name, tree.path_of(name.rpartition("/")[0]))
        return "a folder" if tree.is_folder(name) else f"not named {self.wanted}"
