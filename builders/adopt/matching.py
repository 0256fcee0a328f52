"""Identifies a copy's files as images of a source: by name if names are distinctive, else by content.

Names stay bytes in Arrow arrays and are compared all at once: a copy of the training images has 750,000 of them, a
source 1.3 million. Only files that their names do not identify become Python objects.

Tested by `tests/builders/adopt/test_copies.py`.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.adopt.folders import (
    ClassNames,
    FileListing,
    Log,
    adopt_classes,
    list_images,
    reading_copy,
    refuse_roles,
    ruled_out,
)
from builders.declare.splits import Config, Split
from builders.errors import BuildError
from builders.plan.candidates import Adopted
from builders.sources.base import IN_PLACE, SourceIndex
from builders.sources.readers.folders import escape_name
from builders.sources.sizes import image_sizes
from builders.storage.files import open_buffered
from unknown_detection.words import first_few

Int64 = npt.NDArray[np.int64]

_LISTED = 100
"""Files without an image that are named one by one."""


def adopt_folder(config: Config, split: Split, folder: Path, index: SourceIndex, log: Log) -> Adopted:
    """Adopt the images of a set, or only its classes if its folders are empty."""
    listing = list_images(folder)
    log(f"{folder}: {len(listing):,} images in {len(listing.folders):,} folders")
    if listing.ignored:
        names = first_few(list(map(escape_name, listing.ignored)))
        log(f"{folder}: left out {len(listing.ignored):,} entries that are not images ({names})")
    if not len(listing):
        if not listing.empty:
            raise BuildError(
                f"{folder} has neither images nor class folders. Complete the copy, or remove that folder so that the "
                "split is drawn by rule."
            )
        return adopt_classes(config, split, ((name, str(path)) for name, path in listing.empty))
    match = _Match(config, split, listing, index, log)
    match.by_name()
    match.by_content()
    match.refuse_unmatched(folder)
    rows, first = np.unique(match.rows, return_index=True)
    if len(rows) < len(listing):
        log(f"{split.published}: {len(listing) - len(rows):,} files repeat an image, which is taken once")
    if match.arbitrary:
        log(
            f"{split.published}: {match.arbitrary:,} images occur several times in the source and less often in the "
            "copy, which does not say which of them it has; the first by id is taken"
        )
    codes, first_of_class = np.unique(index.class_codes[rows], return_index=True)
    paths = (str(listing.path(file)) for file in first[first_of_class].tolist())
    examples = dict(zip((str(index.class_ids[code]) for code in codes), paths, strict=True))
    refuse_roles(config, split, examples)
    return Adopted(tuple(sorted(examples)), tuple(sorted(index.values("source_id", rows).to_pylist())))


class _Match:
    """The images of one set's files.

    A name made of digits is a running number in many sources and copies, so it only decides which images are
    compared first. With a Parquet source, where comparing takes hours, it is trusted.

    Attributes:
        rows: each file's row in the source's index, or -1.
        arbitrary: files whose content several images of the source have, of which not all are in the set.
    """

    def __init__(self, config: Config, split: Split, listing: FileListing, index: SourceIndex, log: Log) -> None:
        self.split, self.listing, self.index, self.log = split, listing, index, log
        self.allowed = np.zeros(index.num_rows, np.bool_)
        self.allowed[index.rows_of(split.partitions)] = True
        # ImageNet has images with equal bytes in two classes; of these, one of a class that the set can have is taken.
        self.excluded_classes = np.isin(index.class_ids, list(ruled_out(config, split)))
        self.packed = any(
            partition.how not in IN_PLACE for partition in index.partitions if partition.name in split.partitions
        )
        self.rows = np.full(len(listing), -1, dtype=np.int64)
        self.arbitrary = 0
        code_of = {str(class_id): code for code, class_id in enumerate(index.class_ids)}
        classes = ClassNames(split.source)
        of_folder = [code_of.get(classes.of_folder(name) or "", -1) for name in listing.classes]
        self.file_classes = np.array(of_folder, dtype=np.int64)[listing.folder_of]
        unknown = sorted({name for name, code in zip(listing.classes, of_folder, strict=True) if name and code < 0})
        if unknown:
            shown = first_few(list(map(escape_name, unknown)))
            log(f"{listing.folders[0].parent}: {len(unknown):,} folders not named after one class ({shown})")
        names = listing.names.dictionary_encode()
        digits = pc.match_substring_regex(names.dictionary, r"^[0-9]+(\.[^.]*)?$").to_numpy(zero_copy_only=False)
        self.file_names = names.indices.to_numpy().astype(np.int64)
        self.distinctive = ~digits[self.file_names] | self.packed
        image_names = pc.replace_substring_regex(index.table["source_id"], "^.*/", "").cast(pa.binary())
        codes = pc.fill_null(pc.index_in(image_names, value_set=names.dictionary), -1).to_numpy()
        self.named_rows = np.flatnonzero(codes >= 0)
        self.row_names = codes[self.named_rows].astype(np.int64)

    def _in_class(self, names: Int64, classes: npt.NDArray[np.integer]) -> Int64:
        """Combine name and class into one number, which no image has for a file without a class."""
        width = len(self.index.class_ids) + 1
        return names * width + np.where(classes < 0, width - 1, classes.astype(np.int64))

    def by_name(self) -> None:
        """Match files by their names where these are distinctive, and check the class that a file lies in."""
        self.file_keys = self._in_class(self.file_names, self.file_classes)
        self.row_keys = self._in_class(self.row_names, self.index.class_codes[self.named_rows])
        by_name, images = _only(self.file_names, self.row_names)
        by_key, _ = _only(self.file_keys, self.row_keys)
        position = np.where(self.file_classes >= 0, by_key, by_name)
        matched = np.flatnonzero(self.distinctive & (position >= 0))
        self.rows[matched] = self.named_rows[position[matched]]
        misplaced = np.flatnonzero(self.distinctive & (position < 0) & (images == 1))
        if len(misplaced):
            self.refuse_class(int(misplaced[0]), int(self.named_rows[by_name[misplaced[0]]]))
        elsewhere = matched[~self.allowed[self.rows[matched]]]
        if len(elsewhere):
            file, row = int(elsewhere[0]), int(self.rows[elsewhere[0]])
            partition = self.index.partitions[int(self.index.partition_of(np.array([row]))[0])].name
            raise BuildError(
                f"{self.index.source.title}: {self.listing.path(file)} is {self._id(row)} of the partition "
                f"{partition}{f', and so are {len(elsewhere) - 1:,} more files' if len(elsewhere) > 1 else ''}, but "
                f"this set takes images of {' or '.join(self.split.partitions)} only. Remove such files from this set "
                "of the copy."
            )

    def by_content(self) -> None:
        """Match the remaining files by content: with images of the same name first, then with all images."""
        unmatched = np.flatnonzero(self.rows < 0)
        if len(unmatched) and self.packed:
            raise BuildError(
                f"{self.index.source.title}: {len(unmatched):,} files such as {self.listing.path(int(unmatched[0]))} "
                f"can only be identified by content, which takes hours with the Parquet files in {self.index.root}. "
                f"Give folders or archives with --{self.index.source.key}."
            )
        same_name = np.isin(self.row_keys, self.file_keys[unmatched])
        same_name |= np.isin(self.row_names, self.file_names[unmatched[self.file_classes[unmatched] < 0]])
        likely = self.named_rows[same_name]
        for rows in (likely[self.allowed[likely]], np.flatnonzero(self.allowed)):
            self._compare(np.flatnonzero(self.rows < 0), rows)

    def _compare(self, unmatched: Int64, rows: Int64) -> None:
        """Match unmatched files with images of the same bytes; only images and files of equal size are read."""
        if not len(unmatched) or not len(rows):
            return
        self.log(f"comparing {len(unmatched):,} files with {len(rows):,} images, by size and then by content")
        sizes, read = image_sizes(self.index, rows)
        files = {file: _size(self.listing.path(file)) for file in unmatched.tolist()}
        shared = set(sizes.tolist()).intersection(size for size in files.values() if size > 0)
        images: dict[bytes, list[int]] = defaultdict(list)
        for position in np.flatnonzero(np.isin(sizes, list(shared))).tolist():
            images[hashlib.sha256(read(position)).digest()].append(int(rows[position]))
        taken = set(self.rows[self.rows >= 0].tolist())
        choices: dict[bytes, Sequence[int]] = {}
        for file, size in files.items():
            digest = _digest(self.listing.path(file)) if size in shared else b""
            if digest in images:
                self.rows[file] = self._choose(file, images[digest], taken)
                taken.add(int(self.rows[file]))
                choices[digest] = self._possible(images[digest])
        self.arbitrary += sum(not taken.issuperset(rows_of_digest) for rows_of_digest in choices.values())

    def _choose(self, file: int, equal_rows: Sequence[int], taken: set[int]) -> int:
        """Choose among images of equal bytes: in the file's class, not taken yet, with the least id."""
        class_code, codes = int(self.file_classes[file]), self.index.class_codes
        rows = equal_rows if class_code >= 0 else self._possible(equal_rows)
        row = min(rows, key=lambda row: (class_code not in (-1, codes[row]), row in taken, self._id(row)))
        if class_code not in (-1, codes[row]):
            self.refuse_class(file, row)
        return row

    def _possible(self, equal_rows: Sequence[int]) -> Sequence[int]:
        """Keep the images whose class the set can have; all of them, if it can have none."""
        return [row for row in equal_rows if not self.excluded_classes[self.index.class_codes[row]]] or equal_rows

    def _id(self, row: int) -> str:
        return str(self.index.table["source_id"][row].as_py())

    def refuse_class(self, file: int, row: int) -> None:
        """Refuse a file that lies in another class's folder than its image in the source."""
        index = self.index
        raise BuildError(
            f"{self.index.source.title}: {self.listing.path(file)} lies in the folder of class "
            f"{index.class_ids[self.file_classes[file]]}, but is {self._id(row)} of class "
            f"{index.class_ids[index.class_codes[row]]}. Move it to its own class folder, or remove it from the copy."
        )

    def refuse_unmatched(self, folder: Path) -> None:
        """Refuse files that match no image of the source, and name them all."""
        files = np.flatnonzero(self.rows < 0).tolist()
        if not files:
            return
        for file in files[:_LISTED]:
            self.log(f"no image of {self.index.source.title}: {escape_name(str(self.listing.path(file)))}")
        paths = [escape_name(self.listing.path(file).relative_to(folder).as_posix()) for file in files]
        raise BuildError(
            f"{self.index.source.title}: {self.index.root} (partition {' or '.join(self.split.partitions)}) lacks "
            f"{len(files):,} of the {len(self.listing):,} images of {folder}, by name and by content "
            f"({first_few(paths)}). Complete the source, or remove these files from the copy."
        )


def _size(path: Path) -> int:
    with reading_copy(path):
        return path.stat().st_size


def _digest(path: Path) -> bytes:
    with reading_copy(path), open_buffered(path) as opened:
        return hashlib.sha256(opened.read()).digest()


def _only(numbers: Int64, offered: Int64) -> tuple[Int64, Int64]:
    """Return for each number the position of its only equal among those offered, or -1, and the count of equals."""
    order = np.argsort(offered, kind="stable")
    ranked = offered[order]
    first = np.searchsorted(ranked, numbers, side="left")
    count = np.searchsorted(ranked, numbers, side="right") - first
    position = np.full(len(numbers), -1, dtype=np.int64)
    position[count == 1] = order[first[count == 1]]
    return position, count
