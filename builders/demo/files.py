"""Declares the demo's sources with one image a file: names, troubled images, strays and lists.

The class names are the real ones. File names are fixed; only the pixels depend on the seed.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from builders.demo.arrays import draw_digits
from builders.demo.images import digest, draw, ranked
from taxonomy import tables

PER_CLASS = {
    "imagenet": (4, 2),
    "food101": (4, 2),
    "caltech256": (4, 0),
    "places365": (3, 3),
    "dtd": (4, 0),
    "sun397": (4, 0),
    "svhn_full": (24, 12),
}
"""Training and held-out images of each class."""


@dataclass(frozen=True)
class Trouble:
    """An image stored in another way than the rest of its source, as some images of the real source are.

    It is one of its class's `PER_CLASS` images, except in Food-101, where it is an additional one.
    """

    source: str
    path: str
    kind: str


TROUBLES = (
    # The three training images have the names of such images in ImageNet: a PNG and one of the 22 CMYK files, as
    # listed in tensorflow/datasets, imagenet2012_dataset_builder.py; an XMP packet that is not UTF-8, as reported in
    # python-pillow/Pillow #8957.
    Trouble("imagenet", "train/n02105855/n02105855_2933.JPEG", "png"),
    Trouble("imagenet", "train/n01739381/n01739381_1309.JPEG", "cmyk"),
    Trouble("imagenet", "train/n04532106/n04532106_1553.JPEG", "xmp-not-utf8"),
    # Validation images of classes that are in-distribution in the ImageNet benchmark, so that a build has them all.
    Trouble("imagenet", "val/n01443537/ILSVRC2012_val_00000001.JPEG", "cmyk"),
    Trouble("imagenet", "val/n01629819/ILSVRC2012_val_00000002.JPEG", "png"),
    Trouble("imagenet", "val/n01641577/ILSVRC2012_val_00000003.JPEG", "grayscale"),
    Trouble("imagenet", "val/n01644900/ILSVRC2012_val_00000004.JPEG", "orientation"),
    Trouble("imagenet", "val/n01698640/ILSVRC2012_val_00000005.JPEG", "exif-text-for-number"),
    Trouble("imagenet", "val/n01742172/ILSVRC2012_val_00000006.JPEG", "exif-text-for-fraction"),
    # The three single-channel images of the real archive.
    Trouble("food101", "images/bread_pudding/1375816.jpg", "grayscale"),
    Trouble("food101", "images/lasagna/3787908.jpg", "grayscale"),
    Trouble("food101", "images/steak/1340977.jpg", "grayscale"),
    Trouble("caltech256", "256_ObjectCategories/133.lightning/133_0001.jpg", "grayscale"),
    Trouble("caltech256", "256_ObjectCategories/133.lightning/133_0003.jpg", "orientation"),
    Trouble("places365", "val_256/Places365_val_00000001.jpg", "grayscale"),
    # Four of the images that mmpretrain (datasets/sun397.py) lists as not JPEG. It does not give their formats; these
    # are the formats that tensorflow/datasets (sun.py) names. The two of the abbey are JPEGs like the rest.
    Trouble("sun397", "SUN397/a/assembly_line/sun_ajckcfldgdrdjogj.jpg", "gif"),
    Trouble("sun397", "SUN397/a/auto_factory/sun_apfsprenzdnzbhmt.jpg", "png"),
    Trouble("sun397", "SUN397/b/bow_window/indoor/sun_ahsholsagvlrsboa.jpg", "png-with-alpha"),
    Trouble("sun397", "SUN397/b/baggage_claim/sun_avittiqqaiibgcau.jpg", "bmp"),
    Trouble("sun397", "SUN397/a/abbey/sun_aqswjsnjlrfzzhiz.jpg", "cmyk"),
    Trouble("sun397", "SUN397/a/abbey/sun_aaoktempcmudsvna.jpg", "grayscale"),
    # Tags as reported in python-pillow/Pillow #6492, #6799 and #8965 and huggingface/datasets #8165.
    Trouble("sun397", "SUN397/b/beach/sun_dnccaalmahhjmhfk.jpg", "exif-fraction-for-text"),
    Trouble("sun397", "SUN397/c/castle/sun_laprtwgeuidlueij.jpg", "exif-no-denominator"),
    Trouble("dtd", "images/banded/banded_0001.jpg", "cmyk"),
    Trouble("dtd", "images/dotted/dotted_0001.jpg", "exif-float-for-text"),
    Trouble("dtd", "images/grid/grid_0001.jpg", "grayscale"),
    Trouble("dtd", "images/knitted/knitted_0001.jpg", "exif-double-for-text"),
    Trouble("dtd", "images/lined/lined_0001.jpg", "exif-no-denominator"),
    Trouble("dtd", "images/zigzagged/zigzagged_0001.jpg", "orientation"),
)
"""Images with a trouble; `kind` is a key of `images.ENCODERS`. Those inside LSUN's database are listed in
`builders.demo.containers.LSUN_TROUBLES`.

`datasets.Image` rotates an image by its EXIF orientation, which rewrites the other tags. With Pillow 13 this fails on
all `exif-...` kinds but the last: `struct.error` if a tag for an integer (ResolutionUnit) holds text, `TypeError` if a
tag for a fraction (XResolution) does, `AttributeError` if one for text (Make, Software, Copyright) holds a fraction or
a floating point number. `exif-no-denominator` (XResolution 72/0) fails in Pillow 11.0 (`ZeroDivisionError`) and
`xmp-not-utf8` in 11.2 (`UnicodeDecodeError`), neither in 13.
"""

STRAYS = {
    "imagenet": ("train/n01440764/README.txt",),
    "food101": ("images/apple_pie/notes.txt", "images/creme_brulee/crème brûlée.jpg"),
    # The first two, a file and an empty folder, are in the real archive.
    "caltech256": (
        "256_ObjectCategories/198.spider/RENAME2",
        "256_ObjectCategories/056.dog/greg/vision309/",
        "256_ObjectCategories/056.dog/greg/vision309.txt",
        "256_ObjectCategories/133.lightning/relámpago 雷.jpg",
    ),
    "places365": ("val_256/.DS_Store",),
    # A file manager left this in a folder of the real archive.
    "dtd": ("images/waffled/.directory",),
    # Left by macOS's archiver and by Windows's file manager, and an unrelated picture.
    "sun397": (
        "SUN397/a/abbey/._sun_aqswjsnjlrfzzhiz.jpg",
        "SUN397/b/balcony/exterior/balcón 陽台.jpg",
        "SUN397/w/wine_cellar/Thumbs.db",
    ),
    "svhn_full": ("train/.DS_Store",),
    # An editor left this in the real archive.
    "cifar100": ("cifar-100-python/file.txt~",),
}
"""Files that are not images of their source, and empty folders (with a slash at the end), by source."""


@dataclass(frozen=True)
class Drawing:
    """An image to draw: its path in the source's folder, its id, its class, and how it is drawn and encoded.

    `draw` takes digests of the class and of the image. `kind` is a key of `builders.demo.images.ENCODERS`.
    """

    path: str
    source_id: str
    class_id: str
    draw: Callable[[bytes, bytes], Image.Image] = draw
    kind: str = "jpeg"


@dataclass(frozen=True)
class Files:
    """A source of image files: a function that yields its images, and one that makes its lists as {path: text}."""

    images: Callable[[], Iterator[Drawing]]
    lists: Callable[[Sequence[Drawing]], dict[str, str]] = lambda _: {}


def _numbers(class_id: str, count: int, limit: int, given: Sequence[int] = ()) -> list[int]:
    """Return sorted distinct numbers below a limit for a class's file names, as irregular as real ones."""
    numbers = dict.fromkeys(given)
    turn = 0
    while len(numbers) < count:
        numbers[int.from_bytes(digest("number", class_id, turn)[:4], "big") % limit] = None
        turn += 1
    return sorted(numbers)


def _imagenet() -> Iterator[Drawing]:
    wnids = [row.wnid for row in tables.imagenet1k()]
    paths = [trouble.path for trouble in TROUBLES if trouble.source == "imagenet"]
    for wnid in wnids:
        given = [
            int(path[len("train/n00000000/n00000000_") : -len(".JPEG")])
            for path in paths
            if path.startswith(f"train/{wnid}/")
        ]
        for number in _numbers(wnid, PER_CLASS["imagenet"][0], 31_000, given):
            path = f"train/{wnid}/{wnid}_{number}.JPEG"
            yield Drawing(path, path, wnid)
    first = [path.split("/")[1] for path in paths if path.startswith("val/")]
    places = [wnid for wnid in wnids for _ in range(PER_CLASS["imagenet"][1])]
    for wnid in first:
        places.remove(wnid)
    keyed = ranked([f"{wnid}|{place}" for place, wnid in enumerate(places)], "val")
    for number, wnid in enumerate([*first, *(item.partition("|")[0] for item in keyed)], start=1):
        name = f"ILSVRC2012_val_{number:08d}.JPEG"
        yield Drawing(f"val/{wnid}/{name}", f"val/{name}", wnid)


def _food101() -> Iterator[Drawing]:
    troubled = [trouble.path.removesuffix(".jpg").split("/") for trouble in TROUBLES if trouble.source == "food101"]
    for name in tables.food101():
        more = [int(number) for _, class_id, number in troubled if class_id == name]
        for number in sorted([*_numbers(name, sum(PER_CLASS["food101"]), 4_000_000), *more]):
            yield Drawing(f"images/{name}/{number}.jpg", f"{name}/{number}.jpg", name)


def _food101_lists(images: Sequence[Drawing]) -> dict[str, str]:
    names = tables.food101()
    train, test = [], []
    for _, of_class in itertools.groupby(images, key=lambda image: image.class_id):
        ids = [image.source_id.removesuffix(".jpg") for image in of_class]
        train += ids[: -PER_CLASS["food101"][1]]
        test += ids[-PER_CLASS["food101"][1] :]
    return {
        "meta/classes.txt": _lines(names),
        "meta/labels.txt": _lines(name.replace("_", " ").capitalize() for name in names),
        "meta/train.txt": _lines(train),
        "meta/test.txt": _lines(test),
    }


def _caltech256() -> Iterator[Drawing]:
    for row in tables.caltech256():
        for number in range(1, PER_CLASS["caltech256"][0] + 1):
            name = f"{row.folder}/{row.number:03d}_{number:04d}.jpg"
            yield Drawing(f"256_ObjectCategories/{name}", name, row.folder)


_PLACES365_VAL_LABELS = (165, 358, 93, 164, 289)
"""Labels of the first five validation images, as the real `places365_val.txt` has them."""


def _places365() -> Iterator[Drawing]:
    categories = [row.category for row in tables.places365()]
    for category in categories:
        for number in range(1, PER_CLASS["places365"][0] + 1):
            name = f"{category}/{number:08d}.jpg"
            yield Drawing(f"data_256{name}", f"train{name}", category)
    places = [f"{category}|{place}" for category in categories for place in range(PER_CLASS["places365"][1])]
    mixed = [item.partition("|")[0] for item in ranked(places, "places")]
    for place, label in enumerate(_PLACES365_VAL_LABELS):
        other = mixed.index(categories[label], place)
        mixed[place], mixed[other] = mixed[other], mixed[place]
    for number, category in enumerate(mixed, start=1):
        name = f"Places365_val_{number:08d}.jpg"
        yield Drawing(f"val_256/{name}", f"val/{name}", category)


def _places365_lists(images: Sequence[Drawing]) -> dict[str, str]:
    index = {row.category: row.index for row in tables.places365()}
    rows = [(image.source_id.partition("/"), index[image.class_id]) for image in images]
    return {
        "categories_places365.txt": _lines(f"{category} {number}" for category, number in index.items()),
        "places365_train_standard.txt": _lines(f"/{i[2]} {label}" for i, label in rows if i[0] == "train"),
        "places365_val.txt": _lines(f"{i[2]} {label}" for i, label in rows if i[0] == "val"),
    }


def _dtd() -> Iterator[Drawing]:
    for name in tables.dtd():
        for number in _numbers(name, PER_CLASS["dtd"][0], 250, (1,)):
            file = f"{name}/{name}_{number:04d}.jpg"
            yield Drawing(f"images/{file}", file, name)


def _dtd_lists(images: Sequence[Drawing]) -> dict[str, str]:
    ids = [image.source_id for image in images]
    return {f"labels/{name}1.txt": _lines(ids[start::3]) for start, name in enumerate(("train", "val", "test"))}


def _sun397() -> Iterator[Drawing]:
    given: dict[str, list[str]] = {}
    for trouble in TROUBLES:
        if trouble.source == "sun397":
            folder, _, name = trouble.path.removeprefix("SUN397").rpartition("/")
            given.setdefault(folder, []).append(name)
    for row in tables.sun397():
        names = dict.fromkeys(given.get(row.category, []))
        turn = 0
        while len(names) < PER_CLASS["sun397"][0]:
            letters = "".join(chr(ord("a") + byte % 26) for byte in digest("sun397", row.category, turn)[:16])
            names[f"sun_{letters}.jpg"] = None
            turn += 1
        for name in sorted(names):
            yield Drawing(f"SUN397{row.category}/{name}", f"{row.category[1:]}/{name}", row.category)


def _svhn_full() -> Iterator[Drawing]:
    for partition, count in zip(("train", "test"), PER_CLASS["svhn_full"], strict=True):
        for number in range(1, count + 1):
            path = f"{partition}/{number}.png"
            yield Drawing(path, path, "number", _house_number, "png")


def _house_number(_: bytes, of_image: bytes) -> Image.Image:
    """Draw one to three digits side by side, in a size that varies by image."""
    digits = [byte % 10 for byte in of_image[: 1 + of_image[9] % 3]]
    pixels = np.concatenate(list(draw_digits([of_image] * len(digits), digits)), axis=1)
    width, height = 14 + of_image[10] % 18, 20 + of_image[11] % 13
    return Image.fromarray(pixels).resize((len(digits) * width, height), Image.Resampling.NEAREST)


def _svhn_full_lists(_: Sequence[Drawing]) -> dict[str, str]:
    # The real ones are HDF5 and a script; nothing reads them.
    beside = {"digitStruct.mat": "MATLAB 7.3 MAT-file (none in the demo)\n", "see_bboxes.m": "% none in the demo\n"}
    return {f"{partition}/{name}": text for partition in ("train", "test") for name, text in beside.items()}


def _lines(items: Iterator[str] | Sequence[str]) -> str:
    return "".join(f"{item}\n" for item in items)


FILES: Mapping[str, Files] = {
    "imagenet": Files(_imagenet),
    "food101": Files(_food101, _food101_lists),
    "caltech256": Files(_caltech256),
    "places365": Files(_places365, _places365_lists),
    "dtd": Files(_dtd, _dtd_lists),
    "sun397": Files(_sun397, lambda _: {"SUN397/ClassName.txt": _lines(row.category for row in tables.sun397())}),
    "svhn_full": Files(_svhn_full, _svhn_full_lists),
}
"""The sources of image files, by key."""
