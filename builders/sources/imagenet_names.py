"""Reads image, class and edition from ImageNet's file names.

Tested by `tests/builders/sources/test_errors.py`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.sources import ilsvrc_devkit
from builders.sources.base import OtherDataError
from builders.sources.readers.folders import ClassFolder, class_column, joined, plain_reason
from taxonomy import tables

TITLE = "ImageNet-1k (ILSVRC2012)"
FLAG = "Give an ILSVRC2012 copy with --imagenet"
BLURRED = "the edition with blurred faces (101 training and 3 validation images fewer than the original)"
WNID = re.compile(r"n\d{8}", re.ASCII)
CLASS_TAR = re.compile(r"n\d{8}\.tar", re.ASCII)
WANTED = {"train": "<wnid>_<number>.JPEG", "val": "ILSVRC2012_val_<8 digits>.JPEG"}
PLACES = {"train": ("train", "ILSVRC2012_img_train"), "val": ("val", "validation", "ILSVRC2012_img_val")}

# The Hub's old archives, the converters that read them and the Hub's Parquet files add the wnid to each name. It is
# accepted before the ending everywhere, and is not part of an image's id.
_SUFFIX = r"(?:_(?P<suffix>n[0-9]{8}))?"
PATTERNS = {
    "train": rf"(?P<stem>(?P<wnid>n[0-9]{{8}})_[0-9]+){_SUFFIX}\.JPEG$",
    "val": rf"(?P<stem>ILSVRC2012_val_[0-9]{{8}}){_SUFFIX}\.JPEG$",
}
NAMES = {partition: re.compile(pattern[:-1], re.ASCII) for partition, pattern in PATTERNS.items()}

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


def class_folder(partition: str, wnid: str, path: Path) -> ClassFolder:
    """Return the class folder of a partition, or its counterpart in an archive."""
    own = f"{wnid}_[0-9]+" if partition == "train" else "ILSVRC2012_val_[0-9]{8}"
    prefix = f"train/{wnid}/" if partition == "train" else "val/"
    return ClassFolder(wnid, path, prefix, f"^{own}(_{wnid})?\\.JPEG$", (f"_{wnid}.JPEG", ".JPEG"))


def refuse_unknown(wnids: list[str], place: Path) -> None:
    """Refuse classes that ILSVRC2012 does not have."""
    unknown = [wnid for wnid in wnids if wnid not in classes()]
    if unknown:
        raise OtherDataError(
            f"{TITLE}: {place} has {len(unknown):,} classes of another ImageNet edition, first {unknown[0]}. {FLAG}."
        )


def explain(partition: str, folder: ClassFolder, name: str) -> str:
    """Return why a file is not an image of a class; see `folders.Explain`."""
    refuse_other_edition(name, folder.path)
    found = NAMES[partition].fullmatch(name)
    if found:
        other = found["suffix"] if partition == "val" or found["wnid"] == folder.class_id else found["wnid"]
        raise BuildError(
            f"{TITLE}: {name} of class {other} is in {folder.path}, the folder of {folder.class_id}. Move it to its "
            "own class folder."
        )
    return plain_reason(folder.path, name, WANTED[partition])


def refuse_other_edition(name: str, place: Path) -> None:
    """Refuse file names of the 2010 edition, of the edition with blurred faces and of resized copies."""
    if name.startswith("ILSVRC2010_"):
        raise BuildError(f"{TITLE}: {name} in {place} is of the 2010 edition. {FLAG}.")
    if _OTHER_ENDING.fullmatch(name):
        raise OtherDataError(
            f"{TITLE}: {place} holds {name}, but the files of ILSVRC2012 end in .JPEG. Other endings are those of "
            f"{BLURRED} and of resized copies. {FLAG}."
        )


def classes_and_ids(
    partition: str, names: pa.Array, home: Path, place: Path
) -> tuple[pa.DictionaryArray, pa.Array, str]:
    """Return class and id of images by their names; validation images without a suffix need the ground truth.

    Args:
        partition: the partition of the images.
        names: file names that match the partition's pattern.
        home: the folder to search for the ground truth.
        place: where the names are from, for messages.

    Returns:
        The `class_id` column, the ids, and the origin of the classes in words.
    """
    parts = pc.extract_regex(names, PATTERNS[partition])
    suffixed = pc.not_equal(parts.field("suffix"), "")
    stems = pc.binary_join_element_wise(parts.field("stem"), pa.scalar(".JPEG"), pa.scalar(""))
    wnids, truth = parts.field("suffix"), "the class in each name"
    if partition == "train":
        wnids = parts.field("wnid")
        wrong = pc.and_(suffixed, pc.not_equal(wnids, parts.field("suffix")))
        _refuse_suffix(names, wrong, place)
        ids = joined("train/", pc.binary_join_element_wise(wnids, stems, pa.scalar("/")))
    else:
        ids = joined("val/", stems)
        if not pc.all(suffixed).as_py():
            listed, truth = _ground_truth(names.filter(pc.invert(suffixed)), home, place)
            wnids = pc.replace_with_mask(wnids, pc.invert(suffixed), listed)
    codes = pc.index_in(wnids, pa.array(list(classes())))
    if codes.null_count:
        refuse_unknown(wnids.filter(pc.is_null(codes)).unique().to_pylist(), place)
    return class_column(tuple(classes()), codes.to_numpy()), ids, truth


def _refuse_suffix(names: pa.Array, wrong: pa.Array, place: Path) -> None:
    row = pc.index(wrong, True).as_py()
    if row >= 0:
        raise BuildError(
            f"{TITLE}: {names[row]} in {place} names two classes. Rename it after its own class, or take another copy."
        )


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
            f"{TITLE}: {truth.place} has {len(truth.numbers):,} lines and none for {names.filter(unlabelled)[0]}. "
            "Take the ground truth of the 2012 edition."
        )
    return truth.wnids.take(lines), truth.kind
