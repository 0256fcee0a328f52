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


def _cifar_list(published: str, source: str, classes: Callable[[], tuple[str, ...]]) -> ImageList:
    """Return a list of CIFAR's test images, numbered from 1 within their class in the order of the owner's file."""

    def source_id(class_: str, image: str) -> str:
        place = tables.cifar_places(source, "test")[classes().index(class_)][int(image) - 1]
        return f"test/{place:05d}"

    def read(match: re.Match[str]) -> tuple[str, str] | None:
        return (match["class"], str(int(match["image"]))) if match["class"] in classes() else None

    return ImageList(published, rf"{source}/test/(?P<class>\w+)/(?P<image>(?!0000)\d{{4}})\.png", read, source_id)


@functools.cache
def _cifar100_classes() -> tuple[str, ...]:
    return tuple(row.fine for row in tables.cifar100())


def _tin_list(published: str) -> ImageList:
    """Return a list of Tiny ImageNet's validation images, whose classes its owner's list has."""

    def read(match: re.Match[str]) -> tuple[str, str] | None:
        wnid = _tiny_imagenet_validation().get(match["image"])
        return (wnid, match["image"]) if wnid else None

    return ImageList(published, r"val_(?P<image>\d+)\.JPEG", read, lambda _, image: f"val/val_{image}.JPEG")


@functools.cache
def _tiny_imagenet_validation() -> Mapping[str, str]:
    rows = tables.read_csv_rows("tiny_imagenet_val.csv")
    return {image: row["wnid"] for row in rows for image in row["images"].split()}


def _place_of_folder(match: re.Match[str]) -> tuple[str, str] | None:
    place = _places_by_folder().get(match["place"])
    return (place, str(int(match["image"]))) if place else None


@functools.cache
def _places_by_folder() -> Mapping[str, str]:
    """Return the categories by their folders in OpenOOD's tree, such as badlands or canal-urban."""
    return {row.name.replace("/", "-"): row.category for row in tables.places365()}


def _places_list(published: str) -> ImageList:
    return ImageList(
        published,
        r"(?P<place>[a-z_-]+)/Places365_val_(?P<image>\d{8})\.jpg",
        _place_of_folder,
        lambda _, image: f"val/Places365_val_{image:0>8}.jpg",
    )


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
    "openood_cifar10_validation": _cifar_list(
        "benchmark_imglist/cifar10/val_cifar10.txt of OpenOOD v1.5", "cifar10", tables.cifar10
    ),
    "openood_cifar100_validation": _cifar_list(
        "benchmark_imglist/cifar100/val_cifar100.txt of OpenOOD v1.5", "cifar100", _cifar100_classes
    ),
    "openood_cifar10_cifar100": _cifar_list(
        "benchmark_imglist/cifar10/test_cifar100.txt of OpenOOD v1.5", "cifar100", _cifar100_classes
    ),
    **{
        f"openood_{of}_tin{suffix}": _tin_list(f"benchmark_imglist/{of}/{part}_tin.txt of OpenOOD v1.5")
        for of in ("cifar10", "cifar100")
        for suffix, part in (("", "test"), ("_validation", "val"))
    },
    **{
        f"openood_{of}_places": _places_list(f"benchmark_imglist/{of}/test_places365.txt of OpenOOD v1.5")
        for of in ("cifar10", "cifar100")
    },
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
