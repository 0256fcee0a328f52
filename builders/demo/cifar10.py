"""The demo's CIFAR-10: the owner's pickles, the first images' classes as in the real files.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from pathlib import Path

from builders.demo.arrays import CHANGES, draw_scenes
from builders.demo.cifar100 import python2_pickle
from builders.demo.images import digest
from taxonomy import tables

_BATCHES = 5
_TRAIN, _TEST = 100, 100

NEAR = tuple(enumerate(CHANGES))
"""Test images that are changed training images of their class: the place in the test file, and a key of `CHANGES`."""

EQUAL = len(NEAR)
"""The place in the test file of the image that has the pixels of a training image of its class."""


def original(place: int) -> int:
    """Return the place of the training image of which a test image of the two above is made."""
    label = tables.cifar_order("cifar10", "test")[place]
    return tables.cifar_places("cifar10", "train")[label][place % 2]


def write(folder: Path, seed: int) -> None:
    """Write `cifar-10-batches-py/` with five training batches, the test batch and the names of the classes."""
    names = tables.cifar10()
    labels = {
        partition: list(tables.cifar_order("cifar10", partition)[:count])
        for partition, count in (("train", _TRAIN), ("test", _TEST))
    }
    pixels = {
        partition: draw_scenes(
            [digest(seed, "cifar10", names[label]) for label in of],
            [digest(seed, "cifar10", partition, place) for place in range(len(of))],
        )
        for partition, of in labels.items()
    }
    for place, kind in NEAR:
        pixels["test"][place] = CHANGES[kind](pixels["train"][original(place)])
    pixels["test"][EQUAL] = pixels["train"][original(EQUAL)]
    size = _TRAIN // _BATCHES
    batches = {
        f"data_batch_{number}": ("train", slice((number - 1) * size, number * size), f"training batch {number} of 5")
        for number in range(1, _BATCHES + 1)
    }
    batches["test_batch"] = ("test", slice(None), "testing batch 1 of 1")
    home = folder / "cifar-10-batches-py"
    home.mkdir(exist_ok=True)
    meta = {"num_cases_per_batch": size, "label_names": list(names), "num_vis": 3_072}
    (home / "batches.meta").write_bytes(python2_pickle(meta))
    for name, (partition, part, title) in batches.items():
        of = labels[partition][part]
        values = {
            "batch_label": title,
            "labels": of,
            "data": pixels[partition][part].transpose(0, 3, 1, 2).reshape(len(of), -1),
            "filenames": [f"{names[label]}_s_{place:06d}.png" for place, label in enumerate(of)],
        }
        (home / name).write_bytes(python2_pickle(values))
