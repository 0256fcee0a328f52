"""Identifies a copy's files as images of a source: by name if names are distinctive, else by content.

Names stay bytes in Arrow arrays and are compared all at once: a copy of the training images has 750,000 of them, a
source 1.3 million. Only files that their names do not identify become Python objects.

Tested by `tests/builders/adopt/test_copies.py`.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.adopt.file_listing import FileListing, Log, reading_copy
from builders.errors import BuildError
from builders.sources.base import IN_PLACE, SourceIndex
from builders.sources.sizes import image_sizes
from builders.storage.files import open_buffered

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Matched:
    """The result of matching: `rows` gives each file's row in the source's index, or -1.

    `twins` counts arbitrary choices: files whose content several images of the source have, of which not all are in
    the set. `alike` counts unmatched files that share name and class with an image of other content.
    """

    rows: Int64
    twins: int
    alike: int


class Matcher:
    """Matches files with the images of one source; create one per source: preparing a million names takes a second."""

    def __init__(self, index: SourceIndex) -> None:
        self.index = index
        self.ids = index.table["source_id"]
        self.names = pc.replace_substring_regex(self.ids, pattern="^.*/", replacement="").cast(pa.binary())
        self.class_codes, self.class_ids = _codes(index.table["class_id"])
        self.partition_codes, self.partitions = _codes(index.table["partition"])

    def match(
        self,
        listing: FileListing,
        folder_classes: Mapping[str, str],
        partitions: Sequence[str],
        log: Log,
        ruled_out: Collection[str] = (),
    ) -> Matched:
        """Match each file with an image of the source.

        A name made of digits is a running number in many sources and copies, so it only decides which images are
        compared first. With a Parquet source, where comparing takes hours, it is trusted.

        Args:
            listing: the files.
            folder_classes: known class ids by the names in `FileListing.classes`; a file is of its folder's class.
            partitions: the partitions that the images may come from.
            log: prints a line for the user.
            ruled_out: class ids that the set cannot have. ImageNet has images with equal bytes in two classes; of
                these, one of another class is taken.

        Raises:
            BuildError: a file is of another class than its folder, or of another partition, or only its content could
                identify it and the source is in Parquet.
        """
        code_of = {class_id: code for code, class_id in enumerate(self.class_ids)}
        by_folder = [code_of.get(folder_classes.get(name, ""), -1) for name in listing.classes]
        file_classes = np.array(by_folder, dtype=np.int64)[listing.folder_of]
        excluded_classes = np.isin(self.class_ids, list(ruled_out))
        search = _ImageSearch(self, listing, file_classes, partitions, excluded_classes, log)
        search.by_name()
        if len(search.unmatched) and search.packed:
            raise BuildError(
                f"{self.index.source.title}: {len(search.unmatched):,} files such as "
                f"{listing.path(int(search.unmatched[0]))} can only be identified by content, which takes hours with "
                f"the Parquet files in {self.index.root}. Give folders or archives with --{self.index.source.key}."
            )
        search.by_content()
        return Matched(search.rows, search.twins, search.alike())

    def in_partitions(self, partitions: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return the mask of the rows of some partitions."""
        in_partition = np.array([name in partitions for name in self.partitions], dtype=bool)
        mask: npt.NDArray[np.bool_] = in_partition[self.partition_codes]
        return mask

    def source_ids(self, rows: Int64) -> list[str]:
        """Return the ids of some rows, sorted, since the order of rows depends on the source's layout."""
        ids = self.ids.take(pa.array(rows)).combine_chunks()
        names: list[str] = ids.take(pc.array_sort_indices(ids)).to_pylist()
        return names

    def id_of(self, row: int) -> str:
        """Return the id of one row."""
        return str(self.ids[row].as_py())


class _ImageSearch:
    """Matches one set's files; `unmatched` holds those not matched yet."""

    def __init__(
        self,
        matcher: Matcher,
        listing: FileListing,
        file_classes: Int64,
        partitions: Sequence[str],
        excluded_classes: npt.NDArray[np.bool_],
        log: Log,
    ) -> None:
        self.matcher, self.listing, self.file_classes, self.log = matcher, listing, file_classes, log
        self.partitions, self.excluded_classes = partitions, excluded_classes
        self.allowed = matcher.in_partitions(partitions)
        pieces = [piece for piece in matcher.index.pieces if piece.partition in partitions]
        self.packed = any(piece.how not in IN_PLACE for piece in pieces)
        self.rows = np.full(len(listing), -1, dtype=np.int64)
        self.unmatched = np.arange(len(listing), dtype=np.int64)
        self.twins = 0
        names = listing.names.dictionary_encode()
        digits = pc.match_substring_regex(names.dictionary, r"^[0-9]+(\.[^.]*)?$").to_numpy(zero_copy_only=False)
        self.file_names = names.indices.to_numpy().astype(np.int64)
        self.file_keys = self._in_class(self.file_names, file_classes)
        self.distinctive = ~digits[self.file_names] | self.packed
        codes = pc.fill_null(pc.index_in(matcher.names, value_set=names.dictionary), -1).to_numpy()
        self.named_rows = np.flatnonzero(codes >= 0)
        self.row_names = codes[self.named_rows].astype(np.int64)
        self.row_keys = self._in_class(self.row_names, matcher.class_codes[self.named_rows])

    def _in_class(self, names: Int64, classes: npt.NDArray[np.integer]) -> Int64:
        """Combine name and class into one number, which no image has for a file without a class."""
        width = len(self.matcher.class_ids) + 1
        return names * width + np.where(classes < 0, width - 1, classes)

    def by_name(self) -> None:
        """Match files by distinctive names, and by class if the file has one."""
        by_name, images = _only(self.file_names, self.row_names)
        by_key, _ = _only(self.file_keys, self.row_keys)
        position = np.where(self.file_classes >= 0, by_key, by_name)
        matched = np.flatnonzero(self.distinctive & (position >= 0))
        self.rows[matched] = self.named_rows[position[matched]]
        misplaced = np.flatnonzero(self.distinctive & (position < 0) & (images == 1))
        if len(misplaced):
            self.refuse_class(int(misplaced[0]), int(self.named_rows[by_name[misplaced[0]]]))
        self.refuse_partition(matched[~self.allowed[self.rows[matched]]])
        self.unmatched = np.flatnonzero(self.rows < 0)

    def by_content(self) -> None:
        """Compare contents: with images of the same name first, then with all, then with other partitions' images."""
        if len(self.unmatched):
            same_name = np.isin(self.row_keys, self.file_keys[self.unmatched])
            unclassed = self.unmatched[self.file_classes[self.unmatched] < 0]
            same_name |= np.isin(self.row_names, self.file_names[unclassed])
            likely = self.named_rows[same_name]
            self.compare(likely[self.allowed[likely]])
        self.compare(np.flatnonzero(self.allowed))
        before = self.unmatched
        elsewhere = [p for p in self.matcher.index.pieces if p.partition not in self.partitions and p.how in IN_PLACE]
        self.compare(np.flatnonzero(self.matcher.in_partitions([piece.partition for piece in elsewhere])))
        self.refuse_partition(before[self.rows[before] >= 0])

    def alike(self) -> int:
        """Count unmatched files that share name and class with an image."""
        same_name = np.isin(self.file_keys[self.unmatched], self.row_keys)
        same_name |= (self.file_classes[self.unmatched] < 0) & np.isin(self.file_names[self.unmatched], self.row_names)
        return int(same_name.sum())

    def compare(self, rows: Int64) -> None:
        """Match unmatched files with images of the same bytes; only images and files of equal size are read."""
        if not len(self.unmatched) or not len(rows):
            return
        self.log(f"comparing {len(self.unmatched):,} files with {len(rows):,} images, by size and then by content")
        sizes, read = image_sizes(self.matcher.index, rows)
        files = {file: _size(self.listing.path(file)) for file in self.unmatched.tolist()}
        common = np.intersect1d(sizes, np.array([size for size in files.values() if size > 0], dtype=np.int64))
        images: dict[bytes, list[int]] = defaultdict(list)
        for position in np.flatnonzero(np.isin(sizes, common)).tolist():
            images[hashlib.sha256(read(position)).digest()].append(int(rows[position]))
        taken = set(self.rows[self.rows >= 0].tolist())
        shared = set(common.tolist())
        choices: dict[bytes, Sequence[int]] = {}
        for file, size in files.items():
            digest = _digest(self.listing.path(file)) if size in shared else b""
            if digest in images:
                self.rows[file] = self.choose(file, images[digest], taken)
                taken.add(int(self.rows[file]))
                choices[digest] = self.possible(images[digest])
        self.twins += sum(not taken.issuperset(rows_of_digest) for rows_of_digest in choices.values())
        self.unmatched = np.flatnonzero(self.rows < 0)

    def choose(self, file: int, equal_rows: Sequence[int], taken: set[int]) -> int:
        """Choose among images of equal bytes: in the file's class, not taken yet, with the least id."""
        class_code, codes = int(self.file_classes[file]), self.matcher.class_codes
        rows = equal_rows if class_code >= 0 else self.possible(equal_rows)
        row = min(rows, key=lambda row: (class_code not in (-1, codes[row]), row in taken, self.matcher.id_of(row)))
        if class_code not in (-1, codes[row]):
            self.refuse_class(file, row)
        return row

    def possible(self, equal_rows: Sequence[int]) -> Sequence[int]:
        """Keep the images whose class the set can have; all of them, if it can have none."""
        return [row for row in equal_rows if not self.excluded_classes[self.matcher.class_codes[row]]] or equal_rows

    def refuse_class(self, file: int, row: int) -> None:
        """Refuse a file that lies in another class's folder than its image in the source."""
        matcher = self.matcher
        raise BuildError(
            f"{matcher.index.source.title}: {self.listing.path(file)} lies in the folder of class "
            f"{matcher.class_ids[int(self.file_classes[file])]}, but is {matcher.id_of(row)} of class "
            f"{matcher.class_ids[int(matcher.class_codes[row])]}. Move it to its own class folder, or remove it from "
            "the copy."
        )

    def refuse_partition(self, files: Int64) -> None:
        """Refuse files that are images of a partition that the split does not draw from."""
        if not len(files):
            return
        matcher, file = self.matcher, int(files[0])
        row = int(self.rows[file])
        more_files = f", and so are {len(files) - 1:,} more files" if len(files) > 1 else ""
        raise BuildError(
            f"{matcher.index.source.title}: {self.listing.path(file)} is {matcher.id_of(row)} of the partition "
            f"{matcher.partitions[int(matcher.partition_codes[row])]}{more_files}, but this set takes images of "
            f"{' or '.join(self.partitions)} only. Remove such files from this set of the copy."
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


def _codes(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int32], tuple[str, ...]]:
    """Split a dictionary column into codes and values; `open_source` gives all chunks one dictionary."""
    chunks = column.unify_dictionaries().chunks
    values = tuple(chunks[0].dictionary.to_pylist()) if chunks else ()
    return np.concatenate([np.zeros(0, np.int32), *(chunk.indices.to_numpy() for chunk in chunks)]), values
