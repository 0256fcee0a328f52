"""Published lists of images: the images that a benchmark's authors chose from a source, kept as compact tables.

A table has a line for each class, with the numbers or names of its listed images; an image's id follows from the two.
`python -m taxonomy.compile_lists` makes the tables from the published files and compares them. Whole sources and
complements of lists need no table: of ILSVRC2012's validation images, OpenOOD's test list has those that its
validation list leaves.

Tested by `tests/taxonomy/test_lists.py`.
"""

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from taxonomy import tables

UNKNOWN = "*"
"""The class of images whose class a list does not give."""


@dataclass(frozen=True)
class ImageList:
    """A published list of images: its file and publisher, and how its lines name classes and images.

    `line` is the pattern of a line as published. Copies of a list put folders before a line and a label behind it, as
    OpenOOD's lists do. `read` returns the class and the image of a matching line as the table has them: the class is
    `UNKNOWN` if the list has none, and for a class that does not exist the result is None. `source_id` returns the
    image's id in its source from class and image; for SUN397 this is the file's name alone.
    """

    published: str
    line: str
    read: Callable[[re.Match[str]], tuple[str, str] | None]
    source_id: Callable[[str, str], str]

    def parsed(self, text: str) -> tuple[str, str] | None:
        """Return the class and the image that a line of the published file or a copy names; None for other lines."""
        match = re.fullmatch(rf"(?:\S+/)?{self.line}(?: -?\d+)?", text, re.ASCII)
        return self.read(match) if match else None


def _of_wnid(match: re.Match[str]) -> tuple[str, str]:
    return match["wnid"], match["image"]


def _wnid_id(wnid: str, image: str) -> str:
    return f"{wnid}/{wnid}_{image}.JPEG"


def _of_place(match: re.Match[str]) -> tuple[str, str] | None:
    place = _places().get(match["place"]) if match["place"] else UNKNOWN
    return (place, str(int(match["image"]))) if place else None


@functools.cache
def _places() -> Mapping[str, str]:
    """Return the categories by their names in MOS's files, such as b_badlands or c_canal_urban."""
    return {row.category[1:].replace("/", "_"): row.category for row in tables.places365()}


_WNID = r"(?P<wnid>n\d{8})/(?P=wnid)_(?P<image>\d+)\.JPEG"
_VALIDATION = r"ILSVRC2012_val_(?P<image>\d{8})\.JPEG"

LISTS: Mapping[str, ImageList] = {
    "openood_validation": ImageList(
        "benchmark_imglist/imagenet/val_imagenet.txt of OpenOOD v1.5",
        rf"{_VALIDATION} (?P<label>\d{{1,3}})",
        lambda match: (tables.imagenet1k()[int(match["label"])].wnid, str(int(match["image"]))),
        lambda _, image: f"val/ILSVRC2012_val_{image:0>8}.JPEG",
    ),
    "ssb_hard": ImageList(
        "benchmark_imglist/imagenet/test_ssb_hard.txt of OpenOOD v1.5, from the semantic shift benchmark (Vaze et "
        "al., 2022)",
        _WNID,
        _of_wnid,
        _wnid_id,
    ),
    "openood_imagenet_c": ImageList(
        "benchmark_imglist/imagenet/test_imagenet_c.txt of OpenOOD v1.5",
        rf"(?P<kind>[a-z_]+/[1-5])/{_VALIDATION}",
        lambda match: (match["kind"], str(int(match["image"]))),
        lambda kind, image: f"{kind}/ILSVRC2012_val_{image:0>8}.JPEG",
    ),
    "imagenet_ood": ImageList(
        "the list of ImageNet-OOD (Yang, Zhang and Russakovsky, 2024)", _WNID, _of_wnid, _wnid_id
    ),
    "mos_sun": ImageList(
        "the names of the files in SUN.tar.gz of MOS (Huang and Li, 2021)",
        r"sun_(?P<image>[a-z]{16})\.jpg",
        lambda match: (UNKNOWN, match["image"]),
        lambda _, image: f"sun_{image}.jpg",
    ),
    "mos_places": ImageList(
        "the names of the files in Places.tar.gz of MOS (Huang and Li, 2021)",
        r"(?:Places365_val|(?P<place>[a-z]_[a-z_]+))_(?P<image>\d{8})\.jpg",
        _of_place,
        lambda place, image: (
            f"val/Places365_val_{image:0>8}.jpg" if place == UNKNOWN else f"train{place}/{image:0>8}.jpg"
        ),
    ),
}
"""The lists by name."""


OF_IMAGENET21K = ("ssb_hard", "imagenet_ood")
"""The lists of ImageNet-21k's images."""


def list_file(name: str) -> str:
    """Return the file in `taxonomy/data` that holds a list."""
    return f"listed_{name}.csv"


@functools.cache
def load_list(name: str) -> Mapping[str, str]:
    """Return the class of each image of a list by the image's id; `UNKNOWN` where the list has none."""
    source_id = LISTS[name].source_id
    return {
        source_id(row["class"], image): row["class"]
        for row in tables.read_csv_rows(list_file(name))
        for image in row["images"].split()
    }


@functools.cache
def imagenet_r() -> Mapping[str, int]:
    """Return the number of images of each of ImageNet-R's 200 classes, by wnid in ImageNet-1k's order.

    The counts are those of OpenOOD's list (benchmark_imglist/imagenet/test_imagenet_r.txt). The classes are OpenOOD's
    ImageNet-200, too.
    """
    return {row["wnid"]: int(row["images"]) for row in tables.read_csv_rows("imagenet_r.csv")}
