"""Finds the images of a source among a copy's files by a pattern over names, and indexes them.

Tested by `tests/builders/sources/readers/test_patterns.py` and `tests/builders/sources/test_layouts.py`.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError, one_line
from builders.sources.base import CopyLayout, Home, OtherDataError, PartitionIndex, Stray, partition_table
from builders.sources.obtain import OwnerFile
from builders.sources.readers import parquet, parquet_files, trees
from builders.sources.readers.folders import child_names, escape_name, relative
from builders.sources.readers.parquet import ADVICE, Shard
from builders.sources.readers.trees import Tars, Tree
from unknown_detection.words import more

_FOLDERS = 64
"""Folders that are indexed at a time (ours), so that the groups of a million names are never there together."""


def _stored_names(shard: Shard) -> pa.Array:
    return shard.names


@dataclass(frozen=True)
class ImageNames(abc.ABC):
    """How the images of a source are named, by which its copies are recognised and indexed.

    `pattern` is one of `trees.match_names`. `name_form` describes such names for messages, and `advice` is the next
    step for a mirror with other names. `beside` are the ends of paths of the owner's other files, which are no strays.
    """

    pattern: str
    name_form: str
    advice: str = ADVICE
    beside: tuple[str, ...] = ()

    @abc.abstractmethod
    def indexed(self, tree: Tree) -> PartitionIndex:
        """Index the images of a tree by their names; each subclass knows one kind of names."""

    def layout(self, description: str, find: Callable[[Home], Tree | None], *partitions: str) -> CopyLayout:
        """Declare a layout whose images are in the tree that `find` returns, which may be None or empty."""

        def read(home: Home) -> PartitionIndex | None:
            tree = find(home)
            return self.indexed(tree) if tree is not None and tree.rows.num_rows else None

        return CopyLayout(description, read, partitions)

    def anywhere(self, folder: str, beside: str = "") -> CopyLayout:
        """Declare a layout of images in a folder of this path, of its last name, or of any name."""
        places = (folder, folder.rpartition("/")[2], "")
        description = f"{folder}/{self.name_form}, or these files in any folder{beside}"
        return self.layout(description, lambda home: self.in_places(home, *places))

    def archive(self, name: str, inside: str = "", beside: str = "") -> CopyLayout:
        """Declare an archive of this name: zip, tar, or tar.gz (tgz), and its other form; `inside` is its `top`."""
        stem, tar, compressed = name.replace(".tgz", ".tar.gz").partition(".tar")
        other_form = f" (or {stem}.tar, read in place)" if compressed else f", read in place (or {stem}.tar.gz)"
        other_form = other_form if tar else ""
        return self.layout(f"the archive {name}{other_form}{beside}", lambda home: self.in_archive(home, stem, inside))

    def mirror(
        self,
        description: str,
        splits: Sequence[str],
        names: Callable[[Shard], pa.Array] = _stored_names,
        **columns: Any,
    ) -> CopyLayout:
        """Declare the Parquet files of a mirror as a layout; arguments as for `in_parquet`."""
        return self.layout(description, lambda home: self.in_parquet(home, splits, names, **columns))

    def in_folders(
        self, home: Home, place: Path, folders: Sequence[str] = ("",), description: str = "image files"
    ) -> Tree:
        """Match the names of files in some folders below a place; see `trees.in_folders`."""
        return trees.in_folders(home, place, folders, description).match(self.pattern)

    def in_places(self, home: Home, *places: str) -> Tree | None:
        """Match the names of files in the first of several places that has images; None if no place has.

        Places are paths below the home, an empty one the home itself.
        """
        folders = (home.folder / place if place else home.folder for place in places)
        matches = (self.in_folders(home, folder) for folder in folders if folder.is_dir())
        return next((tree for tree in matches if tree.rows.num_rows), None)

    def in_tars(self, home: Home, place: Path, parts: Tars) -> Tree:
        """Match the names of files in tars; see `trees.in_tars`."""
        return trees.in_tars(home, place, parts).match(self.pattern)

    def in_archive(self, home: Home, stem: str, top: str = "") -> Tree | None:
        """Match the names of files in `<stem>.tar`, `<stem>.tar.gz`, `<stem>.tgz` or a zip; None if there is none."""
        archive = (trees.in_zip if stem.endswith(".zip") else trees.in_archive)(home, stem, top)
        tree = archive and archive.match(self.pattern)
        if tree is not None and not tree.rows.num_rows:
            title = home.source.title
            raise BuildError(
                f"{title}: {tree.place} has no images like {top}{self.name_form}. Give a copy of {title} with "
                f"--{home.source.key}."
            )
        return tree

    def in_parquet(
        self, home: Home, splits: Sequence[str], names: Callable[[Shard], pa.Array] = _stored_names, **columns: Any
    ) -> Tree | None:
        """Match the file names in the rows of a mirror's splits; None if the mirror has no files of them.

        `names` gives the names of a file's rows, and `columns` are the fields of `parquet.read_shard`.
        """
        paths = [path for split in splits for path in parquet_files.split_files(home.folder, split)]
        shards = (parquet.read_shard(home.source.title, path, advice=self.advice, **columns) for path in paths)
        rows = trees.in_parquet(home, ((shard.path, names(shard), shard.labels) for shard in shards))
        tree = rows and rows.match(self.pattern)
        if rows is not None and tree is not None and tree.others:
            wrong = pc.equal(rows.column("name"), tree.others[0][0])
            self.refuse_row(rows, wrong, f"is not like {self.name_form}")
        return tree

    def refuse_row(self, tree: Tree, wrong: pa.Array, problem: str) -> None:
        """Refuse a mirror if any row is marked wrong; the message names the first such row."""
        for row in tree.rows.filter(wrong).slice(0, 1).to_pylist():
            raise OtherDataError(
                f"{tree.home.source.title}: the file name {one_line(row['name'])} {problem} (row {row['offset']} of "
                f"{tree.home.root / row['file']}). {self.advice}."
            )

    def index(
        self,
        tree: Tree,
        class_ids: str | pa.Array,
        ids: pa.Array,
        own: Mapping[str, pa.Array] | None = None,
        **fields: Any,
    ) -> PartitionIndex:
        """Index images, given their classes (one text if all have the same), ids and the source's own columns.

        The files that were left out are strays. `fields` are further ones of the `PartitionIndex`.
        """
        names = list(tree.home.source.classes())
        if isinstance(class_ids, str):
            codes = np.full(len(ids), names.index(class_ids), np.int32)
        else:
            codes = pc.index_in(class_ids, value_set=pa.array(names)).to_numpy()
        files, offsets, sizes = (tree.column(name) for name in ("file", "offset", "size"))
        # In most layouts the id is the path; then both columns share one array.
        files = ids if ids.equals(files) else files
        table = partition_table(names, codes, ids, files, offsets, sizes, own)
        strays = self.strays(tree.strays(lambda name: self.reason(tree, name)))
        return PartitionIndex(tree.home.partition, tree.description, tree.how, table, strays, **fields)

    def strays(self, found: Iterable[Stray]) -> tuple[Stray, ...]:
        """Return the strays that are not other files of the owner."""
        return tuple(stray for stray in found if not stray.path.endswith(self.beside))

    def index_listed(
        self,
        tree: Tree,
        ids: pa.Array,
        class_of: Mapping[str, str],
        own: Callable[[str, pa.Array], Mapping[str, pa.Array]] = lambda *_: {},
        unlisted: str | None = None,
    ) -> PartitionIndex:
        """Index the images that a list names, with the class that it gives each id.

        Images that the list lacks are strays for the reason `unlisted`, or nothing without one. `own` gives the
        source's own columns for its key and ids.

        Raises:
            OtherDataError: the list has none of the images.
        """
        home, listed = tree.home, pa.array(list(class_of), pa.string())
        rows = pc.index_in(ids, value_set=listed)
        if rows.null_count == len(rows):
            raise home.other_data(
                f"none of the {len(ids):,} images in {home.root} ({tree.description}) is one of the {len(listed):,} "
                f"of the partition {home.partition}, for instance {ids[0]}"
            )
        missing = listed.filter(pc.invert(pc.is_in(listed, value_set=ids)))
        tree, rows = tree.keep(rows.is_valid(), unlisted), rows.drop_null()
        class_ids, ids = pa.array(list(class_of.values()), pa.string()).take(rows), listed.take(rows)
        return self.index(tree, class_ids, ids, own(home.source.key, ids), missing=missing)

    def reason(self, tree: Tree, name: str) -> str:
        """Say why an entry of a tree, given by its path in the tree, is not an image of the source."""
        return "a folder" if tree.is_folder(name) else f"not named {self.name_form}"


@dataclass(frozen=True)
class ListedNames(ImageNames):
    """The names of images whose classes a list has: the pattern's group `image` is the id.

    `listed` returns the class of each image of a partition by its id. Images of other partitions, which may lie in the
    same folders, are left alone.
    """

    _: KW_ONLY
    listed: Callable[[str], Mapping[str, str]]

    def indexed(self, tree: Tree) -> PartitionIndex:
        """Index the images that the list of the partition names."""
        return self.index_listed(tree, tree.column("image"), self.listed(tree.home.partition))


@dataclass(frozen=True)
class ClassFolders(ImageNames):
    """The names of images in class folders, which lie on disk, in an archive, or in a mirror's file names.

    The pattern has the groups `class_id`, which is the folder, and `image`, with which an image's id ends.
    `file_form` is the form of the names in a class's folder, in which the class's id replaces `{}`; without it, the
    end of `name_form`. `child` is what the folders are. `class_of` gives the class of a folder, None if it is of no
    class; without it folders have their class's id as their name. `prefix` is the start of the ids of a class's
    images, and `ending` what comes after the group `image`.
    """

    file_form: str = ""
    child: str = "a class folder"
    class_of: Callable[[str], str | None] | None = None
    prefix: Callable[[str], str] = "{}/".format
    ending: str = ""

    def layouts(
        self, archive: OwnerFile, inside: str, alone: str = "the class folders themselves"
    ) -> tuple[CopyLayout, ...]:
        """Declare three layouts of an owner's archive: unpacked, its class folders alone, and packed.

        `inside` is the path in it of the folder that holds the class folders, and `alone` a description of the class
        folders alone.
        """
        folder = inside.rpartition("/")[2]
        return (
            CopyLayout(f"{folder}/{self.name_form}", lambda home: self.below(home, home.folder / folder)),
            CopyLayout(alone, lambda home: self.below(home, home.folder)),
            self.archive(archive.name, f"{inside}/"),
        )

    def below(self, home: Home, place: Path) -> PartitionIndex | None:
        """Index the class folders that lie directly in a folder; None if it has none."""
        folders = [child for child in child_names(place) if self.known(home, child)] if place.is_dir() else []
        return self.of_folders(home, place, folders) if folders else None

    def of_folders(
        self, home: Home, place: Path, folders: Sequence[str], description: str = "class folders"
    ) -> PartitionIndex:
        """Index class folders, given by their paths below a place."""
        chunks = [
            self.indexed(self.in_folders(home, place, folders[start : start + _FOLDERS], description))
            for start in range(0, len(folders), _FOLDERS)
        ]
        inside = [stray for chunk in chunks for stray in chunk.strays]
        between = self.strays(strays_between(home.root, place, folders, self.child))
        table = pa.concat_tables([chunk.table for chunk in chunks])
        return dataclasses.replace(chunks[0], table=table, strays=(*inside, *between))

    def indexed(self, tree: Tree) -> PartitionIndex:
        """Index images by the class of the folder that they are in.

        Raises:
            OtherDataError: a class folder has files and no image.
        """
        classes, home = list(tree.home.source.classes()), tree.home
        folders = tree.column("class_id").dictionary_encode()
        of_folder = [self.known(home, folder) for folder in folders.dictionary.to_pylist()]
        class_ids = pa.array(of_folder, pa.string()).take(folders.indices)
        tree, class_ids = tree.keep(class_ids.is_valid(), "") if class_ids.null_count else tree, class_ids.drop_null()
        self._refuse_folders_without_images(tree, {*class_ids.unique().to_pylist()})
        prefixes = pa.array(map(self.prefix, classes)).take(pc.index_in(class_ids, value_set=pa.array(classes)))
        ids = pc.binary_join_element_wise(prefixes, tree.column("image"), self.ending, "")
        return self.index(tree, class_ids, ids)

    def known(self, home: Home, folder: str) -> str | None:
        """Return the class that a folder stands for; None if it stands for none."""
        if self.class_of is not None:
            return self.class_of(folder)
        return folder if folder in home.source.classes() else None

    def reason(self, tree: Tree, name: str) -> str:
        """Say why an entry of a tree is not an image of the source, with the form that names of its class have."""
        class_id = self.known(tree.home, name.rpartition("/")[0])
        reason = super().reason(tree, name)
        if class_id is None or reason == "a folder":
            return reason
        return f"not named {self.file_form.format(class_id) or self.name_form.rpartition('/')[2]}"

    def _refuse_folders_without_images(self, tree: Tree, with_images: set[str]) -> None:
        without_images: dict[str, list[str]] = {}
        title = tree.home.source.title
        for name, _ in sorted(tree.others):
            folder = name.rpartition("/")[0]
            if (class_id := self.known(tree.home, folder)) is not None and class_id not in with_images:
                without_images.setdefault(folder, []).append(name)
        for folder, names in without_images.items():
            # A visible file is named rather than a desktop's hidden one.
            name = min(names, key=lambda name: name.startswith(f"{folder}/."))
            raise OtherDataError(
                f"{title}: the class folder {tree.path_of(folder)} holds no image of its class: "
                f"{escape_name(name.rpartition('/')[2])} is {self.reason(tree, name)}{more(names, 1)}. Restore "
                f"its images, remove the folder, or give another copy of {title}."
            )


def strays_between(root: Path, folder: Path, paths: Sequence[str], description: str) -> list[Stray]:
    """Return what lies beside some nested paths below a folder, on every level, as strays: no `description`s."""
    children: dict[str, set[str]] = {}
    for path in paths:
        parts = path.split("/")
        for depth, name in enumerate(parts):
            children.setdefault("/".join(parts[:depth]), set()).add(name)
    return [
        Stray(relative(folder / inner / escape_name(name), root), f"not {description}")
        for inner, known in sorted(children.items())
        for name in child_names(folder / inner if inner else folder)
        if name not in known
    ]
