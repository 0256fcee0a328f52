"""Food-101: 101 dishes with 1,000 images each.

Tested by `tests/builders/sources/test_layouts.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from builders.sources.base import Expected, Licence, PixelSizes, Source
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.readers.class_folders import ClassFolders
from builders.sources.readers.label_names import by_label
from builders.sources.readers.layouts import CopyLayout, Search
from builders.sources.readers.patterns import Pattern
from taxonomy import tables

_KEY = "food101"
_TITLE = "Food-101"
_PARTITION = "images"
_SPLITS = ("train", "validation")

# The address and the MD5 are torchvision's (datasets/food101.py), the size and the SHA-256 those of
# tensorflow/datasets (url_checksums/food101.txt).
_PUBLISHED = OwnerFile(
    "food-101.tar.gz",
    4_996_278_331,
    url="http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz",
    md5="85eeb15f3717b99a5da872d97d918f87",
    sha256="d97d15e438b7f4498f96086a4f7e2fa42a32f2712e87d3295441b2b6314053a4",
)


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the class names by id, in alphabetical (byte) order."""
    return {name: name.replace("_", " ") for name in tables.food101()}


@functools.cache
def expected() -> Mapping[str, Expected]:
    """Return the size of the only partition: 750 training and 250 test images of each class."""
    return {_PARTITION: Expected(1000 * len(classes()), dict.fromkeys(classes(), 1000))}


_IMAGES = ClassFolders(
    Pattern(_KEY, _TITLE, r"(?P<class_id>.*)/(?P<file>[0-9]+)\.jpg", "<class>/<number>.jpg"),
    _PARTITION,
    classes,
    name_form=lambda _: "<number>.jpg",
    ending=".jpg",
)

FOOD101 = Source(
    key=_KEY,
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
    obtain=Obtain.packed(
        "https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/",
        _PUBLISHED,
        mirror=Mirror("hf://datasets/ethz/food101", {_PARTITION: (_SPLITS,)}),
    ),
    classes=classes,
    expected=expected,
    search=Search(
        (
            *_IMAGES.layouts(_PUBLISHED, "food-101/images", "<class>/<number>.jpg"),
            CopyLayout(
                _PARTITION,
                "the Hub's data/train-*.parquet and data/validation-*.parquet",
                _IMAGES.mirror(_SPLITS, by_label(_TITLE, _KEY, _IMAGES.known)),
            ),
        )
    ),
    pixel_sizes=PixelSizes(),
)
