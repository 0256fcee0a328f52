"""Reads the classes of ILSVRC2012's flat validation images from the development kit or from Kaggle's table.

Tested by `tests/builders/sources/test_layouts.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pyarrow as pa

from builders.errors import BuildError, one_line
from builders.sources.readers import tars
from builders.storage.files import read_regular
from builders.storage.text_files import read_csv
from taxonomy import tables

_KIT = "ILSVRC2012_devkit_t12"
_LABELS = "data/ILSVRC2012_validation_ground_truth.txt"
_KAGGLE = "LOC_val_solution.csv"

_IMAGE_ID = re.compile(r"ILSVRC2012_val_(\d{8})", re.ASCII)
_WNID = re.compile(r"n\d{8}", re.ASCII)

ACCEPTED = (f"{_KIT}/", f"{_KIT}.tar.gz", _KAGGLE)
"""The files and folders that `ground_truth` looks for, in this order."""

# Kaggle's table lies three folders above its `ILSVRC/Data/CLS-LOC`.
_LEVELS_UP = 3


@dataclass(frozen=True)
class GroundTruth:
    """The wnids of validation images by their numbers, the file they were read from, and its kind in words."""

    numbers: pa.Array
    wnids: pa.Array
    place: Path
    kind: str


def ground_truth(home: Path) -> GroundTruth | None:
    """Look for the classes of the validation images in a folder and the three above it; None if there are none.

    Raises:
        BuildError: a file is malformed.
    """
    absolute = home.absolute()
    for folder in (absolute, *absolute.parents[:_LEVELS_UP]):
        kit, packed = folder / _KIT, folder / f"{_KIT}.tar.gz"
        if (kit / _LABELS).is_file():
            return _of_kit(read_regular(kit / _LABELS), kit / _LABELS)
        if packed.is_file():
            inside = PurePosixPath(_KIT, _LABELS)
            files = tars.read_files(packed, [inside])
            if not files:
                raise BuildError(f"{packed} lacks {inside} as a regular file. Download it again.")
            return _of_kit(files[inside], packed)
        if (folder / _KAGGLE).is_file():
            return _of_kaggle(folder / _KAGGLE)
    return None


def _of_kit(labels: bytes, place: Path) -> GroundTruth:
    wnid_of = {str(row.kit_number): row.wnid for row in tables.imagenet1k()}
    lines = labels.decode("utf-8-sig", "replace").split()
    wrong = [line for line in lines if line not in wnid_of]
    if wrong:
        raise BuildError(
            f"{one_line(wrong[0])} in {place} is not a class number of ILSVRC2012. Take the ground truth of the 2012 "
            "edition."
        )
    numbers = pa.array(range(1, len(lines) + 1), pa.int64())
    return GroundTruth(numbers, pa.array([wnid_of[line] for line in lines], pa.string()), place, "the development kit")


def _of_kaggle(path: Path) -> GroundTruth:
    advice = "Take the table that Kaggle serves with the competition."
    wnids: dict[int, str] = {}
    for line, row in read_csv(path, ("ImageId", "PredictionString"), advice):
        image, boxes = _IMAGE_ID.fullmatch(row["ImageId"]), row["PredictionString"].split(maxsplit=1)
        if image is None or not boxes or _WNID.fullmatch(boxes[0]) is None:
            raise BuildError(
                f"Line {line} of {path} does not give an image such as ILSVRC2012_val_00000001 and its class such as "
                f"n01440764. {advice}"
            )
        if wnids.setdefault(int(image[1]), boxes[0]) != boxes[0]:
            raise BuildError(f"Line {line} of {path} gives {image[0]} a second class. {advice}")
    return GroundTruth(pa.array(wnids.keys(), pa.int64()), pa.array(wnids.values(), pa.string()), path, _KAGGLE)
