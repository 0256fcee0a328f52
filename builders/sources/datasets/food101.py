"""Food-101: 101 dishes with 1,000 images each.

Tested by `tests/builders/sources/test_layouts.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from builders.sources.base import Expected, Licence, Source
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.readers.patterns import ClassFolders
from taxonomy import tables

_KEY = "food101"
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


_IMAGES = ClassFolders(
    r"(?P<class_id>.*)/(?P<image>[0-9]+)\.jpg",
    "<class>/<number>.jpg",
    ending=".jpg",
)

FOOD101 = Source(
    key=_KEY,
    title="Food-101",
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
        mirror=Mirror("hf://datasets/ethz/food101", {"images": (_SPLITS,)}),
    ),
    classes=classes,
    # 750 training and 250 test images of each class.
    expected=lambda: {"images": Expected.each(classes(), 1000)},
    accepted=(
        *_IMAGES.layouts(_PUBLISHED, "food-101/images"),
        _IMAGES.mirror(
            "the Hub's data/train-*.parquet and data/validation-*.parquet",
            _SPLITS,
            lambda shard: shard.in_label_folders(_KEY, {name: name for name in classes()}.get),
        ),
    ),
    shared_sides=(),
)
