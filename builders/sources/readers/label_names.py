"""Hub mirrors in which only the name of a row's label says what class its image is of.

The number of a label says nothing by itself: there are mirrors of one dataset that number its classes differently.

Tested by `tests/builders/sources/test_layouts.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.sources.base import OtherDataError, Piece
from builders.sources.readers import parquet, parquet_files


@dataclass(frozen=True)
class Labelled:
    """What differs between the mirrors of two such sources.

    `class_of` gives the class id that a label's name stands for, or None. `prefix` gives what stands before the file
    name in the source ids of a class. `name` is the regular expression (ASCII) of `image.path`, whose group `name` is
    the file name; `example` is such a path, for people. `splits` are what the files' names start with.
    """

    key: str
    title: str
    partition: str
    classes: Callable[[], Mapping[str, str]]
    class_of: Callable[[str], str | None]
    prefix: Callable[[str], str]
    name: str
    example: str
    splits: tuple[str, ...]

    def find(self, root: Path, home: Path) -> Piece | None:
        """Index the Parquet files of all splits together; None where there are none."""
        files = [path for split in self.splits for path in parquet_files.split_files(home, split)]
        return parquet.indexed(self.partition, root, files, self._index)

    def _index(self, root: Path, path: Path) -> pa.Table:
        shard = parquet.read_shard(self.title, path)
        class_ids = tuple(self.classes())
        of_labels = self._classes_of_labels(shard)
        names = pc.extract_regex(shard.names, self.name)
        named = f"image.path like {self.example} (row {{row}} has {{name}})"
        parquet.refuse_rows(self.title, path, pc.is_null(names), named, shard)
        known = pc.and_(pc.greater_equal(shard.labels, 0), pc.less(shard.labels, len(of_labels)))
        labelled = "a label with a name (row {row} has {label})"
        parquet.refuse_rows(self.title, path, pc.fill_null(pc.invert(known), True), labelled, shard)
        places = np.array([class_ids.index(class_id) for class_id in of_labels], dtype=np.int64)
        prefixes = pa.array([self.prefix(class_id) for class_id in of_labels], pa.string()).take(shard.labels)
        ids = pc.binary_join_element_wise(prefixes, pc.struct_field(names, "name"), pa.scalar(""))
        return parquet.shard_table(root, path, class_ids, places[shard.labels.to_numpy()], ids)

    def _classes_of_labels(self, shard: parquet.Shard) -> list[str]:
        """Return the class id that each label number stands for."""
        if shard.label_names is None:
            raise BuildError(
                f"{self.title}: expected the label names in the schema, found label numbers alone in {shard.path}, "
                "and mirrors number the classes differently; take Parquet files with ClassLabel names or the images "
                "in folders."
            )
        found = [self.class_of(name) for name in shard.label_names]
        unknown = sorted(name for name, known in zip(shard.label_names, found, strict=True) if known is None)
        if unknown:
            raise OtherDataError(
                f"{self.title}: expected its {len(self.classes()):,} class names, found {unknown[0]!r} among the "
                f"label names of {shard.path}; give a copy of {self.title} with --{self.key}."
            )
        return [class_id for class_id in found if class_id is not None]
