"""Reads a mirror's file names as `<folder>/<file name>`, with folders from label names or from the names' start.

Label numbers alone say nothing: mirrors of one dataset number its classes differently.

Tested by `tests/builders/sources/test_layouts.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError, one_line
from builders.sources.base import OtherDataError
from builders.sources.readers import parquet
from builders.sources.readers.parquet import Shard

# A folder if there is one, and a file name that starts with what its class is called there.
_NAME = r"^(?:(?:.*/)?(?P<folder>[^/]+)/)?(?P<file>(?P<start>[^/]+)_[^/_]+)$"


def file_names(shard: Shard) -> pa.Array:
    """Return the file names of a Parquet file's rows without folders."""
    return pc.replace_substring_regex(shard.names, pattern="^.*/", replacement="")


def by_label(title: str, key: str, folder_of: Callable[[str], str | None]) -> Callable[[Path], pa.Array]:
    """Return a function that reads the names of a file's rows, whose folders are the names of their labels.

    Args:
        title: the source's title.
        key: the source's key.
        folder_of: returns the folder of a label's name, None if it is of no class.
    """
    return lambda path: with_label_folders(title, key, parquet.read_shard(title, path), folder_of)


def with_label_folders(title: str, key: str, shard: Shard, folder_of: Callable[[str], str | None]) -> pa.Array:
    """Return the names of a file's rows, with the folders of their labels' names; arguments as in `by_label`."""
    folders = _folders(title, key, shard, folder_of)
    known = pc.and_(pc.greater_equal(shard.labels, 0), pc.less(shard.labels, len(folders)))
    unnamed = pc.fill_null(pc.invert(known), True)
    parquet.refuse_rows(title, shard.path, unnamed, "the label {label} has no name", shard)
    return pc.binary_join_element_wise(pa.array(folders).take(shard.labels), file_names(shard), "/")


def by_start(shard: Shard, folders: Mapping[str, str]) -> pa.Array:
    """Return the names of a file's rows, with a folder before those that have none.

    Args:
        shard: the file as read.
        folders: the folder by what stands before the last underscore of a file name.
    """
    parts = pc.extract_regex(shard.names, _NAME)
    positions = pc.index_in(pc.struct_field(parts, "start"), pa.array(list(folders)))
    own = pc.struct_field(parts, "folder")
    folder = pc.if_else(pc.equal(own, ""), pa.array(list(folders.values())).take(positions), own)
    return pc.coalesce(pc.binary_join_element_wise(folder, pc.struct_field(parts, "file"), "/"), shard.names)


def _folders(title: str, key: str, shard: Shard, folder_of: Callable[[str], str | None]) -> list[str]:
    """Return the folder of each label number."""
    if shard.label_names is None:
        raise BuildError(
            f"{title}: {shard.path} has label numbers without names, and mirrors number the classes differently. Take "
            "Parquet files with ClassLabel names or the images in folders."
        )
    folder_by_name = {name: folder_of(name) for name in shard.label_names}
    unknown = sorted(name for name, folder in folder_by_name.items() if folder is None)
    if unknown:
        raise OtherDataError(
            f"{title}: the label name {one_line(repr(unknown[0]))} of {shard.path} is none of its classes. Give a "
            f"copy of {title} with --{key}."
        )
    return [folder for name in shard.label_names if (folder := folder_by_name[name]) is not None]
