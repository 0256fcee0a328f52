"""The demo's CIFAR-100: the owner's pickles, with changed and equal copies of training images among the test images.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from builders.demo.arrays import CHANGES, draw_scenes
from builders.demo.duplicates import EQUAL_PIXELS
from builders.demo.images import digest, ranked
from builders.demo.python2_pickle import python2_pickle
from taxonomy import tables

_PER_CLASS = {"train": 8, "test": 4}


@dataclass(frozen=True)
class NearDuplicate:
    """A test image of the demo's CIFAR-100 that is a changed training image of the same class.

    `test` and `train` are positions in the pickles, hence in the source ids; `kind` is one of
    `builders.demo.arrays.CHANGES`.
    """

    test: int
    train: int
    kind: str


def _order(partition: str) -> list[str]:
    """Return the class of each image in the order of the pickle, which like the real one is mixed."""
    numbered = [f"{row.fine}|{number}" for row in tables.cifar100() for number in range(_PER_CLASS[partition])]
    return [item.partition("|")[0] for item in ranked(numbered, f"cifar100 {partition}")]


@functools.cache
def near_duplicates() -> tuple[NearDuplicate, ...]:
    """Return one for each of the 100 classes, the kinds in turn, so that any drawn classes have some of each."""
    train, test, kinds = _order("train"), _order("test"), tuple(CHANGES)
    return tuple(
        NearDuplicate(test.index(row.fine), train.index(row.fine), kinds[row.index % len(kinds)])
        for row in tables.cifar100()
    )


def pickle_position(partition: str, name: str, number: int) -> int:
    """Return the position in the pickle of a class's image; `number` counts the class's images from 0."""
    return [position for position, fine in enumerate(_order(partition)) if fine == name][number]


def write(folder: Path, seed: int) -> None:
    """Write `cifar-100-python/` with the pickles `train`, `test` and `meta`."""
    names = {partition: _order(partition) for partition in _PER_CLASS}
    pixels = {
        partition: draw_scenes(
            [digest(seed, "cifar100", name) for name in order],
            [digest(seed, "cifar100", partition, position) for position in range(len(order))],
        )
        for partition, order in names.items()
    }
    for pair in near_duplicates():
        pixels["test"][pair.test] = CHANGES[pair.kind](pixels["train"][pair.train])
    for equal in EQUAL_PIXELS:
        original = pixels[equal.other[0]][pickle_position(*equal.other)]
        pixels[equal.image[0]][pickle_position(*equal.image)] = original
    fine = {row.fine: row.index for row in tables.cifar100()}
    coarse_names = sorted({row.coarse for row in tables.cifar100()})
    coarse = {row.fine: coarse_names.index(row.coarse) for row in tables.cifar100()}
    files: dict[str, object] = {"meta": {"fine_label_names": list(fine), "coarse_label_names": coarse_names}}
    for partition, batch in (("train", "training batch 1 of 1"), ("test", "testing batch 1 of 1")):
        order = names[partition]
        files[partition] = {
            "filenames": [f"{name}_s_{position:06d}.png" for position, name in enumerate(order)],
            "batch_label": batch,
            "fine_labels": [fine[name] for name in order],
            "coarse_labels": [coarse[name] for name in order],
            "data": pixels[partition].transpose(0, 3, 1, 2).reshape(len(order), -1),
        }
    home = folder / "cifar-100-python"
    home.mkdir(exist_ok=True)
    for name, content in files.items():
        (home / name).write_bytes(python2_pickle(content))
