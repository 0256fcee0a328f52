"""The demo's CIFAR-100: the owner's pickles, with changed and equal copies of training images among the test images.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

import functools
import itertools
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from builders.demo.arrays import CHANGES, draw_scenes
from builders.demo.duplicates import EQUAL_PIXELS
from builders.demo.images import digest, mixed
from taxonomy import tables

_PER_CLASS = {"train": 8, "test": 4}


@dataclass(frozen=True)
class NearDuplicate:
    """A pair in the demo's CIFAR-100: a test image that is a changed copy of a training image of the same class.

    `test` and `train` are positions in the pickles, hence in the source ids; `kind` is one of
    `builders.demo.arrays.CHANGES`.
    """

    test: int
    train: int
    kind: str


def _order(partition: str) -> list[str]:
    """Return the class of each image in the order of the pickle, which like the real one is mixed."""
    numbered = ((row.fine, number) for row in tables.cifar100() for number in range(_PER_CLASS[partition]))
    return mixed(numbered, f"cifar100 {partition}")


@functools.cache
def near_duplicates() -> tuple[NearDuplicate, ...]:
    """Return one near-duplicate per class, of each kind in turn, so that any classes drawn have some of each kind."""
    train, test, kinds = _order("train"), _order("test"), tuple(CHANGES)
    return tuple(
        NearDuplicate(test.index(row.fine), train.index(row.fine), kinds[row.index % len(kinds)])
        for row in tables.cifar100()
    )


def pickle_position(partition: str, name: str, number: int) -> int:
    """Return the position in the pickle of a class's image; `number` counts the images of the class from 0."""
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


def python2_pickle(value: object) -> bytes:
    """Pickle a value as Python 2's cPickle and numpy 1 did with protocol 2, which newer versions cannot do.

    The value consists of dictionaries, lists, ASCII text (there a byte string), numbers from 0 to 65,535 and
    two-dimensional arrays of bytes.
    """
    memo = itertools.count(1)

    def put() -> bytes:
        """Return the instruction that gives the value before it the next memo number."""
        number = next(memo)
        return b"q" + struct.pack("<B", number) if number < 256 else b"r" + struct.pack("<I", number)

    def text(value: bytes) -> bytes:
        short = len(value) < 256
        head = b"U" + struct.pack("<B", len(value)) if short else b"T" + struct.pack("<I", len(value))
        return head + value + put()

    def name(module: str, name: str) -> bytes:
        return f"c{module}\n{name}\n".encode() + put()

    def array(value: npt.NDArray[np.uint8]) -> bytes:
        """`_reconstruct(ndarray, (0,), "b")`, filled with (version, shape, dtype, column order, bytes)."""
        content = name("numpy.core.multiarray", "_reconstruct") + name("numpy", "ndarray")
        content += b"K\x00\x85" + put() + text(b"b") + b"\x87" + put() + b"R" + put() + b"(K\x01"
        content += b"".join(b"M" + struct.pack("<H", size) for size in value.shape) + b"\x86" + put()
        # `dtype("u1", 0, 1)`, filled with (version, byte order, no subtype, names, fields, size, alignment, flags).
        content += name("numpy", "dtype") + text(b"u1") + b"K\x00K\x01\x87" + put() + b"R" + put() + b"(K\x03"
        content += text(b"|") + b"NNN" + b"J\xff\xff\xff\xff" * 2 + b"K\x00t" + put() + b"b"
        return content + b"\x89" + text(value.tobytes()) + b"t" + put() + b"b"

    def opcodes(value: object) -> bytes:
        match value:
            case dict():
                return b"}" + put() + b"(" + b"".join(opcodes(k) + opcodes(v) for k, v in value.items()) + b"u"
            case list():
                return b"]" + put() + b"(" + b"".join(map(opcodes, value)) + b"e"
            case str():
                return text(value.encode("ascii"))
            case int():
                return b"K" + struct.pack("<B", value) if value < 256 else b"M" + struct.pack("<H", value)
            case np.ndarray():
                return array(value)
        raise TypeError(f"no opcodes for {type(value).__name__}")

    return b"\x80\x02" + opcodes(value) + b"."
