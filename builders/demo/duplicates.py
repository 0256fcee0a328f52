"""Lists the duplicates that the demo puts into its sources, modelled on those of the real sources.

Pairs of files are copied after all files are written; pairs inside CIFAR-100's pickles are given by class and number
and written by `builders.demo.cifar100`. They are chosen so that, with seed 0, both images of a pair are rows of a
complete build: of the ImageNet benchmark, of CIFAR's, or of a config of FACETS.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from PIL import Image

from builders.demo.images import encode_image


@dataclass(frozen=True)
class Duplicate:
    """A duplicate in the demo: a file that is overwritten with a copy of another one.

    `source` and `path` give the file that is overwritten, `of_source` and `of_path` the original. `kind` is a key of
    `COPIES`: what the two have in common.
    """

    source: str
    path: str
    of_source: str
    of_path: str
    kind: str = "bytes"


def _in_imagenet(path: str, of_path: str, kind: str = "bytes") -> Duplicate:
    return Duplicate("imagenet", path, "imagenet", of_path, kind)


# ImageNet's cases are those of Kisel, Volkov, Hanzelkova, Janouskova and Matas, "Flaws of ImageNet, Computer Vision's
# Favorite Dataset", ICLR Blogposts 2025. The numbers in the file names are the demo's; real pairs have others.
DUPLICATES = (
    # 797 validation images are training images, all of another class. Sunglass, near-OoD with seed 0, and sunglasses,
    # in-distribution: a class under two names.
    _in_imagenet("val/n04355933/ILSVRC2012_val_00000170.JPEG", "train/n04356056/n04356056_17814.JPEG"),
    # 29 pairs lie inside validation, each of two classes. Tub, near-OoD with seed 0, and bathtub, in-distribution;
    # unknown and known in FACETS's T1 and T2, too.
    _in_imagenet("val/n04493381/ILSVRC2012_val_00000751.JPEG", "val/n02808440/ILSVRC2012_val_00000207.JPEG"),
    # 5,836 training images stand in groups of two to four, 5,782 of them in groups of several classes. Table lamp,
    # external, and lampshade, in-distribution.
    _in_imagenet("train/n04380533/n04380533_15773.JPEG", "train/n03637318/n03637318_22440.JPEG"),
    # The other 54: twice in one class, the Persian cat.
    _in_imagenet("train/n02123394/n02123394_3127.JPEG", "train/n02123394/n02123394_23012.JPEG"),
    # A group of three: African elephant, in-distribution; tusker, external; Indian elephant, a near-OoD class, whose
    # training images only FACETS has.
    _in_imagenet("train/n01871265/n01871265_2156.JPEG", "train/n02504458/n02504458_22829.JPEG"),
    _in_imagenet("train/n02504013/n02504013_18667.JPEG", "train/n02504458/n02504458_22829.JPEG"),
    # All these are equal pixel for pixel, which files of other bytes can be as well. The keyboards of a typewriter,
    # near-OoD with seed 0, and of a computer, in-distribution.
    _in_imagenet("val/n04505470/ILSVRC2012_val_00000114.JPEG", "val/n03085013/ILSVRC2012_val_00000220.JPEG", "pixels"),
    # 269 validation images nearly equal 400 training images, which makes no exact pair. Cellular telephone, near-OoD
    # with seed 0, and iPod, in-distribution.
    _in_imagenet(
        "val/n02992529/ILSVRC2012_val_00001235.JPEG", "train/n03584254/n03584254_19192.JPEG", "encoded again"
    ),
    # Food-101 is said to have 235 duplicates. Baklava is one of the 32 far-OoD classes.
    Duplicate("food101", "images/baklava/3020152.jpg", "food101", "images/baklava/1726113.jpg"),
    # Whether the real SUN397 has one picture in a known and an unknown class of FACETS is not known. These two, the
    # tennis and the basketball court, are unknown and known in T1.
    Duplicate(
        "sun397",
        "SUN397/t/tennis_court/outdoor/sun_bgiiweogvxmsymdd.jpg",
        "sun397",
        "SUN397/b/basketball_court/outdoor/sun_loaxdjgvbgjzyqym.jpg",
    ),
    # Places365 and SUN397 were gathered from the web by the same names of scenes; whether the real ones share a
    # picture is not known. Both are castles.
    Duplicate("sun397", "SUN397/c/castle/sun_qmtmhsfbqjrvytrr.jpg", "places365", "val_256/Places365_val_00000850.jpg"),
)
"""Copies of files. No copy is the original of another one, or has a trouble."""


@dataclass(frozen=True)
class EqualPixels:
    """Two images of the demo's CIFAR-100 with equal pixels, each given as (partition, class, number in the class)."""

    image: tuple[str, str, int]
    other: tuple[str, str, int]


# The exact pairs of Barz and Denzler, "Do We Train on Test Data? Purging CIFAR of Near-Duplicates", Journal of Imaging
# 6(6), 2020, whose lists (ciFAIR) name them: 2 inside test, both of two classes of one superclass, and 10 across test
# and training, six of two such classes. Number 0 of each class is one of `builders.demo.cifar100.near_duplicates`.
EQUAL_PIXELS = (
    # Test images 3438 and 7715, 4654 and 6709. With seed 0 seal and girl are in-distribution, otter and baby near-OoD.
    EqualPixels(("test", "otter", 1), ("test", "seal", 1)),
    EqualPixels(("test", "girl", 1), ("test", "baby", 1)),
    # Test image 2615 and training image 28538; 2996 and 30697.
    EqualPixels(("test", "otter", 2), ("train", "seal", 1)),
    EqualPixels(("test", "baby", 2), ("train", "girl", 1)),
    # Four pairs have one class, the aquarium fish, which is near-OoD with seed 0: no training row. The trout is one.
    EqualPixels(("test", "trout", 1), ("train", "trout", 1)),
    # 14 training images are surplus; the lists do not say which.
    EqualPixels(("train", "willow_tree", 1), ("train", "willow_tree", 2)),
)
"""Pairs of equal images in CIFAR-100; `image` is overwritten with `other`."""


COPIES: Mapping[str, Callable[[bytes], bytes]] = {
    "bytes": bytes,
    # With a comment segment after the first marker, which changes no pixel.
    "pixels": lambda content: content[:2] + b"\xff\xfe\x00\x06copy" + content[2:],
    "encoded again": lambda content: encode_image(Image.open(io.BytesIO(content)), "JPEG", quality=40),
}
"""Ways to copy a JPEG: with equal bytes; with other bytes and equal pixels; with nearly equal pixels."""
