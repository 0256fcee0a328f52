"""Reads image, class and edition from ImageNet's file names.

Tested by `tests/builders/sources/test_errors.py`.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.sources import ilsvrc_devkit
from builders.sources.base import OtherDataError
from builders.sources.readers.class_folders import ClassFolders
from builders.sources.readers.patterns import MatchedFiles, Pattern
from taxonomy import tables

TITLE = "ImageNet-1k (ILSVRC2012)"
FLAG = "Give an ILSVRC2012 copy with --imagenet"
BLURRED = "the edition with blurred faces (101 training and 3 validation images fewer than the original)"
WNID = re.compile(r"n\d{8}", re.ASCII)
CLASS_TAR = re.compile(r"n\d{8}\.tar", re.ASCII)
NAME_FORMS = {"train": "<wnid>_<number>.JPEG", "val": "ILSVRC2012_val_<8 digits>.JPEG"}
PLACES = {"train": ("train", "ILSVRC2012_img_train"), "val": ("val", "validation", "ILSVRC2012_img_val")}

# The Hub's old archives, the converters that read them and the Hub's Parquet files add the wnid to each name. It is
# accepted before the ending everywhere, and is not part of an image's id. Folders of classes may be tars.
_FOLDER, _SUFFIX = r"(?P<{}>n[0-9]{{8}})(?:\.tar)?/", r"(?:_(?P<{}>n[0-9]{{8}}))?\.JPEG"
_TRAIN, _VAL = r"(?P<file>(?P<class_id>n[0-9]{8})_[0-9]+)", r"(?P<file>ILSVRC2012_val_[0-9]{8})"
_IN_FOLDERS = {
    "train": _FOLDER.format("class_id_again2") + _TRAIN + _SUFFIX.format("class_id_again"),
    "val": _FOLDER.format("class_id") + _VAL + _SUFFIX.format("class_id_again"),
}
_BARE = {
    "train": "(?:.*/)?" + _TRAIN + _SUFFIX.format("class_id_again"),
    "val": "(?:.*/)?" + _VAL + _SUFFIX.format("class_id"),
}
_NAMES = {
    "train": re.compile(r"(?P<class_id>n\d{8})_\d+(?:_(?P<suffix>n\d{8}))?\.JPEG", re.ASCII),
    "val": re.compile(r"(?P<class_id>)ILSVRC2012_val_\d{8}(?:_(?P<suffix>n\d{8}))?\.JPEG", re.ASCII),
}
_ADVICE = "Take the files that the Hub serves for that partition of ILSVRC/imagenet-1k, or the original archives"

# The edition with blurred faces (Yang et al., A Study of Face Obfuscation in ImageNet) and resized copies use .jpg.
_OTHER_ENDING = re.compile(r"(n\d{8}_\d+|ILSVRC2012_val_\d{8})(_n\d{8})?\.(jpg|jpeg|png|webp)", re.ASCII)


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
    return ClassFolders(
        Pattern(
            "imagenet",
            TITLE,
            (_BARE if bare else _IN_FOLDERS)[partition],
            NAME_FORMS[partition],
            _ADVICE,
            functools.partial(_refuse, partition),
        ),
        partition,
        classes,
        name_form=lambda _: NAME_FORMS[partition],
        class_of=lambda folder: wnid if (wnid := folder.removesuffix(".tar")) in classes() else None,
        prefix=(lambda wnid: f"train/{wnid}/") if partition == "train" else (lambda _: "val/"),
        ending=".JPEG",
    )


def refuse_unknown_wnids(wnids: Sequence[str], place: Path) -> None:
    """Refuse classes that ILSVRC2012 does not have."""
    unknown = [wnid for wnid in wnids if wnid not in classes()]
    if unknown:
        raise OtherDataError(
            f"{TITLE}: {place} has {len(unknown):,} classes of another ImageNet edition, first {unknown[0]}. {FLAG}."
        )


def is_image_name(partition: str, name: str) -> bool:
    """Whether a file name without folders is that of an image of a partition."""
    return _NAMES[partition].fullmatch(name) is not None


def _refuse(partition: str, path: str, place: str) -> None:
    """Refuse other editions, and images whose name and folder are of different classes."""
    name = path.rpartition("/")[2]
    _refuse_other_edition(name, place)
    match = _NAMES[partition].fullmatch(name)
    if match is None:
        return
    folder = path.rpartition("/")[0].rpartition("/")[2].removesuffix(".tar")
    other_class = next((wnid for wnid in match.groups() if wnid and wnid != folder), None)
    if not WNID.fullmatch(folder) or other_class is None:
        raise BuildError(
            f"{TITLE}: {name} in {place} names two classes. Rename it after its own class, or take another copy."
        )
    raise BuildError(
        f"{TITLE}: {name} of class {other_class} is in {place}, the folder of {folder}. Move it to its own class "
        "folder."
    )


def _refuse_other_edition(name: str, place: str) -> None:
    """Refuse file names of the 2010 edition, of the edition with blurred faces and of resized copies."""
    if name.startswith("ILSVRC2010_"):
        raise BuildError(f"{TITLE}: {name} in {place} is of the 2010 edition. {FLAG}.")
    if _OTHER_ENDING.fullmatch(name):
        raise OtherDataError(
            f"{TITLE}: {place} holds {name}, but the files of ILSVRC2012 end in .JPEG. Other endings are those of "
            f"{BLURRED} and of resized copies. {FLAG}."
        )


def with_classes(files: MatchedFiles, home: Path) -> tuple[MatchedFiles, str]:
    """Fill in the classes of validation images whose name and folder have none.

    Args:
        files: the images.
        home: the folder to search for the ground truth.

    Returns:
        The images with a class each, and the origin of the classes in words.

    Raises:
        BuildError: there is no ground truth, or none of an image.
        OtherDataError: a class is not one of ILSVRC2012's.
    """
    place, wnids, truth = files.tree.place, files.groups["class_id"], "the class in each name"
    bare = pc.equal(wnids, "")
    if pc.any(bare).as_py():
        listed, truth = _ground_truth(files.groups["file"].filter(bare), home, place)
        wnids = pc.replace_with_mask(wnids, bare, listed)
    refuse_unknown_wnids(wnids.unique().to_pylist(), place)
    return dataclasses.replace(files, groups={**files.groups, "class_id": wnids}), truth


def _ground_truth(names: pa.Array, home: Path, place: Path) -> tuple[pa.Array, str]:
    """Return the wnids of validation images (number k is line k of the ground truth) and their origin in words."""
    truth = ilsvrc_devkit.ground_truth(home)
    if truth is None:
        raise BuildError(
            f"{TITLE}: the classes of the flat validation images in {place} are unknown: neither "
            f"{' nor '.join(ilsvrc_devkit.ACCEPTED)} is in {home} or the three folders above it. Put one of them "
            "there."
        )
    numbers = pc.cast(pc.utf8_slice_codeunits(names, len("ILSVRC2012_val_"), len("ILSVRC2012_val_") + 8), pa.int64())
    lines = pc.index_in(numbers, truth.numbers)
    unlabelled = pc.is_null(lines)
    if pc.any(unlabelled).as_py():
        raise BuildError(
            f"{TITLE}: {truth.place} has {len(truth.numbers):,} lines and none for "
            f"{names.filter(unlabelled)[0]}.JPEG. Take the ground truth of the 2012 edition."
        )
    return truth.wnids.take(lines), truth.kind
