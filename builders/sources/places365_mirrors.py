"""Indexes Hub mirrors of Places365, in which one set of Parquet files may hold both partitions.

Andron00e/Places365-custom has the columns image, image_file_path and labels and 1.84 million rows in one split, as
many as training and validation images together; the split of dpdl-benchmark/Places365-Validation is named train.

Tested by `tests/builders/sources/test_errors.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import one_line
from builders.sources.base import OtherDataError, PartitionIndex
from builders.sources.places365_names import TITLE, classes, flattened, spelled
from builders.sources.readers import parquet, parquet_files
from builders.sources.readers.folders import relative, with_prefix

SPLITS = ("train", "validation", "val")
"""Names of splits, which together hold both partitions."""

_NAME = r"^(?:(?:.*/)?(?P<folder>[^/]*)/)?(?P<name>(?P<val>Places365_val_)?[0-9]{8}\.jpg)$"
_ADVICE = (
    "Take Andron00e/Places365-custom, which has file names in the column image_file_path "
    "(dpdl-benchmark/Places365-Validation may have none), or the owners' archives, unpacked"
)

# The first lines of places365_val.txt: the labels of Places365_val_00000001.jpg and so on.
_FIRST_LABELS = (165, 358, 93, 164, 289)
_FIRST_NAMES = tuple(f"Places365_val_{number:08d}.jpg" for number in range(1, len(_FIRST_LABELS) + 1))


def index_mirror(partition: str, root: Path, home: Path) -> PartitionIndex | None:
    """Index the images of a partition in the Parquet files of a folder; returns None if there are no files."""
    files = [path for split in SPLITS for path in parquet_files.split_files(home, split)]
    if not files:
        return None
    shards = [parquet.read_shard(TITLE, path, advice=_ADVICE) for path in files]
    name_parts = [_parts(shard) for shard in shards]
    codes = _codes(shards, name_parts)
    tables = (_table(partition, root, *columns) for columns in zip(shards, name_parts, codes, strict=True))
    table = pa.concat_tables(tables)
    place = relative(files[0].parent, root)
    if not table.num_rows:
        raise OtherDataError(
            f"{TITLE}: the Parquet files in {place} of {root} hold no images of the partition {partition}. Give a "
            "mirror that has them with --places365."
        )
    return PartitionIndex(partition, f"Parquet files in {place}", "parquet", table.combine_chunks())


def _parts(shard: parquet.Shard) -> pa.Array:
    """Split file names into folder, name and the prefix that only validation images have."""
    parts = pc.extract_regex(shard.names, _NAME)
    problem = "the file name {name} is not like 00000001.jpg or Places365_val_00000001.jpg"
    parquet.refuse_rows(TITLE, shard.path, pc.is_null(parts), problem, shard, _ADVICE)
    return parts


def _codes(shards: Sequence[parquet.Shard], name_parts: Sequence[pa.Array]) -> list[npt.NDArray[np.int64]]:
    """Return the category of each row, as its index in the owners' order."""
    order = list(classes())
    codes = []
    for shard in shards:
        categories = _categories(shard)
        parquet.refuse_labels_outside(TITLE, shard, len(categories), _ADVICE)
        codes.append(np.array([order.index(name) for name in categories])[shard.labels.to_numpy()])
    evidence = [_agreeing(*columns) for columns in zip(shards, name_parts, codes, strict=True)]
    if not sum(evidence) and any(shard.label_names is None for shard in shards):
        raise OtherDataError(
            f"{TITLE}: the label numbers of {shards[0].path} may be in any order: they have no names, and neither "
            f"folders in file names nor an image of known category confirm them. {_ADVICE}."
        )
    return codes


def _categories(shard: parquet.Shard) -> list[str]:
    """Return the category of each label number; in the owners' order if the schema has no names."""
    if shard.label_names is None:
        return list(classes())
    categories = [spelled().get(flattened(name)) for name in shard.label_names]
    if None in categories:
        unknown = one_line(repr(shard.label_names[categories.index(None)]))
        raise OtherDataError(
            f"{TITLE}: {shard.path} has the label name {unknown}, which is none of its {len(classes())} categories. "
            f"{_ADVICE}."
        )
    return [category for category in categories if category is not None]


def _agreeing(shard: parquet.Shard, parts: pa.Array, codes: npt.NDArray[np.int64]) -> int:
    """Count the rows whose file names give the category, and refuse a file in which a label contradicts the name."""
    order = {category: code for code, category in enumerate(classes())}
    of_folder = {name: order[category] for name, category in spelled().items()}
    folders = pc.replace_substring_regex(parts.field("folder"), pattern="[_/]", replacement="-").dictionary_encode()
    codes_of_folders = np.array([of_folder.get(name, -1) for name in folders.dictionary.to_pylist()], dtype=np.int64)
    expected = codes_of_folders[folders.indices.to_numpy()] if len(codes_of_folders) else np.full(len(codes), -1)
    if shard.label_names is None:
        place_in_first = pc.fill_null(pc.index_in(parts.field("name"), pa.array(_FIRST_NAMES)), -1).to_numpy()
        expected = np.where(place_in_first >= 0, np.array(_FIRST_LABELS)[place_in_first], expected)
    wrong = pa.array((expected >= 0) & (expected != codes))
    problem = "the label {label} of {name} does not fit its file name in the owners' order"
    parquet.refuse_rows(TITLE, shard.path, wrong, problem, shard, _ADVICE)
    return int((expected >= 0).sum())


def _table(
    partition: str, root: Path, shard: parquet.Shard, parts: pa.Array, codes: npt.NDArray[np.int64]
) -> pa.Table:
    """Index one file's rows of a partition."""
    names = with_prefix("/", parts.field("name"))
    categories = pa.array(list(classes())).take(pa.array(codes))
    in_val = pc.not_equal(parts.field("val"), "")
    prefixes = pc.if_else(in_val, "val", pc.binary_join_element_wise(pa.scalar("train"), categories, pa.scalar("")))
    ids = pc.binary_join_element_wise(prefixes, names, pa.scalar(""))
    table = parquet.shard_table(root, shard.path, tuple(classes()), codes, ids)
    return table.filter(in_val if partition == "val" else pc.invert(in_val))
