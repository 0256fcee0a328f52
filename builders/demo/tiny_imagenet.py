"""The demo of Tiny ImageNet: two training and two validation images a class in the owner's folders, with his lists.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from PIL import Image

from builders.demo.images import Drawing, draw_image, lines
from taxonomy import tables

_FOLDER = "tiny-imagenet-200"


def _draw(of_class: bytes, of_image: bytes) -> Image.Image:
    return draw_image(of_class, of_image).resize((64, 64), Image.Resampling.BOX)


def images() -> Iterator[Drawing]:
    """Yield the images; those of validation have the owner's numbers of their classes."""
    for row in tables.read_csv_rows("tiny_imagenet_val.csv"):
        wnid = row["wnid"]
        for name in (f"{wnid}_{number}.JPEG" for number in range(2)):
            yield Drawing(f"{_FOLDER}/train/{wnid}/images/{name}", f"train/{wnid}/{name}", wnid, _draw)
        for name in (f"val_{number}.JPEG" for number in row["images"].split()[:2]):
            yield Drawing(f"{_FOLDER}/val/images/{name}", f"val/{name}", wnid, _draw)


def lists(drawn: Sequence[Drawing]) -> dict[str, str]:
    """Return the owner's lists: the classes, and each image's box, of training images in a file for each class."""
    boxes: dict[str, list[str]] = {}
    for image in drawn:
        partition, *_, name = image.path.split("/")[1:]
        wnid = image.class_id
        place = {"train": f"train/{wnid}/{wnid}_boxes.txt", "val": "val/val_annotations.txt"}[partition]
        fields = {"train": [name], "val": [name, wnid]}[partition]
        boxes.setdefault(f"{_FOLDER}/{place}", []).append("\t".join([*fields, "0", "0", "62", "62"]))
    return {f"{_FOLDER}/wnids.txt": lines(tables.tiny_imagenet200())} | {
        place: lines(rows) for place, rows in boxes.items()
    }
