"""Write small made-up copies of every source in its official layout, to try each command without a download.

The class names are the real ones, the images are drawn: two colours and a shape for each class, a size, a position
and a row of bars for each image. File names are fixed; only the pixels depend on the seed. Real archives have
troubles, and so have these (`TROUBLES`, `STRAYS`).
"""

from __future__ import annotations

import hashlib
import io
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from PIL import Image, ImageDraw
from tqdm import tqdm

from builders.command import exit_code
from builders.errors import BuildError, explaining_disk
from taxonomy import tables

MARKER = "DEMO.txt"
"""The file that says, in the demo's root and in each source's folder, that the images are made up."""

_MARKER_TEXT = """This folder was written by `python -m builders.demo`.
Its images are drawn by a program. They have the names and the layout of a real dataset and nothing else of it:
results computed from them mean nothing. Remove the folder whenever you like.
"""

TRAIN_PER_CLASS = {"imagenet": 4, "food101": 4, "caltech256": 4, "places365": 3}
HELD_OUT_PER_CLASS = {"imagenet": 2, "food101": 2, "caltech256": 0, "places365": 3}


@dataclass(frozen=True)
class Trouble:
    """An image that is stored otherwise than the rest of its source, as some images of the real one are."""

    source: str
    path: str
    kind: str


TROUBLES = (
    # The three training images lie where ImageNet has such images: a PNG and one of the 22 CMYK files, as listed in
    # tensorflow/datasets, imagenet2012_dataset_builder.py; an XMP packet that is not UTF-8, as reported in
    # python-pillow/Pillow #8957.
    Trouble("imagenet", "train/n02105855/n02105855_2933.JPEG", "png"),
    Trouble("imagenet", "train/n01739381/n01739381_1309.JPEG", "cmyk"),
    Trouble("imagenet", "train/n04532106/n04532106_1553.JPEG", "xmp-not-utf8"),
    # Validation images of classes that are in-distribution in the ImageNet benchmark, so that a build meets them all.
    Trouble("imagenet", "val/n01443537/ILSVRC2012_val_00000001.JPEG", "cmyk"),
    Trouble("imagenet", "val/n01629819/ILSVRC2012_val_00000002.JPEG", "png"),
    Trouble("imagenet", "val/n01641577/ILSVRC2012_val_00000003.JPEG", "grayscale"),
    Trouble("imagenet", "val/n01644900/ILSVRC2012_val_00000004.JPEG", "orientation"),
    Trouble("imagenet", "val/n01698640/ILSVRC2012_val_00000005.JPEG", "exif-text-for-number"),
    Trouble("imagenet", "val/n01742172/ILSVRC2012_val_00000006.JPEG", "exif-text-for-fraction"),
    Trouble("caltech256", "256_ObjectCategories/133.lightning/133_0001.jpg", "grayscale"),
    Trouble("caltech256", "256_ObjectCategories/133.lightning/133_0003.jpg", "orientation"),
    Trouble("places365", "val_256/Places365_val_00000001.jpg", "grayscale"),
)
"""Images with a trouble; `kind` is a key of the encoders below.

`datasets.Image` turns an image by its EXIF orientation and for that writes the other tags anew. With Pillow 13 it
fails on both `exif-...` kinds: `struct.error` where a tag for a whole number (ResolutionUnit) holds text, `TypeError`
where a tag for a fraction (XResolution) does. `xmp-not-utf8` fails in Pillow 11.2 (`UnicodeDecodeError`), not in 13.
"""

STRAYS = {
    "imagenet": ("train/n01440764/README.txt",),
    "food101": ("images/apple_pie/notes.txt", "images/creme_brulee/crème brûlée.jpg"),
    # The first two are in the real archive.
    "caltech256": (
        "256_ObjectCategories/198.spider/RENAME2",
        "256_ObjectCategories/056.dog/greg/vision309.txt",
        "256_ObjectCategories/133.lightning/relámpago 雷.jpg",
    ),
    "places365": ("val_256/.DS_Store",),
}
"""Files that are no images of their source, by source."""


@dataclass(frozen=True)
class _Drawing:
    """An image to draw: its path in the source's folder, its stable id and its class."""

    path: str
    source_id: str
    class_id: str


def write_demo(root: Path, *, seed: int = 0, progress: bool = False) -> dict[str, Path]:
    """Write a demo copy of every source.

    Args:
        root: a new or empty folder, or a demo to be written again.
        seed: what the pixels depend on beside the file names.
        progress: show a bar on stderr, if that is a terminal.

    Returns:
        The folder of each source by its key.

    Raises:
        BuildError: `root` holds something else.
    """
    if root.exists() and not is_demo(root) and (not root.is_dir() or any(root.iterdir())):
        raise BuildError(
            f"Expected a new or empty folder for the demo, found other files in {root}; name another folder."
        )
    _write(root / MARKER, _MARKER_TEXT.encode())
    drawings = {key: list(draw()) for key, draw in _SOURCES.items()}
    kinds = {(trouble.source, trouble.path): trouble.kind for trouble in TROUBLES}
    with tqdm(total=sum(map(len, drawings.values())), unit="image", disable=None if progress else True) as bar:
        for key, images in drawings.items():
            _write(root / key / MARKER, _MARKER_TEXT.encode())
            for image in images:
                pixels = _draw(_digest(seed, key, image.class_id), _digest(seed, key, image.source_id))
                encode = _ENCODERS[kinds.get((key, image.path), "jpeg")]
                _write(root / key / image.path, encode(pixels))
                bar.update()
            for name, text in _LISTS[key](images).items():
                _write(root / key / name, text.encode())
            for stray in STRAYS[key]:
                content = _jpeg(_draw(_digest(seed, key, stray), _digest(seed, key, stray)))
                _write(root / key / stray, content if stray.endswith(".jpg") else b"Not an image.\n")
    return {key: root / key for key in drawings}


def is_demo(folder: Path) -> bool:
    """Tell whether a folder is a demo or one of its sources."""
    return (folder / MARKER).is_file()


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except FileNotFoundError:
        path.parent.mkdir(parents=True)
        path.write_bytes(content)


def _digest(*parts: object) -> bytes:
    return hashlib.sha256("|".join(map(str, parts)).encode()).digest()


def _ranked(items: Sequence[str], tag: str) -> list[str]:
    """Shuffle once and for all, without a generator."""
    return sorted(items, key=lambda item: _digest(tag, item))


def _numbers(class_id: str, count: int, limit: int, given: Sequence[int] = ()) -> list[int]:
    """Return distinct numbers below a limit for a class's file names, as irregular as real ones; `given` go first."""
    numbers = dict.fromkeys(given)
    turn = 0
    while len(numbers) < count:
        numbers[int.from_bytes(_digest("number", class_id, turn)[:4], "big") % limit] = None
        turn += 1
    return sorted(numbers)


def _imagenet() -> Iterator[_Drawing]:
    wnids = [row.wnid for row in tables.imagenet1k()]
    paths = [trouble.path for trouble in TROUBLES if trouble.source == "imagenet"]
    for wnid in wnids:
        given = [
            int(path[len("train/n00000000/n00000000_") : -len(".JPEG")])
            for path in paths
            if path.startswith(f"train/{wnid}/")
        ]
        for number in _numbers(wnid, TRAIN_PER_CLASS["imagenet"], 31_000, given):
            path = f"train/{wnid}/{wnid}_{number}.JPEG"
            yield _Drawing(path, path, wnid)
    first = [path.split("/")[1] for path in paths if path.startswith("val/")]
    places = [wnid for wnid in wnids for _ in range(HELD_OUT_PER_CLASS["imagenet"])]
    for wnid in first:
        places.remove(wnid)
    keyed = _ranked([f"{wnid}|{place}" for place, wnid in enumerate(places)], "val")
    for number, wnid in enumerate([*first, *(item.partition("|")[0] for item in keyed)], start=1):
        name = f"ILSVRC2012_val_{number:08d}.JPEG"
        yield _Drawing(f"val/{wnid}/{name}", f"val/{name}", wnid)


def _food101() -> Iterator[_Drawing]:
    for name in tables.food101():
        for number in _numbers(name, TRAIN_PER_CLASS["food101"] + HELD_OUT_PER_CLASS["food101"], 4_000_000):
            yield _Drawing(f"images/{name}/{number}.jpg", f"{name}/{number}.jpg", name)


def _food101_lists(images: Sequence[_Drawing]) -> dict[str, str]:
    names = tables.food101()
    per_class = TRAIN_PER_CLASS["food101"] + HELD_OUT_PER_CLASS["food101"]
    ids = [image.source_id.removesuffix(".jpg") for image in images]
    train = [name for place, name in enumerate(ids) if place % per_class < TRAIN_PER_CLASS["food101"]]
    test = [name for place, name in enumerate(ids) if place % per_class >= TRAIN_PER_CLASS["food101"]]
    return {
        "meta/classes.txt": _lines(names),
        "meta/labels.txt": _lines(name.replace("_", " ").capitalize() for name in names),
        "meta/train.txt": _lines(train),
        "meta/test.txt": _lines(test),
    }


def _caltech256() -> Iterator[_Drawing]:
    for row in tables.caltech256():
        for number in range(1, TRAIN_PER_CLASS["caltech256"] + 1):
            name = f"{row.folder}/{row.number:03d}_{number:04d}.jpg"
            yield _Drawing(f"256_ObjectCategories/{name}", name, row.folder)


def _places365() -> Iterator[_Drawing]:
    categories = [row.category for row in tables.places365()]
    for category in categories:
        for number in range(1, TRAIN_PER_CLASS["places365"] + 1):
            name = f"{category}/{number:08d}.jpg"
            yield _Drawing(f"data_256{name}", f"train{name}", category)
    places = [f"{category}|{place}" for category in categories for place in range(HELD_OUT_PER_CLASS["places365"])]
    for number, item in enumerate(_ranked(places, "places"), start=1):
        name = f"Places365_val_{number:08d}.jpg"
        yield _Drawing(f"val_256/{name}", f"val/{name}", item.partition("|")[0])


def _places365_lists(images: Sequence[_Drawing]) -> dict[str, str]:
    index = {row.category: row.index for row in tables.places365()}
    rows = [(image.source_id.partition("/"), index[image.class_id]) for image in images]
    return {
        "categories_places365.txt": _lines(f"{category} {number}" for category, number in index.items()),
        "places365_train_standard.txt": _lines(f"/{i[2]} {label}" for i, label in rows if i[0] == "train"),
        "places365_val.txt": _lines(f"{i[2]} {label}" for i, label in rows if i[0] == "val"),
    }


def _lines(items: Iterator[str] | Sequence[str]) -> str:
    return "".join(f"{item}\n" for item in items)


_SOURCES: Mapping[str, Callable[[], Iterator[_Drawing]]] = {
    "imagenet": _imagenet,
    "food101": _food101,
    "caltech256": _caltech256,
    "places365": _places365,
}
_LISTS: Mapping[str, Callable[[Sequence[_Drawing]], dict[str, str]]] = {
    "imagenet": lambda _: {},
    "food101": _food101_lists,
    "caltech256": lambda _: {},
    "places365": _places365_lists,
}


_COUNT = np.arange(64, dtype=np.float32)


def _draw(of_class: bytes, of_image: bytes) -> Image.Image:
    """Draw a gradient between the class's colours, the class's shape at the image's place and the image's bars."""
    width, height = 40 + of_image[0] % 24, 32 + of_image[1] % 24
    start, stop = (np.frombuffer(of_class[at : at + 3], np.uint8).astype(np.float32) for at in (0, 3))
    across, down = of_class[6] / 255, 1 - of_class[6] / 255
    ramp = np.float32(across / width) * _COUNT[:width] + np.float32(down / height) * _COUNT[:height, None]
    pixels = (start + ramp[..., None] * (stop - start)).astype(np.uint8)
    # Sixteen black or white bars: no two images look the same, even after a lossy encoder.
    bits = np.unpackbits(np.frombuffer(of_image[6:8], np.uint8))
    pixels[-4:] = 255 * bits[np.arange(width) * 16 // width][:, None]
    image = Image.fromarray(pixels)
    radius = 6 + of_image[2] % 6
    x, y = radius + of_image[3] % (width - 2 * radius), radius + of_image[4] % (height - 2 * radius - 4)
    colour = (255 - of_class[7], 255 - of_class[8], 255 - of_class[9])
    ImageDraw.Draw(image).regular_polygon((x, y, radius), 3 + of_class[10] % 6, rotation=of_image[5], fill=colour)
    return image


def _saved(image: Image.Image, form: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def _jpeg(image: Image.Image) -> bytes:
    return _saved(image, "JPEG", quality=60)


def _with_segment(jpeg: bytes, payload: bytes) -> bytes:
    """Put an APP1 segment (EXIF, XMP) behind a JPEG's first marker."""
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(payload) + 2) + payload + jpeg[2:]


def _exif(*tags: tuple[int, int, int, bytes]) -> bytes:
    """Make an EXIF segment of tags (number, type, count, four bytes of value), which Pillow would refuse to write."""
    body = b"".join(struct.pack("<HHL", *tag[:3]) + tag[3] for tag in tags)
    return b"Exif\0\0II*\0" + struct.pack("<LH", 8, len(tags)) + body + bytes(4)


# EXIF types: 2 is text, 3 a 16-bit number. Orientation 6: to be turned by 90 degrees.
_ORIENTATION = (0x0112, 3, 1, struct.pack("<HH", 6, 0))
_UNIT_AS_TEXT = (0x0128, 2, 4, b"mm \0")
_RESOLUTION_AS_TEXT = (0x011A, 2, 4, b"72 \0")
_XMP = b"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta xmlns:x='adobe:ns:meta/'>\xa8</x:xmpmeta>"

_ENCODERS: Mapping[str, Callable[[Image.Image], bytes]] = {
    "jpeg": _jpeg,
    "png": lambda image: _saved(image, "PNG"),
    "cmyk": lambda image: _jpeg(image.convert("CMYK")),
    "grayscale": lambda image: _jpeg(image.convert("L")),
    "orientation": lambda image: _with_segment(_jpeg(image), _exif(_ORIENTATION)),
    "exif-text-for-number": lambda image: _with_segment(_jpeg(image), _exif(_ORIENTATION, _UNIT_AS_TEXT)),
    "exif-text-for-fraction": lambda image: _with_segment(_jpeg(image), _exif(_ORIENTATION, _RESOLUTION_AS_TEXT)),
    "xmp-not-utf8": lambda image: _with_segment(_jpeg(image), _XMP),
}


@click.command(
    name="python -m builders.demo",
    epilog="Example: python -m builders.demo demo",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--seed", default=0, show_default=True, help="What the pixels depend on beside the file names.")
def command(folder: Path, seed: int) -> None:
    """Write small made-up copies of all sources to DIR, to try every command without a download."""
    with explaining_disk("write the demo sources"):
        written = write_demo(folder, seed=seed, progress=True)
    for key, place in written.items():
        click.echo(f"{key}: {place}")
    flags = " ".join(f"--{key} {place}" for key, place in written.items())
    click.echo(f"Next: python -m builders.imagenet_benchmark {flags}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    return exit_code(command, argv, stopped="stopped; run the same command again to write the rest.")


if __name__ == "__main__":
    sys.exit(main())
