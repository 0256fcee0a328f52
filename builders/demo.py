"""Write small made-up copies of every source in its official layout, to try each command without a download.

The class names are the real ones, the images are drawn: two colours and a shape for each class, a size, a position
and a row of bars for each image. File names are fixed; only the pixels depend on the seed. Real archives have
troubles, and so have these (`TROUBLES`, `STRAYS`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from tqdm import tqdm

from builders.command import exit_code
from builders.demo_containers import CONTAINERS, PER_CLASS
from builders.demo_images import ENCODERS, digest, draw, jpeg, ranked
from builders.errors import BuildError, explaining_disk
from taxonomy import tables

MARKER = "DEMO.txt"
"""The file that says, in the demo's root and in each source's folder, that the images are made up."""

_MARKER_TEXT = """This folder was written by `python -m builders.demo`.
Its images are drawn by a program. They have the names and the layout of a real dataset and nothing else of it:
results computed from them mean nothing. Remove the folder whenever you like.
"""

TRAIN_PER_CLASS = {"imagenet": 4, "food101": 4, "caltech256": 4, "places365": 3, "dtd": 4}
HELD_OUT_PER_CLASS = {"imagenet": 2, "food101": 2, "caltech256": 0, "places365": 3, "dtd": 0}
TRAIN_PER_CLASS |= {key: train for key, (train, _) in PER_CLASS.items()}
HELD_OUT_PER_CLASS |= {key: held_out for key, (_, held_out) in PER_CLASS.items()}

# What each benchmark is built from, in the order of its flags.
_BENCHMARKS = {
    "builders.imagenet_benchmark": ("imagenet", "food101", "caltech256", "places365"),
    "builders.cifar_benchmark": ("cifar100", "svhn", "lsun", "dtd", "imagenet"),
}


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
    Trouble("dtd", "images/banded/banded_0001.jpg", "cmyk"),
    Trouble("dtd", "images/grid/grid_0001.jpg", "grayscale"),
    Trouble("dtd", "images/zigzagged/zigzagged_0001.jpg", "orientation"),
)
"""Images with a trouble; `kind` is a key of `demo_images.ENCODERS`. Those inside LSUN's database are listed in
`demo_containers.LSUN_TROUBLES`.

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
    # What a file manager leaves in a folder that was looked at.
    "dtd": ("images/waffled/.directory",),
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
    drawings = {key: list(images()) for key, images in _SOURCES.items()}
    kinds = {(trouble.source, trouble.path): trouble.kind for trouble in TROUBLES}
    with tqdm(total=sum(map(len, drawings.values())), unit="image", disable=None if progress else True) as bar:
        for key, images in drawings.items():
            _write(root / key / MARKER, _MARKER_TEXT.encode())
            for image in images:
                pixels = draw(digest(seed, key, image.class_id), digest(seed, key, image.source_id))
                encode = ENCODERS[kinds.get((key, image.path), "jpeg")]
                _write(root / key / image.path, encode(pixels))
                bar.update()
            for name, text in _LISTS[key](images).items():
                _write(root / key / name, text.encode())
            for stray in STRAYS[key]:
                content = jpeg(draw(digest(seed, key, stray), digest(seed, key, stray)))
                _write(root / key / stray, content if stray.endswith(".jpg") else b"Not an image.\n")
    for key, write in CONTAINERS.items():
        _write(root / key / MARKER, _MARKER_TEXT.encode())
        write(root / key, seed)
    return {key: root / key for key in (*drawings, *CONTAINERS)}


def is_demo(folder: Path) -> bool:
    """Tell whether a folder is a demo or one of its sources."""
    return (folder / MARKER).is_file()


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except FileNotFoundError:
        path.parent.mkdir(parents=True)
        path.write_bytes(content)


def _numbers(class_id: str, count: int, limit: int, given: Sequence[int] = ()) -> list[int]:
    """Return distinct numbers below a limit for a class's file names, as irregular as real ones; `given` go first."""
    numbers = dict.fromkeys(given)
    turn = 0
    while len(numbers) < count:
        numbers[int.from_bytes(digest("number", class_id, turn)[:4], "big") % limit] = None
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
    keyed = ranked([f"{wnid}|{place}" for place, wnid in enumerate(places)], "val")
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
    for number, item in enumerate(ranked(places, "places"), start=1):
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


def _dtd() -> Iterator[_Drawing]:
    for name in tables.dtd():
        for number in _numbers(name, TRAIN_PER_CLASS["dtd"], 250, (1,)):
            file = f"{name}/{name}_{number:04d}.jpg"
            yield _Drawing(f"images/{file}", file, name)


def _dtd_lists(images: Sequence[_Drawing]) -> dict[str, str]:
    ids = [image.source_id for image in images]
    return {f"labels/{name}1.txt": _lines(ids[start::3]) for start, name in enumerate(("train", "val", "test"))}


def _lines(items: Iterator[str] | Sequence[str]) -> str:
    return "".join(f"{item}\n" for item in items)


_SOURCES: Mapping[str, Callable[[], Iterator[_Drawing]]] = {
    "imagenet": _imagenet,
    "food101": _food101,
    "caltech256": _caltech256,
    "places365": _places365,
    "dtd": _dtd,
}
_LISTS: Mapping[str, Callable[[Sequence[_Drawing]], dict[str, str]]] = {
    "imagenet": lambda _: {},
    "food101": _food101_lists,
    "caltech256": lambda _: {},
    "places365": _places365_lists,
    "dtd": _dtd_lists,
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
    for module, keys in _BENCHMARKS.items():
        flags = " ".join(f"--{key} {folder / key}" for key in keys)
        click.echo(f"Next: python -m {module} {flags}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    return exit_code(command, argv, stopped="stopped; run the same command again to write the rest.")


if __name__ == "__main__":
    sys.exit(main())
