"""The multi-label config of BROAD: CoComageNet, and the subset of single classes that isolates its shift.

CoComageNet has the COCO images with at least two of the 17 categories that ImageNet shares, in which the second-
largest covers most (section 2.5). Its sister has images of one category, people aside, as evenly from the 17 as they
allow: of a category with fewer than 157 such images all, of the others the 157 in which it covers most, and 158 for
the two most populated (appendix A), which is an even share of 2,000.

"Total area" is read as the union of a category's masks, crowds included. The authors' lists were made otherwise. Of
393 training images whose annotations are in public repositories, 40 have two of the categories. By second area their
list cannot have the six of these that it has (344065, 620, 397, 106497, 450 and 516008, with 0.131, 0.075, 0.044,
0.034, 0.033 and 0.016) without 488571 (0.110), 9 (0.034) and three more, which it lacks; sums of areas rank them
alike. The six are the first six by the area of each category's last annotated object alone, which a program has that
overwrites a category's area instead of adding to it (and by the median of its objects' areas; not by the largest, the
first, the smallest or the mean). The 11 images of one category alone contradict neither. So the build compares the
lists with both readings, `--last-object-areas` draws by the other one, and `--adopt` builds exactly what the authors
list.

Tested by `tests/builders/broad/test_multi_label.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from builders.declare.benchmark import (
    AllClasses,
    AuthorsImages,
    Classes,
    ClassesOf,
    Config,
    Largest,
    PaperCount,
    Split,
    Variant,
)
from builders.sources.coco2017 import COCO2017, source_id
from builders.sources.imagenet import IMAGENET
from taxonomy import tables

CONFIG = "broad-multi-label"

_IMAGES = 2_000


def _authors(split: str, other_column: str) -> AuthorsImages:
    def listed() -> Mapping[str, str]:
        images = [image for image in tables.cocomagenet_images() if image.split == split]
        return {source_id(image.image_id): image.category for image in images}

    return AuthorsImages(listed, source_id, other_column)


_split = functools.partial(
    Split, role="multi_label", source=COCO2017, partitions=("train",), paper=PaperCount(_IMAGES)
)

SEVERAL = _split(
    name="cocomagenet",
    classes=AllClasses("images with a second area are those with two of the 17 classes (section 2.5)"),
    quota=Largest(_IMAGES, "second_area"),
    published="CoComageNet.json",
    authors=_authors("cocomagenet", "second_object_area"),
)
ALONE = _split(
    name="cocomagenet_mono",
    classes=Classes("cocomagenet", "shared"),
    quota=Largest(_IMAGES, "largest_area", evenly=True),
    published="CoComageNet-mono.json",
    authors=_authors("cocomagenet_mono", "largest_object_area"),
)

MULTI_LABEL = Config(
    CONFIG,
    ClassesOf(IMAGENET),
    "Photographs of several ImageNet classes at once, and of one alone: COCO's images of 17 shared classes.",
    (SEVERAL, ALONE),
)
"""The config; its splits draw from one source and have no image in common."""

LAST_OBJECTS = Variant(
    name="last-object-areas",
    help="Rank COCO's images by the area of each category's last annotated object alone, as the authors' lists seem "
    "to be ranked, instead of the union of all its masks, which is what their paper says.",
    splits={
        f"{CONFIG}/cocomagenet": dataclasses.replace(
            SEVERAL,
            quota=Largest(_IMAGES, "second_object_area"),
            authors=_authors("cocomagenet", "second_area"),
        ),
        f"{CONFIG}/cocomagenet_mono": dataclasses.replace(
            ALONE,
            quota=Largest(_IMAGES, "largest_object_area", evenly=True),
            authors=_authors("cocomagenet_mono", "largest_area"),
        ),
    },
)
"""The reading by which the lists agree with the authors' as far as they could be compared here."""
