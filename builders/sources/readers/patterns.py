"""Applies a pattern over names to the files of a tree: which of them are images of a source, and of which class.

Tested by `tests/builders/sources/readers/test_patterns.py`.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError, more, one_line
from builders.sources.base import OtherDataError, PartitionIndex, Stray, partition_table
from builders.sources.readers import parquet, parquet_files, trees
from builders.sources.readers.folders import child_names, class_codes, class_column, printable, strays_between
from builders.sources.readers.layouts import Finder
from builders.sources.readers.parquet_columns import ADVICE
from builders.sources.readers.trees import Tree
from builders.storage.text_files import read_lines

FOLDERS = 16
"""Folders that are indexed at a time (ours), so that the groups of a million names are never there together."""

_AGAIN = "_again"


def extract(names: pa.Array, pattern: str, start: str = "") -> tuple[pa.Array, Mapping[str, pa.Array]]:
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
class Images:
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
        """The others as strays, given why a name is none of an image."""
        return tuple(
            Stray(self.tree.prefix + printable(name), self.reasons.get(name) or reason(name)) for name in self.others
        )

    def select(self, mask: pa.Array) -> Images:
        """Keep some of the images and forget those left out, which are no strays."""
        if pc.all(mask, min_count=0).as_py():
            return self
        groups = {name: values.filter(mask) for name, values in self.groups.items()}
        return dataclasses.replace(self, rows=self.rows.filter(mask), groups=groups)

    def filter(self, mask: pa.Array, reason: str = "") -> Images:
        """Keep some of the images; those left out are among the others, for the given reason."""
        left_out = self.rows.filter(pc.invert(mask))
        reasons = dict.fromkeys((name[len(self.tree.start) :] for name in left_out["name"].to_pylist()), reason)
        rest = pa.concat_tables([self.rest, left_out])
        return dataclasses.replace(self.select(mask), rest=rest, reasons={**self.reasons, **reasons})

    def table(self, classes: pa.DictionaryArray, ids: pa.Array, own: Mapping[str, pa.Array] | None = None) -> pa.Table:
        """The index of the images, given their `class_id` column, ids and the source's own columns."""
        files, offsets, sizes = (self.rows[name].combine_chunks() for name in ("file", "offset", "size"))
        # In most layouts the id is the path; then both columns share one array.
        return partition_table(classes, ids, ids if ids.equals(files) else files, offsets, sizes, own)


def match(tree: Tree, pattern: str) -> Images:
    """Divide the files of a tree by a pattern; see `extract`."""
    fits, groups = extract(tree.rows["name"].combine_chunks(), pattern, tree.start)
    if pc.all(fits, min_count=0).as_py():
        return Images(tree, tree.rows, groups, tree.rows.slice(0, 0))
    return Images(tree, tree.rows.filter(fits), groups, tree.rows.filter(pc.invert(fits)))


def together(pieces: Sequence[PartitionIndex]) -> PartitionIndex:
    """Put parts of one partition together; all but their rows and strays is that of the first."""
    table = pa.concat_tables([piece.table for piece in pieces])
    strays = tuple(stray for piece in pieces for stray in piece.strays)
    return dataclasses.replace(pieces[0], table=table, strays=strays)


@dataclass(frozen=True)
class Pattern:
    """A source's pattern over the names of its images, for `extract`, and how to find them in each kind of tree.

    `wanted` describes such names for messages, and `advice` is the next step for a mirror with other names. `refuse`
    is called with every other name, and with its place for messages, to raise where it shows that a copy is wrong.
    """

    key: str
    title: str
    pattern: str
    wanted: str
    advice: str = ADVICE
    refuse: Callable[[str, str], None] = lambda name, place: None

    def in_folders(self, root: Path, place: Path, folders: Sequence[str] = ("",), what: str = "image files") -> Images:
        """Match the files of some folders below a place; see `trees.in_folders`."""
        return match(trees.in_folders(root, place, folders, what), self.pattern)

    def in_places(self, root: Path, home: Path, places: Sequence[str] = ()) -> Images | None:
        """Match the files of the first folder with images, of some below `home` and then itself; None if none has."""
        folders = (*(home / place for place in places), home)
        found = (self.in_folders(root, folder) for folder in folders if folder.is_dir())
        return next((images for images in found if images.rows.num_rows), None)

    def in_archive(self, root: Path, home: Path, stem: str, top: str = "") -> Images | None:
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
    ) -> Images | None:
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

    def only(self, found: Images, ids: pa.Array, known: pa.Array, reason: str) -> Images:
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

    def partition(self, name: str, found: Images, table: pa.Table, **fields: Any) -> PartitionIndex:
        """Index images as a partition, given their table and further fields; the others are strays."""
        strays = found.strays(lambda other: self.reason(found.tree, other))
        return PartitionIndex(name, found.tree.where, found.tree.how, table, strays, **fields)

    def reason(self, tree: Tree, name: str) -> str:
        """Why an entry of a tree is none of the images."""
        self.refuse(name, tree.path_of(name.rpartition("/")[0]))
        return "a folder" if tree.is_folder(name) else f"not named {self.wanted}"


@dataclass(frozen=True)
class ClassFolders:
    """The reader of images in folders by class, with what differs between sources.

    The pattern has the groups `class_id`, which is the folder, and `file`, with which an image's id ends. `wanted`
    is the name of a class's images for messages, and `child` what their folders are. `class_of` gives the class of a
    folder, None if it is of no class; without it folders have their class's id as their name. `prefix` is the start
    of the ids of a class's images, and `ending` what comes after the group `file`. `lists` are the owner's lists of
    ids, relative to the parent of the class folders; they may leave the ending out.
    """

    pattern: Pattern
    partition: str
    classes: Callable[[], Mapping[str, str]]
    wanted: Callable[[str], str]
    child: str = "a class folder"
    class_of: Callable[[str], str | None] | None = None
    prefix: Callable[[str], str] = "{}/".format
    lists: tuple[str, ...] = ()
    ending: str = ""

    def below(self, name: str = "") -> Finder:
        """Return a finder of class folders side by side in a subfolder, or in the folder itself."""

        def find(root: Path, home: Path) -> PartitionIndex | None:
            place = home / name if name else home
            folders = [child for child in child_names(place) if self.known(child)] if place.is_dir() else []
            return self.in_folders(root, place, folders) if folders else None

        return find

    def archive(self, stem: str, top: str) -> Finder:
        """Return a finder of class folders inside an archive; its other files are not looked at."""

        def find(root: Path, home: Path) -> PartitionIndex | None:
            found = self.pattern.in_archive(root, home, stem, top)
            return None if found is None else self.index(found)

        return find

    def mirror(self, splits: Sequence[str], names: Callable[[Path], pa.Array]) -> Finder:
        """Return a finder of a mirror's Parquet files; `names` reads the folder and the name of each row of one."""

        def find(root: Path, home: Path) -> PartitionIndex | None:
            found = self.pattern.in_parquet(root, home, splits, names)
            return None if found is None else self.index(found)

        return find

    def in_folders(
        self, root: Path, place: Path, folders: Sequence[str], what: str = "class folders"
    ) -> PartitionIndex:
        """Index class folders, given by their paths below a place."""
        parts = (folders[start : start + FOLDERS] for start in range(0, len(folders), FOLDERS))
        piece = together([self.index(self.pattern.in_folders(root, place, part, what)) for part in parts])
        beside = strays_between(root, place, folders, self.child)
        missing = self._missing(place.parent, piece.table["source_id"])
        return dataclasses.replace(piece, strays=(*piece.strays, *beside), missing=missing)

    def index(self, found: Images) -> PartitionIndex:
        """Index images by the class of their folder.

        Raises:
            OtherDataError: a class folder has files and no image.
        """
        codes = self._codes(found.groups["class_id"])
        if (codes < 0).any():
            found, codes = found.filter(pa.array(codes >= 0)), codes[codes >= 0]
        ids = pc.binary_join_element_wise(self._prefixes.take(pa.array(codes)), found.groups["file"], self.ending, "")
        table = found.table(class_column(tuple(self.classes()), codes), ids)
        return PartitionIndex(self.partition, found.tree.where, found.tree.how, table, self._strays(found))

    def known(self, folder: str) -> str | None:
        """The class of a folder, None if it is of no class."""
        if self.class_of is not None:
            return self.class_of(folder)
        return folder if folder in self.classes() else None

    @functools.cached_property
    def _prefixes(self) -> pa.Array:
        return pa.array([self.prefix(name) for name in self.classes()], pa.string())

    @functools.cached_property
    def _order(self) -> Mapping[str, int]:
        return class_codes(tuple(self.classes()))

    def _codes(self, folders: pa.Array) -> npt.NDArray[np.int64]:
        """The position of each folder's class, -1 for those of no class."""
        encoded = folders.dictionary_encode()
        known = [self.known(folder) for folder in encoded.dictionary.to_pylist()]
        codes = np.array([-1 if name is None else self._order[name] for name in known], np.int64)
        of_rows: npt.NDArray[np.int64] = codes[encoded.indices.to_numpy()]
        return of_rows

    def _strays(self, found: Images) -> tuple[Stray, ...]:
        if not found.others:
            return ()
        with_images = set(map(self.known, found.groups["class_id"].unique().to_pylist()))
        alone: dict[str, list[str]] = {}
        for name in found.others:
            folder = name.rpartition("/")[0]
            if (class_id := self.known(folder)) is not None and class_id not in with_images:
                alone.setdefault(folder, []).append(name)
        for folder, names in alone.items():
            self._refuse_alone(found.tree, folder, names)
        return found.strays(lambda name: self.reason(found.tree, name))

    def reason(self, tree: Tree, name: str) -> str:
        """Why a file is none of the images; `name` is its path in the tree."""
        class_id = self.known(name.rpartition("/")[0])
        reason = self.pattern.reason(tree, name)
        return reason if class_id is None or reason == "a folder" else f"not named {self.wanted(class_id)}"

    def _refuse_alone(self, tree: Tree, folder: str, names: Sequence[str]) -> None:
        """Refuse a class folder without images; a visible file is named rather than a desktop's hidden one."""
        name = next((name for name in names if not name.startswith(f"{folder}/.")), names[0])
        title = self.pattern.title
        raise OtherDataError(
            f"{title}: the class folder {tree.path_of(folder)} holds no image of its class: "
            f"{printable(name.rpartition('/')[2])} is {self.reason(tree, name)}{more(names, 1)}. Restore its images, "
            f"remove the folder, or give another copy of {title}."
        )

    def _missing(self, home: Path, ids: pa.ChunkedArray) -> pa.Array:
        """The ids that the owner's lists have and the folders lack; lists that are missing are skipped."""
        paths = [home / name for name in self.lists if (home / name).is_file()]
        listed = pa.array([listed for path in paths for listed in self._listed(path)], pa.string())
        if not paths:  # a set of a million ids would be made for nothing
            return listed
        return listed.filter(pc.invert(pc.is_in(listed, ids.combine_chunks())))

    def _listed(self, path: Path) -> Iterator[str]:
        """Yield the ids of one of the owner's lists."""
        lines = enumerate(read_lines(path, "Unpack the archive again."), start=1)
        listed = [(number, word) for number, line in lines for word in line.split()]
        names = [f"{word.removesuffix(self.ending)}{self.ending}" for _, word in listed]
        fits, groups = extract(pa.array(names, pa.string()), self.pattern.pattern)
        classes = iter(groups["class_id"].to_pylist())
        for (number, word), name, fit in zip(listed, names, fits.to_pylist(), strict=True):
            if not fit or self.known(next(classes)) is None:
                raise BuildError(
                    f"{self.pattern.title}: line {number} of {path} does not list an image of its classes: "
                    f"{one_line(word)}. Unpack the archive again."
                )
            yield name
