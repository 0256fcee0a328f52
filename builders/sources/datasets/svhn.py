"""SVHN's cropped digits (format 2): 32 x 32 pixels around one digit of a house number."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from builders.sources.base import RGB32, CopyLayout, Expected, Home, Licence, PartitionIndex, Source
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.readers import parquet
from builders.sources.readers.arrays import in_owners_order, mirrored, position_table
from builders.sources.readers.folders import relative
from builders.sources.readers.svhn import TITLE, image_count, read_variable, sizes, unusable

_CLASSES = tuple("0123456789")
_ZERO = 10
"""The label that the owner's files give the digit 0."""

# Addresses and MD5 are torchvision's (datasets/svhn.py), sizes and SHA-256 those of tensorflow/datasets
# (url_checksums/svhn_cropped.txt) and of the Hub's loader (huggingface/datasets, datasets/svhn/dataset_infos.json).
_FILES = (
    OwnerFile(
        "train_32x32.mat",
        182_040_794,
        url="http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
        md5="e26dedcc434d2e4c54c9b2d4a06d8373",
        sha256="435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
        partitions=("train",),
    ),
    OwnerFile(
        "test_32x32.mat",
        64_275_384,
        url="http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
        md5="eb5a983be6a315427106f1b164d9cef3",
        sha256="cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
        partitions=("test",),
    ),
)

# Images of each digit, 0 to 9. The owner's page gives the totals, 73,257 and 26,032; the counts are those that several
# public repositories took from the files, and they add up to the totals.
_COUNTS = {
    "train": (4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659),
    "test": (1744, 5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595),
}

# By OpenOOD's list of the test images (benchmark_imglist/cifar10/test_svhn.txt), whose names have place and digit.
_ORDER = {"test": "c2488ef300c629f4bd90a3d2a7b4141589e5b5a4f9046845dfc1a9021319e31a"}

Int64 = npt.NDArray[np.int64]


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the ten digits, which are their own names."""
    return {digit: digit for digit in _CLASSES}


def _mat(home: Home) -> PartitionIndex | None:
    path = home.folder / f"{home.partition}_32x32.mat"
    if not path.is_file():
        return None
    images = image_count(path)
    labels = read_variable(path, "y")
    if labels.ndim != 2 or labels.shape[1] != 1 or labels.dtype.kind not in "iu" or len(labels) != images:
        actual = f"{labels.dtype} {sizes(labels.shape)}"
        raise unusable(path, f"has no {images:,} x 1 integers y, one for each image in X, but {actual}")
    digits = labels[:, 0].astype(np.int64)
    wrong = digits[(digits < 1) | (digits > _ZERO)]
    if len(wrong):
        raise unusable(path, f"has the label {wrong[0]} in y, which is not from 1 to {_ZERO}")
    table = position_table(home, digits % _ZERO, path)
    return PartitionIndex(home.partition, f"MATLAB file {relative(path, home.root)}", "mat", table, form="rgb32")


def _parquet_codes(path: Path) -> Int64:
    """Return the labels of one file of the mirror, where 0 is the digit 0."""
    return parquet.read_codes(TITLE, path, _CLASSES)


# A stored copy of the page has the note beside the downloads of format 1 and ends before those of format 2; the Hub's
# loader (huggingface/datasets, datasets/svhn/svhn.py) states "Custom (non-commercial)" for both.
LICENCE = Licence(
    name="non-commercial use only",
    url="http://ufldl.stanford.edu/housenumbers/",
    statement=(
        "The owners' page offers the downloads with a note that they are for non-commercial use only; it says nothing "
        "on passing the images on. They are from Google Street View."
    ),
    publish="ids-only",
)
"""Of both formats."""

CITATION = """@inproceedings{netzer2011reading,
  title = {Reading Digits in Natural Images with Unsupervised Feature Learning},
  author = {Netzer, Yuval and Wang, Tao and Coates, Adam and Bissacco, Alessandro and Wu, Bo and Ng, Andrew Y.},
  booktitle = {NIPS Workshop on Deep Learning and Unsupervised Feature Learning},
  year = {2011}
}"""
"""Of both formats."""

SVHN = Source(
    key="svhn",
    title=TITLE,
    edition="SVHN, format 2: cropped digits (2011)",
    licence=LICENCE,
    citation=CITATION,
    obtain=Obtain(
        LICENCE.url,
        "download format 2, train_32x32.mat and test_32x32.mat",
        files=_FILES,
        mirror=Mirror(
            "hf://datasets/ufldl-stanford/svhn/cropped_digits", {"train": (("train",),), "test": (("test",),)}
        ),
    ),
    classes=classes,
    # The `extra` images are not indexed.
    expected=lambda: {name: Expected.of(dict(zip(_CLASSES, counts, strict=True))) for name, counts in _COUNTS.items()},
    accepted=(
        CopyLayout("{partition}_32x32.mat", in_owners_order(_mat, _ORDER.get)),
        CopyLayout(
            "the Hub's cropped_digits/{partition}-*.parquet (also in data/)",
            in_owners_order(lambda home: mirrored(home, _parquet_codes), _ORDER.get),
        ),
    ),
    arrays=RGB32,
)
