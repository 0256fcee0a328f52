"""Writes the demo's sources with many images in one file, in the owners' formats: CIFAR-100, SVHN and LSUN.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from builders.demo.arrays import CHANGES, draw_digits, draw_scenes
from builders.demo.duplicates import EQUAL_PIXELS
from builders.demo.images import digest, draw, jpeg, ranked, saved
from taxonomy import tables

PER_CLASS = {"cifar100": (8, 4), "svhn": (10, 20), "lsun": (0, 120)}
"""Training and held-out images of each class."""

_PARTITIONS = ("train", "test")


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
    """Class of each image of CIFAR-100 in the order of the pickle, which is shuffled like the real one."""
    count = PER_CLASS["cifar100"][_PARTITIONS.index(partition)]
    keyed = [f"{row.fine}|{number}" for row in tables.cifar100() for number in range(count)]
    return [item.partition("|")[0] for item in ranked(keyed, f"cifar100 {partition}")]


def _planted() -> Iterator[NearDuplicate]:
    train, test, kinds = _order("train"), _order("test"), tuple(CHANGES)
    for row in tables.cifar100():
        yield NearDuplicate(test.index(row.fine), train.index(row.fine), kinds[row.index % len(kinds)])


NEAR_DUPLICATES = tuple(_planted())
"""One near-duplicate a class, of the kinds in turn, so that any draw of classes has some of each kind."""


def cifar100_place(partition: str, name: str, number: int) -> int:
    """Position in the demo's pickle of image `number` of a class, counted from 0 in the pickle's order."""
    return [place for place, fine in enumerate(_order(partition)) if fine == name][number]


LSUN_TROUBLES = {"7x5": 0, "grayscale": 1, "jpeg": 2}
"""Positions, in key order, of LSUN images that differ: a small one, one with three equal channels (WebP has no
grayscale mode), and a JPEG, although the owner's README says that all images are WebP."""


def write_cifar100(folder: Path, seed: int) -> None:
    """Write `cifar-100-python/` with the pickles `train`, `test` and `meta`."""
    names = {partition: _order(partition) for partition in _PARTITIONS}
    pixels = {
        partition: draw_scenes(
            [digest(seed, "cifar100", name) for name in order],
            [digest(seed, "cifar100", partition, place) for place in range(len(order))],
        )
        for partition, order in names.items()
    }
    for planted in NEAR_DUPLICATES:
        pixels["test"][planted.test] = CHANGES[planted.kind](pixels["train"][planted.train])
    for equal in EQUAL_PIXELS:
        pixels[equal.image[0]][cifar100_place(*equal.image)] = pixels[equal.other[0]][cifar100_place(*equal.other)]
    fine = {row.fine: row.index for row in tables.cifar100()}
    coarse_names = sorted({row.coarse for row in tables.cifar100()})
    coarse = {row.fine: coarse_names.index(row.coarse) for row in tables.cifar100()}
    files: dict[str, object] = {"meta": {"fine_label_names": list(fine), "coarse_label_names": coarse_names}}
    for partition, batch in (("train", "training batch 1 of 1"), ("test", "testing batch 1 of 1")):
        order = names[partition]
        files[partition] = {
            "filenames": [f"{name}_s_{place:06d}.png" for place, name in enumerate(order)],
            "batch_label": batch,
            "fine_labels": [fine[name] for name in order],
            "coarse_labels": [coarse[name] for name in order],
            "data": pixels[partition].transpose(0, 3, 1, 2).reshape(len(order), -1),
        }
    place = folder / "cifar-100-python"
    place.mkdir(exist_ok=True)
    for name, content in files.items():
        (place / name).write_bytes(python2_pickle(content))


def write_svhn(folder: Path, seed: int) -> None:
    """Write `train_32x32.mat` and `test_32x32.mat`, where label 10 is the digit 0."""
    import scipy.io  # slow to import, and only a demo needs it

    for partition, count in zip(_PARTITIONS, PER_CLASS["svhn"], strict=True):
        digits = [int(item[0]) for item in ranked([f"{i % 10} {i}" for i in range(10 * count)], f"svhn {partition}")]
        images = draw_digits([digest(seed, "svhn", partition, place) for place in range(len(digits))], digits)
        labels = np.array([digit or 10 for digit in digits], dtype=np.uint8)
        variables = {"X": np.moveaxis(images, 0, 3), "y": labels[:, None]}
        scipy.io.savemat(folder / f"{partition}_32x32.mat", variables, do_compression=True)


def write_lsun(folder: Path, seed: int) -> None:
    """Write `test_lmdb/`, without a lock file, which would contain this process's id."""
    import lmdb  # only a demo and one source need it

    place = folder / "test_lmdb"
    place.mkdir(exist_ok=True)
    (place / "data.mdb").unlink(missing_ok=True)  # of a demo that is written again
    keys = sorted(digest("lsun", number).hex()[:40] for number in range(PER_CLASS["lsun"][1]))
    troubles = {number: kind for kind, number in LSUN_TROUBLES.items()}
    with (
        lmdb.open(str(place), map_size=1 << 28, lock=False, sync=False) as environment,
        environment.begin(write=True) as transaction,
    ):
        for number, key in enumerate(keys):
            of_image = digest(seed, "lsun", key)
            encode = _LSUN_ENCODERS[troubles.get(number, "webp")]
            transaction.put(key.encode(), encode(draw(of_image[::-1], of_image)))


_LSUN_ENCODERS: Mapping[str, Callable[..., bytes]] = {
    "webp": lambda image: saved(image, "WEBP", quality=75),
    "7x5": lambda image: saved(image.resize((7, 5)), "WEBP", quality=75),
    "grayscale": lambda image: saved(image.convert("L"), "WEBP", quality=75),
    "jpeg": jpeg,
}

CONTAINERS: Mapping[str, Callable[[Path, int], None]] = {
    "cifar100": write_cifar100,
    "svhn": write_svhn,
    "lsun": write_lsun,
}
"""Functions that write a source into an existing folder, given a seed, by the source's key."""


def python2_pickle(value: object) -> bytes:
    """Pickle as Python 2's cPickle and numpy 1 did with protocol 2; later versions write other bytes.

    Args:
        value: of dictionaries, lists, ASCII text (there a byte string), numbers from 0 to 65,535 and two-dimensional
            arrays of bytes.
    """
    return b"\x80\x02" + b"".join(_Python2Pickler().opcodes(value)) + b"."


class _Python2Pickler:
    """Writes the opcodes of values; every container and string gets the next memo number, from 1 on."""

    def __init__(self) -> None:
        self._memo = 0

    def opcodes(self, value: object) -> Iterator[bytes]:
        match value:
            case dict():
                yield b"}" + self._put() + b"("
                for key, inner in value.items():
                    yield from self.opcodes(key)
                    yield from self.opcodes(inner)
                yield b"u"
            case list():
                yield b"]" + self._put() + b"("
                for inner in value:
                    yield from self.opcodes(inner)
                yield b"e"
            case str():
                yield self._string(value.encode("ascii"))
            case int():
                yield b"K" + struct.pack("<B", value) if value < 256 else b"M" + struct.pack("<H", value)
            case np.ndarray():
                yield from self._array(value)
            case _:
                raise TypeError(f"no opcodes for {type(value).__name__}")

    def _put(self) -> bytes:
        self._memo += 1
        return b"q" + struct.pack("<B", self._memo) if self._memo < 256 else b"r" + struct.pack("<I", self._memo)

    def _string(self, value: bytes) -> bytes:
        short = len(value) < 256
        head = b"U" + struct.pack("<B", len(value)) if short else b"T" + struct.pack("<I", len(value))
        return head + value + self._put()

    def _name(self, module: str, name: str) -> bytes:
        return f"c{module}\n{name}\n".encode() + self._put()

    def _array(self, array: npt.NDArray[np.uint8]) -> Iterator[bytes]:
        """`_reconstruct(ndarray, (0,), "b")`, filled with (version, shape, dtype, column order, bytes)."""
        yield self._name("numpy.core.multiarray", "_reconstruct")
        yield self._name("numpy", "ndarray")
        yield b"K\x00\x85" + self._put() + self._string(b"b")
        yield b"\x87" + self._put() + b"R" + self._put() + b"(K\x01"
        yield b"".join(b"M" + struct.pack("<H", size) for size in array.shape) + b"\x86" + self._put()
        # `dtype("u1", 0, 1)`, filled with (version, byte order, no subtype, names, fields, size, alignment, flags).
        yield self._name("numpy", "dtype") + self._string(b"u1") + b"K\x00K\x01\x87" + self._put()
        yield b"R" + self._put() + b"(K\x03" + self._string(b"|")
        yield b"NNN" + b"J\xff\xff\xff\xff" * 2 + b"K\x00t" + self._put() + b"b"
        yield b"\x89" + self._string(array.tobytes()) + b"t" + self._put() + b"b"
