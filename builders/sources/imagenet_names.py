"""What ImageNet's file names say: of which image they are, of which class, and of which edition they are not.

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
FLAG = "give an ILSVRC2012 copy with --imagenet"
WNID = re.compile(r"n\d{8}", re.ASCII)
CLASS_TAR = re.compile(r"n\d{8}\.tar", re.ASCII)
WANTED = {"train": "<wnid>_<number>.JPEG", "val": "ILSVRC2012_val_<8 digits>.JPEG"}
PLACES = {"train": ("train", "ILSVRC2012_img_train"), "val": ("val", "validation", "ILSVRC2012_img_val")}

# The Hub's old archives and the converters that read them add the wnid to each name, as do the Hub's Parquet files.
# It may stand before the ending everywhere, and is no part of an image's id.
_SUFFIX = r"(?:_(?P<suffix>n[0-9]{8}))?"
PATTERNS = {
    "train": rf"(?P<stem>(?P<wnid>n[0-9]{{8}})_[0-9]+){_SUFFIX}\.JPEG$",
    "val": rf"(?P<stem>ILSVRC2012_val_[0-9]{{8}}){_SUFFIX}\.JPEG$",
}
NAMES = {partition: re.compile(pattern[:-1], re.ASCII) for partition, pattern in PATTERNS.items()}

# The edition with blurred faces and resized copies are in .jpg: Yang et al., A Study of Face Obfuscation in ImageNet.
_OTHER_ENDING = re.compile(r"(n\d{8}_\d+|ILSVRC2012_val_\d{8})(_n\d{8})?\.(jpg|jpeg|png|webp)", re.ASCII)


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the name of each wnid, in label order."""
    return {row.wnid: row.name for row in tables.imagenet1k()}


def class_folder(partition: str, wnid: str, path: Path) -> ClassFolder:
    """Describe the class folder of a partition, or what stands for it in an archive."""
    own = f"{wnid}_[0-9]+" if partition == "train" else "ILSVRC2012_val_[0-9]{8}"
    prefix = f"train/{wnid}/" if partition == "train" else "val/"
    return ClassFolder(wnid, path, prefix, f"^{own}(_{wnid})?\\.JPEG$", (f"_{wnid}.JPEG", ".JPEG"))


def refuse_unknown(wnids: list[str], place: Path) -> None:
    """Refuse classes that ILSVRC2012 does not have."""
    unknown = [wnid for wnid in wnids if wnid not in classes()]
    if unknown:
        raise OtherDataError(
            f"{TITLE}: expected its 1,000 classes, found {len(unknown):,} of another ImageNet edition in {place}, "
            f"first {unknown[0]}; {FLAG}."
        )


def explain(partition: str, folder: ClassFolder, name: str) -> str:
    """Say why a name is no image of a class; see `folders.Explain`."""
    refuse_other_edition(name, folder.path)
    found = NAMES[partition].fullmatch(name)
    if found:
        other = found["suffix"] if partition == "val" or found["wnid"] == folder.class_id else found["wnid"]
        raise BuildError(
            f"{TITLE}: expected only images of {folder.class_id}, found {name} of class {other} in {folder.path}; "
            "move it to its own class folder."
        )
    return plain_reason(folder.path, name, WANTED[partition])


def refuse_other_edition(name: str, place: Path) -> None:
    """Refuse a file name as the edition of 2010, the one with blurred faces and resized copies have it."""
    if name.startswith("ILSVRC2010_"):
        raise BuildError(
            f"{TITLE}: expected images of the 2012 edition, found {name} of the 2010 edition in {place}; {FLAG}."
        )
    if _OTHER_ENDING.fullmatch(name):
        raise OtherDataError(
            f"{TITLE}: {place} holds {name}, while the files of ILSVRC2012 end in .JPEG. Those of "
            f"the edition with blurred faces (101 training and 3 validation images fewer) and of resized copies do "
            f"not; {FLAG}."
        )


def classes_and_ids(
    partition: str, names: pa.Array, home: Path, place: Path
) -> tuple[pa.DictionaryArray, pa.Array, str]:
    """Tell class and id of images by their names, and for validation images without a suffix by the ground truth.

    Args:
        partition: of the images.
        names: file names that fit the partition's pattern.
        home: where the ground truth is looked for.
        place: where the names are from, for people.

    Returns:
        The `class_id` column, the ids, and what told the classes, in words.
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
            f"{TITLE}: {names[row]} in {place} names two classes; "
            "rename it after the class that it is of, or take another copy."
        )


def _ground_truth(names: pa.Array, home: Path, place: Path) -> tuple[pa.Array, str]:
    """Return the wnids of validation images and where they are from: the image with number k is line k there."""
    truth = ilsvrc_devkit.ground_truth(home)
    if truth is None:
        raise BuildError(
            f"{TITLE}: expected the classes of the flat validation images in {place}, found neither "
            f"{' nor '.join(ilsvrc_devkit.ACCEPTED)} in {home} or the three folders above it; put one of them there."
        )
    numbers = pc.cast(pc.utf8_slice_codeunits(names, len("ILSVRC2012_val_"), len("ILSVRC2012_val_") + 8), pa.int64())
    lines = pc.index_in(numbers, truth.numbers)
    unlabelled = pc.is_null(lines)
    if pc.any(unlabelled).as_py():
        raise BuildError(
            f"{TITLE}: expected a line of ground truth for each validation image, found {len(truth.numbers):,} lines "
            f"in {truth.place} and none for {names.filter(unlabelled)[0]}; take the ground truth of the 2012 edition."
        )
    return truth.wnids.take(lines), truth.kind
