"""MNIST: 28 x 28 grey pixels around one handwritten digit, 60,000 training and 10,000 test images."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.sources.base import GREY28, CopyLayout, Expected, Home, Licence, PartitionIndex, Source
from builders.sources.formats import idx
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.readers import parquet
from builders.sources.readers.arrays import in_owners_order, mirrored, position_table
from builders.sources.readers.folders import relative
from builders.sources.readers.mnist import TITLE, opened, unusable

_CLASSES = tuple("0123456789")

_PREFIX = {"train": "train", "test": "t10k"}
"""The start of the owners' names of a partition's files."""

# The owners' page (yann.lecun.com/exdb/mnist) gives the files to no program any more. The addresses are those of
# tensorflow/datasets (image_classification/mnist.py), sizes and SHA-256 those of its list of checksums, and the MD5
# are torchvision's (datasets/mnist.py), which gets the files from the mirror.
_AT = "https://storage.googleapis.com/cvdf-datasets/mnist"
_FILES = tuple(
    OwnerFile(
        name,
        size,
        url=f"{_AT}/{name}",
        md5=md5,
        sha256=sha256,
        mirrors=(f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}",),
        partitions=tuple(partition for partition, start in _PREFIX.items() if name.startswith(start)),
    )
    for name, size, md5, sha256 in (
        (
            "train-images-idx3-ubyte.gz",
            9_912_422,
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        ),
        (
            "train-labels-idx1-ubyte.gz",
            28_881,
            "d53e105ee54ea40749a09fcbcd1e9432",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        ),
        (
            "t10k-images-idx3-ubyte.gz",
            1_648_877,
            "9fb629c4189551a2d022fa330f9573f3",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        ),
        (
            "t10k-labels-idx1-ubyte.gz",
            4_542,
            "ec29112dd5afa0611ce80d1b7f02629c",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    )
)

# Images of each digit, 0 to 9: those of OpenOOD's list (benchmark_imglist/cifar10/test_mnist.txt), which has all
# 70,000 images with their digits. They add up to the totals of the owners' page.
_COUNTS = {
    "train": (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
    "test": (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
}

# By the same list, whose names have digit and place.
_ORDER = {
    "train": "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
    "test": "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
}

Int64 = npt.NDArray[np.int64]


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the ten digits, which are their own names."""
    return {digit: digit for digit in _CLASSES}


def _files(home: Home) -> PartitionIndex | None:
    """Index a partition's two idx files, packed or not; Kaggle's copies have a dot in place of the second hyphen."""
    for mark, ending in ((mark, ending) for ending in ("", ".gz") for mark in "-."):
        images, labels = (
            home.folder / f"{_PREFIX[home.partition]}-{kind}{mark}idx{dimensions}-ubyte{ending}"
            for kind, dimensions in (("images", 3), ("labels", 1))
        )
        if images.is_file():
            return _indexed(home, images, labels)
    return None


def _indexed(home: Home, images: Path, labels: Path) -> PartitionIndex:
    if not labels.is_file():
        raise BuildError(f"{TITLE}: {images} lies there without {labels.name}. Put both files into one folder.")
    with opened(images) as file:
        count, *shape = idx.read_header(file, 3)
        if not images.name.endswith(".gz"):  # of a packed one, the end is only known when all is unpacked
            idx.check_length(file, (count, *shape))
    with opened(labels) as file:
        digits = idx.read_array(file, 1)
    if tuple(shape) != GREY28:
        raise unusable(images, f"has images of {shape[0]:,} x {shape[1]:,} pixels instead of 28 x 28")
    if len(digits) != count:
        raise unusable(labels, f"has {len(digits):,} labels for {count:,} images")
    if len(digits) and digits.max() > 9:
        raise unusable(labels, f"has the label {digits.max()}, which is not from 0 to 9")
    table = position_table(home, digits.astype(np.int64), images, size=math.prod(GREY28))
    layout = f"idx file {relative(images, home.root)}"
    if images.name.endswith(".gz"):
        return PartitionIndex(home.partition, layout, "idx", table, form="grey28")
    offsets = pc.add(pc.multiply(table["offset"], math.prod(GREY28)), idx.header_size(3))
    table = table.set_column(table.schema.get_field_index("offset"), "offset", offsets)
    return PartitionIndex(home.partition, layout, "span", table, form="grey28")


def _parquet_codes(path: Path) -> Int64:
    """Return the labels of one file of the mirror, which keeps the order of the owners' files."""
    return parquet.read_codes(TITLE, path, _CLASSES)


MNIST = Source(
    key="mnist",
    title=TITLE,
    edition="MNIST (1998)",
    licence=Licence(
        name="none stated",
        url="http://yann.lecun.com/exdb/mnist/",
        statement=(
            "The owners' page states no licence. Keras's documentation says that Yann LeCun and Corinna Cortes hold "
            "the copyright and offer the database under CC BY-SA 3.0; the card of the Hub's mirror says MIT. The "
            "digits are from two databases of the United States' National Institute of Standards and Technology."
        ),
        publish="ids-only",
    ),
    citation="""@article{lecun1998gradient,
  title = {Gradient-Based Learning Applied to Document Recognition},
  author = {LeCun, Yann and Bottou, L{\\'e}on and Bengio, Yoshua and Haffner, Patrick},
  journal = {Proceedings of the IEEE},
  volume = {86},
  number = {11},
  pages = {2278--2324},
  year = {1998}
}""",
    obtain=Obtain.packed(
        "http://yann.lecun.com/exdb/mnist/",
        *_FILES,
        mirror=Mirror("hf://datasets/ylecun/mnist/mnist", {"train": (("train",),), "test": (("test",),)}),
    ),
    classes=classes,
    expected=lambda: {name: Expected.of(dict(zip(_CLASSES, of, strict=True))) for name, of in _COUNTS.items()},
    accepted=(
        *(
            CopyLayout(
                f"{start}-images-idx3-ubyte and {start}-labels-idx1-ubyte, packed (.gz) or not",
                in_owners_order(_files, _ORDER.get),
                (partition,),
            )
            for partition, start in _PREFIX.items()
        ),
        CopyLayout(
            "the Hub's mnist/{partition}-*.parquet (also in data/)",
            in_owners_order(lambda home: mirrored(home, _parquet_codes), _ORDER.get),
        ),
    ),
    arrays=GREY28,
)
