"""Indexes images in class folders: on disk, in an archive, or as the file names of a mirror have them.

Tested by `tests/builders/sources/test_layouts.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import more
from builders.sources.base import OtherDataError, PartitionIndex, Stray
from builders.sources.obtain import OwnerFile
from builders.sources.readers.folders import child_names, class_column, escape_name, strays_between
from builders.sources.readers.layouts import CopyLayout, Finder
from builders.sources.readers.patterns import MatchedFiles, Pattern
from builders.sources.readers.trees import Tree

_FOLDERS = 64
"""Folders that are indexed at a time (ours), so that the groups of a million names are never there together."""


@dataclass(frozen=True)
class ClassFolders:
    """A reader of class folders, with the fields in which sources differ.

    The pattern has the groups `class_id`, which is the folder, and `file`, with which an image's id ends. `name_form`
    is the name of a class's images for messages, and `child` what their folders are. `class_of` gives the class of a
    folder, None if it is of no class; without it folders have their class's id as their name. `prefix` is the start
    of the ids of a class's images, and `ending` what comes after the group `file`.
    """

    pattern: Pattern
    partition: str
    classes: Callable[[], Mapping[str, str]]
    name_form: Callable[[str], str]
    child: str = "a class folder"
    class_of: Callable[[str], str | None] | None = None
    prefix: Callable[[str], str] = "{}/".format
    ending: str = ""

    def layouts(
        self, archive: OwnerFile, inside: str, names: str, alone: str = "the class folders themselves"
    ) -> tuple[CopyLayout, ...]:
        """Declare the layouts of an owner's archive: unpacked, its class folders alone, and packed.

        Args:
            archive: a tar or a tar.gz.
            inside: the path in it of the folder that holds the class folders.
            names: the form of the images' paths below that folder.
            alone: a description of the class folders alone.
        """
        folder = inside.rpartition("/")[2]
        stem, _, compressed = archive.name.partition(".tar")
        other_form = f" (or {stem}.tar, read in place)" if compressed else f", read in place (or {stem}.tar.gz)"

        def packed(root: Path, home: Path) -> PartitionIndex | None:
            files = self.pattern.in_archive(root, home, stem, f"{inside}/")
            return None if files is None else self.index(files)

        return (
            CopyLayout(self.partition, f"{folder}/{names}", lambda root, home: self.below(root, home / folder)),
            CopyLayout(self.partition, alone, self.below),
            CopyLayout(self.partition, f"the original archive {archive.name}{other_form}", packed),
        )

    def below(self, root: Path, place: Path) -> PartitionIndex | None:
        """Index class folders side by side in a folder."""
        folders = [child for child in child_names(place) if self.known(child)] if place.is_dir() else []
        return self.in_folders(root, place, folders) if folders else None

    def mirror(self, splits: Sequence[str], names: Callable[[Path], pa.Array]) -> Finder:
        """Return a finder of a mirror's Parquet files; `names` reads the folder and the name of each row of one."""

        def find(root: Path, home: Path) -> PartitionIndex | None:
            files = self.pattern.in_parquet(root, home, splits, names)
            return None if files is None else self.index(files)

        return find

    def in_folders(
        self, root: Path, place: Path, folders: Sequence[str], description: str = "class folders"
    ) -> PartitionIndex:
        """Index class folders, given by their paths below a place."""
        pieces = [
            self.index(self.pattern.in_folders(root, place, folders[start : start + _FOLDERS], description))
            for start in range(0, len(folders), _FOLDERS)
        ]
        strays = [stray for piece in pieces for stray in piece.strays]
        strays += strays_between(root, place, folders, self.child)
        return dataclasses.replace(
            pieces[0], table=pa.concat_tables([piece.table for piece in pieces]), strays=tuple(strays)
        )

    def index(self, files: MatchedFiles) -> PartitionIndex:
        """Index images by the class of their folder.

        Raises:
            OtherDataError: a class folder has files and no image.
        """
        names = tuple(self.classes())
        order = {name: code for code, name in enumerate(names)}
        folders = files.groups["class_id"].dictionary_encode()
        known = [self.known(folder) for folder in folders.dictionary.to_pylist()]
        codes = np.array([-1 if name is None else order[name] for name in known], np.int32)[folders.indices.to_numpy()]
        if (codes < 0).any():
            files, codes = files.filter(pa.array(codes >= 0)), codes[codes >= 0]
        prefixes = pa.array([self.prefix(name) for name in names]).take(pa.array(codes))
        ids = pc.binary_join_element_wise(prefixes, files.groups["file"], self.ending, "")
        table = files.table(class_column(names, codes), ids)
        return PartitionIndex(self.partition, files.tree.description, files.tree.how, table, self._strays(files))

    def known(self, folder: str) -> str | None:
        """Return the class of a folder, None if it is of no class."""
        if self.class_of is not None:
            return self.class_of(folder)
        return folder if folder in self.classes() else None

    def _strays(self, files: MatchedFiles) -> tuple[Stray, ...]:
        with_images = set(map(self.known, files.groups["class_id"].unique().to_pylist()))
        without_images: dict[str, list[str]] = {}
        for name in files.other_names:
            folder = name.rpartition("/")[0]
            if (class_id := self.known(folder)) is not None and class_id not in with_images:
                without_images.setdefault(folder, []).append(name)
        for folder, names in without_images.items():
            # A visible file is named rather than a desktop's hidden one.
            name = min(names, key=lambda name: name.startswith(f"{folder}/."))
            title = self.pattern.title
            raise OtherDataError(
                f"{title}: the class folder {files.tree.path_of(folder)} holds no image of its class: "
                f"{escape_name(name.rpartition('/')[2])} is {self._reason(files.tree, name)}{more(names, 1)}. Restore "
                f"its images, remove the folder, or give another copy of {title}."
            )
        return files.strays(lambda name: self._reason(files.tree, name))

    def _reason(self, tree: Tree, name: str) -> str:
        """Return why a file is not an image of the source; `name` is its path in the tree."""
        class_id = self.known(name.rpartition("/")[0])
        reason = self.pattern.reason(tree, name)
        return reason if class_id is None or reason == "a folder" else f"not named {self.name_form(class_id)}"
