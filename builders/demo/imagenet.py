"""The demo's ImageNet: a tree of training and one of validation images.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from builders.demo.base import DemoFiles, Drawing, numbers
from builders.demo.images import ranked
from taxonomy import tables

_PER_CLASS = (4, 2)

_TROUBLES = {
    # The three training images lie where ImageNet has such images: a PNG and one of the 22 CMYK files, as listed in
    # tensorflow/datasets, imagenet2012_dataset_builder.py; an XMP packet that is not UTF-8, as reported in
    # python-pillow/Pillow #8957.
    "train/n02105855/n02105855_2933.JPEG": "png",
    "train/n01739381/n01739381_1309.JPEG": "cmyk",
    "train/n04532106/n04532106_1553.JPEG": "xmp-not-utf8",
    # Validation images of classes that are in-distribution in the ImageNet benchmark, so that a build meets them all.
    "val/n01443537/ILSVRC2012_val_00000001.JPEG": "cmyk",
    "val/n01629819/ILSVRC2012_val_00000002.JPEG": "png",
    "val/n01641577/ILSVRC2012_val_00000003.JPEG": "grayscale",
    "val/n01644900/ILSVRC2012_val_00000004.JPEG": "orientation",
    "val/n01698640/ILSVRC2012_val_00000005.JPEG": "exif-text-for-number",
    "val/n01742172/ILSVRC2012_val_00000006.JPEG": "exif-text-for-fraction",
}


def _images() -> Iterator[Drawing]:
    wnids = [row.wnid for row in tables.imagenet1k()]
    for wnid in wnids:
        fixed = [
            int(path[len("train/n00000000/n00000000_") : -len(".JPEG")])
            for path in _TROUBLES
            if path.startswith(f"train/{wnid}/")
        ]
        for number in numbers(wnid, _PER_CLASS[0], 31_000, fixed):
            path = f"train/{wnid}/{wnid}_{number}.JPEG"
            yield Drawing(path, path, wnid)
    troubled = [path.split("/")[1] for path in _TROUBLES if path.startswith("val/")]
    other_wnids = [wnid for wnid in wnids for _ in range(_PER_CLASS[1])]
    for wnid in troubled:
        other_wnids.remove(wnid)
    shuffled = ranked([f"{wnid}|{position}" for position, wnid in enumerate(other_wnids)], "val")
    for number, wnid in enumerate([*troubled, *(item.partition("|")[0] for item in shuffled)], start=1):
        name = f"ILSVRC2012_val_{number:08d}.JPEG"
        yield Drawing(f"val/{wnid}/{name}", f"val/{name}", wnid)


DEMO = DemoFiles(_PER_CLASS, _images, troubles=_TROUBLES, strays=("train/n01440764/README.txt",))
