"""Indexes images in class folders: on disk, in an archive, or as the file names of a mirror have them.

Tested by `tests/builders/sources/test_layouts.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError, more, one_line
from builders.sources.base import OtherDataError, PartitionIndex, Stray
from builders.sources.obtain import OwnerFile
from builders.sources.readers.folders import child_names, class_codes, class_column, escape_name, strays_between
from builders.sources.readers.layouts import CopyLayout, Finder
from builders.sources.readers.patterns import MatchedFiles, Pattern, match_names
from builders.sources.readers.trees import Tree
from builders.storage.text_files import read_text_lines

FOLDERS = 64
"""Folders that are indexed at a time (ours), so that the groups of a million names are never there together."""


@dataclass(frozen=True)
class ClassFolders:
    """A reader of class folders, with the fields in which sources differ.

    The pattern has the groups `class_id`, which is the folder, and `file`, with which an image's id ends. `name_form`
    is the name of a class's images for messages, and `child` what their folders are. `class_of` gives the class of a
    folder, None if it is of no class; without it folders have their class's id as their name. `prefix` is the start
    of the ids of a class's images, and `ending` what comes after the group `file`. `lists` are the owner's lists of
    ids, relative to the parent of the class folders; they may leave the ending out.
    """

    pattern: Pattern
    partition: str
    classes: Callable[[], Mapping[str, str]]
    name_form: Callable[[str], str]
    child: str = "a class folder"
    class_of: Callable[[str], str | None] | None = None
    prefix: Callable[[str], str] = "{}/".format
    lists: tuple[str, ...] = ()
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
        return (
            CopyLayout(self.partition, f"{folder}/{names}", self.below(folder)),
            CopyLayout(self.partition, alone, self.below()),
            CopyLayout(
                self.partition, f"the original archive {archive.name}{other_form}", self.archive(stem, f"{inside}/")
            ),
        )

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
            files = self.pattern.in_archive(root, home, stem, top)
            return None if files is None else self.index(files)

        return find

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
        parts = (folders[start : start + FOLDERS] for start in range(0, len(folders), FOLDERS))
        piece = _together([self.index(self.pattern.in_folders(root, place, part, description)) for part in parts])
        other_strays = strays_between(root, place, folders, self.child)
        missing = self._missing(place.parent, piece.table["source_id"])
        return dataclasses.replace(piece, strays=(*piece.strays, *other_strays), missing=missing)

    def index(self, files: MatchedFiles) -> PartitionIndex:
        """Index images by the class of their folder.

        Raises:
            OtherDataError: a class folder has files and no image.
        """
        codes = self._codes(files.groups["class_id"])
        if (codes < 0).any():
            files, codes = files.filter(pa.array(codes >= 0)), codes[codes >= 0]
        ids = pc.binary_join_element_wise(self._prefixes.take(pa.array(codes)), files.groups["file"], self.ending, "")
        table = files.table(class_column(tuple(self.classes()), codes), ids)
        return PartitionIndex(self.partition, files.tree.description, files.tree.how, table, self._strays(files))

    def known(self, folder: str) -> str | None:
        """Return the class of a folder, None if it is of no class."""
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
        """Return the position of each folder's class, -1 for folders of no class."""
        encoded = folders.dictionary_encode()
        known = [self.known(folder) for folder in encoded.dictionary.to_pylist()]
        codes = np.array([-1 if name is None else self._order[name] for name in known], np.int64)
        of_rows: npt.NDArray[np.int64] = codes[encoded.indices.to_numpy()]
        return of_rows

    def _strays(self, files: MatchedFiles) -> tuple[Stray, ...]:
        if not files.other_names:
            return ()
        with_images = set(map(self.known, files.groups["class_id"].unique().to_pylist()))
        without_images: dict[str, list[str]] = {}
        for name in files.other_names:
            folder = name.rpartition("/")[0]
            if (class_id := self.known(folder)) is not None and class_id not in with_images:
                without_images.setdefault(folder, []).append(name)
        for folder, names in without_images.items():
            self._refuse_alone(files.tree, folder, names)
        return files.strays(lambda name: self.reason(files.tree, name))

    def reason(self, tree: Tree, name: str) -> str:
        """Return why a file is not an image of the source; `name` is its path in the tree."""
        class_id = self.known(name.rpartition("/")[0])
        reason = self.pattern.reason(tree, name)
        return reason if class_id is None or reason == "a folder" else f"not named {self.name_form(class_id)}"

    def _refuse_alone(self, tree: Tree, folder: str, names: Sequence[str]) -> None:
        """Refuse a class folder without images; a visible file is named rather than a desktop's hidden one."""
        name = next((name for name in names if not name.startswith(f"{folder}/.")), names[0])
        title = self.pattern.title
        raise OtherDataError(
            f"{title}: the class folder {tree.path_of(folder)} holds no image of its class: "
            f"{escape_name(name.rpartition('/')[2])} is {self.reason(tree, name)}{more(names, 1)}. Restore its "
            f"images, remove the folder, or give another copy of {title}."
        )

    def _missing(self, home: Path, ids: pa.ChunkedArray) -> pa.Array:
        """Return the ids that the owner's lists have and the folders lack; lists that are missing are skipped."""
        paths = [home / name for name in self.lists if (home / name).is_file()]
        listed = pa.array([listed for path in paths for listed in self._listed(path)], pa.string())
        if not paths:  # a set of a million ids would be made for nothing
            return listed
        return listed.filter(pc.invert(pc.is_in(listed, ids.combine_chunks())))

    def _listed(self, path: Path) -> Iterator[str]:
        """Yield the ids of one of the owner's lists."""
        lines = enumerate(read_text_lines(path, "Unpack the archive again."), start=1)
        listed = [(number, word) for number, line in lines for word in line.split()]
        names = [f"{word.removesuffix(self.ending)}{self.ending}" for _, word in listed]
        fits, groups = match_names(pa.array(names, pa.string()), self.pattern.pattern)
        classes = iter(groups["class_id"].to_pylist())
        for (number, word), name, fit in zip(listed, names, fits.to_pylist(), strict=True):
            if not fit or self.known(next(classes)) is None:
                raise BuildError(
                    f"{self.pattern.title}: line {number} of {path} does not list an image of its classes: "
                    f"{one_line(word)}. Unpack the archive again."
                )
            yield name


def _together(pieces: Sequence[PartitionIndex]) -> PartitionIndex:
    """Join parts of one partition: their rows and strays, all else from the first."""
    table = pa.concat_tables([piece.table for piece in pieces])
    strays = tuple(stray for piece in pieces for stray in piece.strays)
    return dataclasses.replace(pieces[0], table=table, strays=strays)
