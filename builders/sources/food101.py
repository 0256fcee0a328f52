"""Food-101: 101 dishes with 1,000 images each."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.sources import parquet
from builders.sources.base import Expected, Licence, Piece, Source, piece_table
from builders.sources.folders import (
    ClassFolder,
    child_names,
    class_column,
    plain_reason,
    relative,
    scan_class_folders,
    stray_children,
)
from builders.sources.search import Layout, Search
from taxonomy import tables

_TITLE = "Food-101"
_PARTITION = "images"
_NAME = r"^[0-9]+\.jpg$"
_LISTS = ("train.txt", "test.txt")


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the name of each class, in alphabetical (byte) order."""
    return {name: name.replace("_", " ") for name in tables.food101()}


@functools.cache
def expected() -> Mapping[str, Expected]:
    """Return the size of the only partition, all images: 750 for training and 250 for testing of each class."""
    return {_PARTITION: Expected(1000 * len(classes()), dict.fromkeys(classes(), 1000))}


def _folders(root: Path, home: Path) -> Piece | None:
    return _images(root, home / "images")


def _images(root: Path, folder: Path) -> Piece | None:
    if not folder.is_dir():
        return None
    names = [name for name in child_names(folder) if name in classes()]
    if not names:
        return None
    table, strays = scan_class_folders(
        root,
        [ClassFolder(name, folder / name, f"{name}/", _NAME) for name in names],
        tuple(classes()),
        lambda place, name: plain_reason(place.path, name, "<number>.jpg"),
    )
    strays += stray_children(folder, root, names, "a class folder")
    missing = _missing(folder.parent / "meta", table["source_id"])
    return Piece(_PARTITION, f"class folders in {relative(folder, root)}", "file", table, tuple(strays), missing)


def _missing(meta: Path, ids: pa.ChunkedArray) -> pa.Array:
    """Return the ids in the owner's lists, where they are, that the folders lack."""
    listed = [
        f"{line}.jpg"
        for name in _LISTS
        if (meta / name).is_file()
        for line in (meta / name).read_text(encoding="utf-8").split()
    ]
    wanted = pa.array(listed, pa.string())
    return wanted.filter(pc.invert(pc.is_in(wanted, ids.combine_chunks())))


def _parquet(root: Path, home: Path) -> Piece | None:
    files = [*parquet.shards(home, "train-*.parquet"), *parquet.shards(home, "validation-*.parquet")]
    if not files:
        return None
    table = pa.concat_tables([_parquet_shard(root, path) for path in files]).combine_chunks()
    return Piece(_PARTITION, f"Parquet files in {relative(files[0].parent, root)}", "parquet", table)


def _parquet_shard(root: Path, path: Path) -> pa.Table:
    """Index one Parquet file; only its own label names say what a label number means.

    There are mirrors with cheese_plate and cheesecake the one way round and the other.
    """
    shard = parquet.read_shard(_TITLE, path)
    if shard.label_names is None:
        raise BuildError(
            f"{_TITLE}: expected the label names in the schema, found label numbers alone in {path}, and mirrors "
            "number the classes differently; take Parquet files with ClassLabel names or the images in folders."
        )
    unknown = sorted(set(shard.label_names).difference(classes()))
    if unknown:
        raise BuildError(
            f"{_TITLE}: expected its 101 class names, found {unknown[0]!r} among the label names of {path}; "
            "give a copy of Food-101 with --food101."
        )
    parquet.refuse_rows(
        _TITLE,
        path,
        pc.invert(pc.match_substring_regex(shard.names, _NAME)),
        "image.path like 1005649.jpg (row {row} has {name})",
        shard,
    )
    known = pc.and_(pc.greater_equal(shard.labels, 0), pc.less(shard.labels, len(shard.label_names)))
    parquet.refuse_rows(
        _TITLE, path, pc.fill_null(pc.invert(known), True), "a label with a name (row {row} has {label})", shard
    )
    names = pa.array(shard.label_names).take(shard.labels)
    codes = pc.index_in(names, pa.array(list(classes())))
    return piece_table(
        class_column(tuple(classes()), codes.to_numpy()),
        pc.binary_join_element_wise(names, shard.names, pa.scalar("/")),
        pa.repeat(relative(path, root), len(names)),
        pa.array(np.arange(len(names), dtype=np.int64)),
    )


_SEARCH = Search(
    key="food101",
    title=_TITLE,
    homes=(".", "food-101"),
    layouts=(
        Layout(_PARTITION, "images/<class>/<number>.jpg", _folders),
        Layout(_PARTITION, "the class folders themselves", _images),
        Layout(_PARTITION, "the Hub's data/train-*.parquet and data/validation-*.parquet", _parquet),
    ),
    expected=expected,
)

FOOD101 = Source(
    key=_SEARCH.key,
    title=_TITLE,
    edition="Food-101 (2014)",
    licence=Licence(
        name="none; scientific fair use",
        url="https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/",
        statement=(
            "The images are from Foodspotting and are not property of ETH Zurich. Any use beyond scientific fair use "
            "must be negotiated with the owners of the pictures according to the Foodspotting terms of use."
        ),
        publish="ids-only",
    ),
    citation="""@inproceedings{bossard2014food101,
  title = {{Food-101} -- Mining Discriminative Components with Random Forests},
  author = {Bossard, Lukas and Guillaumin, Matthieu and Van Gool, Luc},
  booktitle = {European Conference on Computer Vision},
  year = {2014}
}""",
    layouts=_SEARCH.descriptions,
    classes=classes,
    expected=expected,
    scan=_SEARCH.scan,
)
