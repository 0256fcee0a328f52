"""Reads image and class from ImageNet's file names.

Tested by `tests/builders/sources/test_errors.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.sources import ilsvrc_devkit
from builders.sources.readers.class_folders import ClassFolders
from builders.sources.readers.patterns import MatchedFiles, Pattern
from taxonomy import tables

TITLE = "ImageNet-1k (ILSVRC2012)"
NAME_FORMS = {"train": "<wnid>_<number>.JPEG", "val": "ILSVRC2012_val_<8 digits>.JPEG"}

# The Hub's old archives, the converters that read them and the Hub's Parquet files add the wnid to each name. It is
# accepted before the ending everywhere, and is not part of an image's id.
_SUFFIX = r"(?:_(?P<{}>n[0-9]{{8}}))?\.JPEG"
_TRAIN, _VAL = r"(?P<file>(?P<class_id>n[0-9]{8})_[0-9]+)", r"(?P<file>ILSVRC2012_val_[0-9]{8})"
_IN_FOLDERS = {
    "train": "(?P<class_id_again2>n[0-9]{8})/" + _TRAIN + _SUFFIX.format("class_id_again"),
    "val": "(?P<class_id>n[0-9]{8})/" + _VAL + _SUFFIX.format("class_id_again"),
}
_BARE = {
    "train": "(?:.*/)?" + _TRAIN + _SUFFIX.format("class_id_again"),
    "val": "(?:.*/)?" + _VAL + _SUFFIX.format("class_id"),
}
_ADVICE = "Take the files that the Hub serves for that partition of ILSVRC/imagenet-1k, or the original archives"


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the class names by wnid, in label order."""
    return {row.wnid: row.name for row in tables.imagenet1k()}


@functools.cache
def class_indices() -> Mapping[str, int]:
    """Return the index of every class by its wnid, as models number their outputs."""
    return {row.wnid: row.index for row in tables.imagenet1k()}


@functools.cache
def images(partition: str, *, bare: bool = False) -> ClassFolders:
    """Return the reader of a partition's images, in class folders or, if `bare`, by their names alone."""
    pattern = (_BARE if bare else _IN_FOLDERS)[partition]
    return ClassFolders(
        Pattern("imagenet", TITLE, pattern, NAME_FORMS[partition], _ADVICE),
        partition,
        classes,
        name_form=lambda wnid: NAME_FORMS[partition].replace("<wnid>", wnid),
        prefix=(lambda wnid: f"train/{wnid}/") if partition == "train" else (lambda _: "val/"),
        ending=".JPEG",
    )


def with_classes(files: MatchedFiles, home: Path) -> tuple[MatchedFiles, str]:
    """Fill in the classes of validation images whose names have none, from the ground truth in or above a folder.

    Returns:
        The images with a class each, and the origin of the classes in words.

    Raises:
        BuildError: there is no ground truth, or none of an image.
    """
    wnids = files.groups["class_id"]
    bare = pc.equal(wnids, "")
    if not pc.any(bare).as_py():
        return files, "the class in each name"
    names = files.groups["file"].filter(bare)
    truth = ilsvrc_devkit.ground_truth(home)
    if truth is None:
        raise BuildError(
            f"{TITLE}: the classes of the flat validation images in {files.tree.place} are unknown: neither "
            f"{' nor '.join(ilsvrc_devkit.ACCEPTED)} is in {home} or the three folders above it. Put one of them "
            "there."
        )
    numbers = pc.cast(pc.utf8_slice_codeunits(names, len("ILSVRC2012_val_")), pa.int64())
    lines = pc.index_in(numbers, truth.numbers)
    if lines.null_count:
        raise BuildError(
            f"{TITLE}: {truth.place} has {len(truth.numbers):,} lines and none for "
            f"{names.filter(pc.is_null(lines))[0]}.JPEG. Take the ground truth of the 2012 edition."
        )
    wnids = pc.replace_with_mask(wnids, bare, truth.wnids.take(lines))
    return dataclasses.replace(files, groups={**files.groups, "class_id": wnids}), truth.kind
