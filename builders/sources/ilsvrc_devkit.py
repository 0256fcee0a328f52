"""Reads the classes of ILSVRC2012's flat validation images from the development kit or from Kaggle's table.

Tested by `tests/builders/sources/test_layouts.py`.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import pyarrow as pa

from builders.errors import BuildError
from builders.sources.formats import matlab
from builders.sources.readers import tars
from builders.storage.files import read_regular
from builders.storage.text_files import read_csv

_KIT = "ILSVRC2012_devkit_t12"
_PACKED = PurePosixPath(_KIT)
_LABELS = "data/ILSVRC2012_validation_ground_truth.txt"
_SYNSETS = "data/meta.mat"
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
        for read in (_from_kit, _from_kit_archive, _from_kaggle):
            truth = read(folder)
            if truth is not None:
                return truth
    return None


def _from_kit(folder: Path) -> GroundTruth | None:
    kit = folder / _KIT
    if not (kit / _LABELS).is_file():
        return None
    if not (kit / _SYNSETS).is_file():
        raise BuildError(f"{kit} lacks {_SYNSETS}. Unpack {_KIT}.tar.gz again.")
    return _from_texts(read_regular(kit / _LABELS), read_regular(kit / _SYNSETS), kit / _LABELS)


def _from_kit_archive(folder: Path) -> GroundTruth | None:
    path = folder / f"{_KIT}.tar.gz"
    if not path.is_file():
        return None
    contents = tars.read_files(path, {_PACKED / _LABELS, _PACKED / _SYNSETS})
    if len(contents) != 2:
        raise BuildError(f"{path} lacks {_LABELS} or {_SYNSETS} as regular files. Download it again.")
    return _from_texts(contents[_PACKED / _LABELS], contents[_PACKED / _SYNSETS], path)


def _from_texts(labels: bytes, synsets: bytes, place: Path) -> GroundTruth:
    wnid_of = _wnids_by_id(synsets, place)
    lines = labels.decode("ascii", "replace").split()
    wrong = [line for line in lines if line not in wnid_of]
    if wrong:
        raise BuildError(
            f"{wrong[0]!r} in {place} is not a class number of ILSVRC2012. Take the ground truth of the 2012 edition."
        )
    numbers = pa.array(range(1, len(lines) + 1), pa.int64())
    return GroundTruth(numbers, pa.array([wnid_of[line] for line in lines], pa.string()), place, "the development kit")


def _wnids_by_id(synsets: bytes, place: Path) -> dict[str, str]:
    """Read the wnids by the kit's own class numbers (1 to 1000), which do not follow the sorted wnids."""
    try:
        rows = matlab.read_variable(io.BytesIO(synsets), "synsets")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError("synsets is no list of structures")
        leaves = [row for row in rows if _number(row, "num_children") == 0]
        return {str(_number(row, "ILSVRC2012_ID")): _wnid(row) for row in leaves}
    except ValueError as error:
        raise BuildError(
            f"meta.mat beside {place} does not have the synsets of ILSVRC2012 ({error}). Take the development kit of "
            "the 2012 edition."
        ) from error


def _number(row: dict[str, matlab.Value], name: str) -> int:
    value = row.get(name)
    if not isinstance(value, np.ndarray) or value.size != 1 or not float(value.item()).is_integer():
        raise ValueError(f"{name} of a structure is no whole number")
    return int(value.item())


def _wnid(row: dict[str, matlab.Value]) -> str:
    value = row.get("WNID")
    if not isinstance(value, str) or not _WNID.fullmatch(value):
        raise ValueError("WNID of a structure is none")
    return value


def _from_kaggle(folder: Path) -> GroundTruth | None:
    path = folder / _KAGGLE
    if not path.is_file():
        return None
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
