"""Indexes Hub mirrors in which only a label's name identifies the class.

Label numbers alone say nothing: mirrors of one dataset number its classes differently.

Tested by `tests/builders/sources/test_layouts.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError, one_line
from builders.sources.base import OtherDataError, PartitionIndex
from builders.sources.readers import parquet, parquet_files


@dataclass(frozen=True)
class LabelNameMirror:
    """The reader for such mirrors, with what differs between sources.

    `class_of` returns the class id of a label's name, or None. `prefix` returns the part before the file name in the
    source ids of a class. `name` is the regular expression (ASCII) of `image.path`, whose group `name` is the file
    name; `example` is such a path, for messages. `splits` are the prefixes of the files' names.
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

    def find(self, root: Path, home: Path) -> PartitionIndex | None:
        """Index the Parquet files of all splits together; returns None if there are none."""
        files = [path for split in self.splits for path in parquet_files.split_files(home, split)]
        return parquet.indexed(self.partition, root, files, self._index)

    def _index(self, root: Path, path: Path) -> pa.Table:
        shard = parquet.read_shard(self.title, path)
        class_ids = tuple(self.classes())
        of_labels = self._classes_of_labels(shard)
        names = pc.extract_regex(shard.names, self.name)
        named = f"image.path is {{name}}, not like {self.example}"
        parquet.refuse_rows(self.title, path, pc.is_null(names), named, shard)
        known = pc.and_(pc.greater_equal(shard.labels, 0), pc.less(shard.labels, len(of_labels)))
        labelled = "the label {label} has no name"
        parquet.refuse_rows(self.title, path, pc.fill_null(pc.invert(known), True), labelled, shard)
        places = np.array([class_ids.index(class_id) for class_id in of_labels], dtype=np.int64)
        prefixes = pa.array([self.prefix(class_id) for class_id in of_labels], pa.string()).take(shard.labels)
        ids = pc.binary_join_element_wise(prefixes, pc.struct_field(names, "name"), pa.scalar(""))
        return parquet.shard_table(root, path, class_ids, places[shard.labels.to_numpy()], ids)

    def _classes_of_labels(self, shard: parquet.Shard) -> list[str]:
        """Return the class id of each label number."""
        if shard.label_names is None:
            raise BuildError(
                f"{self.title}: {shard.path} has label numbers without names, and mirrors number the classes "
                "differently. Take Parquet files with ClassLabel names or the images in folders."
            )
        found = [self.class_of(name) for name in shard.label_names]
        unknown = sorted(name for name, known in zip(shard.label_names, found, strict=True) if known is None)
        if unknown:
            raise OtherDataError(
                f"{self.title}: the label name {one_line(repr(unknown[0]))} of {shard.path} is none of its "
                f"{len(self.classes()):,} classes. Give a copy of {self.title} with --{self.key}."
            )
        return [class_id for class_id in found if class_id is not None]
