"""Containers of arrays: CIFAR-100's pickles, SVHN's and the development kit's MATLAB files."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path

import numpy as np

from builders.demo.python2_pickle import python2_pickle
from builders.sources.base import open_source
from builders.sources.readers import pickles
from builders.sources.registry import SOURCES
from builders.sources.unpack import UNPACKERS
from taxonomy import tables
from tests.fuzz.target import Target

_PIXELS = np.random.default_rng(0).integers(0, 256, (3, 3072), dtype=np.uint8)


def batch(**values: object) -> dict[str, object]:
    """CIFAR-100's dictionary of three images, with some values replaced."""
    rows = tables.cifar100()
    coarse = sorted({row.coarse for row in rows})
    labels = {"fine_labels": [0, 7, 99], "coarse_labels": [coarse.index(rows[label].coarse) for label in (0, 7, 99)]}
    return {"data": _PIXELS, **labels, "filenames": ["a.png", "b.png", "c.png"], "batch_label": "test"} | values


def small() -> list[bytes]:
    """Pickles of Python 2 and of Python 3."""
    value = {"fine_labels": [3, 300], "data": np.arange(12, dtype=np.uint8).reshape(3, 4), "x": "y" * 300}
    return [python2_pickle(value), *(pickle.dumps(value, protocol) for protocol in (3, 4))]


def load(folder: Path) -> object:
    """The values of a pickle, and the array in it."""
    with (folder / "x").open("rb") as file:
        value = pickles.load("X", file, folder / "x")
    try:
        pickles.byte_matrix(value.get("data"))
    except ValueError as error:
        assert str(error).isprintable()
    return value


def _as_key(value: bytes) -> bytes:
    return b"\x80\x04}" + value + b"K\x01s."


def _doubled(times: int) -> bytes:
    """A tuple of two equal tuples of two equal tuples and so on, with two instructions a level."""
    return b")" + b"".join(b"q%ch%c\x86" % (level, level) for level in range(times))


DEEP = 200_000
PICKLES = {
    "doubled tuple as key": _as_key(_doubled(96)),
    "doubled tuple as key, by DUP": _as_key(b")" + b"2\x86" * 200),
    "doubled tuple as key, by MEMOIZE": _as_key(b")" + b"".join(b"\x94h%c\x86" % level for level in range(96))),
    "doubled tuple, table entries written twice": b"\x80\x04K\x01q\x01q\x010)\x94h\x01\x86\x94h\x02\x86.",
    "doubled list": b"\x80\x02}U\x01a" + b"]" + b"".join(b"q%ch%c]q%ch%ca" % (n, n, n, n) for n in range(90)) + b"s.",
    "deep tuple as key": _as_key(b")" + b"\x85" * DEEP),
    "deep list": b"\x80\x02}U\x01a" + b"]" * DEEP + b"a" * (DEEP - 1) + b"s.",
    "deep marks": b"\x80\x02" + b"(" * DEEP + b"t" * DEEP + b".",
    "deep calls": b"\x80\x02" + b"(" * DEEP + b"inumpy\nndarray\n" * 20_000 + b".",
    "table entry at 4 billion": b"\x80\x02}r\xf0\xff\xff\xff.",
    "table entry at 4 billion, as text": b"}p4000000000\n.",
    "negative table entry": b"}p-5\n.",
    "number of a million bytes": b"\x80\x02}U\x01a\x8b" + struct.pack("<i", 1_000_000) + b"\x7f" * 1_000_000 + b"s.",
    "number of two gigabytes": b"\x80\x02\x8b\xff\xff\xff\x7f\x01.",
    "number of minus one byte": b"\x80\x02\x8b\xff\xff\xff\xff.",
    "number of a million digits": b"}U\x01aL" + b"9" * 1_000_000 + b"L\ns.",
    "text of two gigabytes": b"\x80\x02T\xff\xff\xff\x7fabc.",
    "text of minus one byte": b"\x80\x02T\xff\xff\xff\xffabc.",
    "bytes of an exabyte": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 60) + b"abc.",
    "bytes of three gigabytes": b"\x80\x04\x8e" + struct.pack("<Q", 3 << 30) + b"abc.",
    "byte array of three gigabytes": b"\x80\x05\x96" + struct.pack("<Q", 3 << 30) + b"abc.",
    "frame of an exabyte": b"\x80\x04\x95" + struct.pack("<Q", 1 << 60) + b"}.",
    "frame of three gigabytes": b"\x80\x04\x95" + struct.pack("<Q", 3 << 30) + b"}.",
    "buffer outside": b"\x80\x05\x97.",
    "set of tuples": b"\x80\x04}U\x01a\x8f(" + b")\x85" * 200 + b"\x90s.",
    "no instruction": b"\x80\x02\xff.",
    "nothing": b"",
}

_HUGE = 10**18
BATCHES = {
    "label of 64 bits": batch(fine_labels=[_HUGE, 1, 2]),
    "label that is a list": batch(fine_labels=[[[[1]]], 1, 2]),
    "label that is a long text": batch(fine_labels=["\x1b" * 200_000, 1, 2]),
    "label that is no number": batch(coarse_labels=[float("nan"), 1, 2]),
    "labels that are a number": batch(fine_labels=_HUGE),
    "file names that are a number": batch(filenames=_HUGE),
    "another key with control characters": {"\x1b[2J\n" * 9: 1},
    "pixels of floats": batch(data=_PIXELS.astype(float)),
    "pixels of objects": batch(data=np.array([None] * 3)),
    "pixels of other shape": batch(data=_PIXELS.reshape(9, 1024)),
}


def cifar(folder: Path) -> object:
    """CIFAR-100's test images."""
    index = open_source(SOURCES["cifar100"], folder, ("test",))
    path = folder / "cifar-100-python" / "test"
    return [bytes(image) for rows in UNPACKERS["pickle"](path, np.arange(index.table.num_rows)) for image in rows]


TARGETS = (
    Target("pickle", "x", small, load, cases=lambda: PICKLES),
    Target(
        "cifar100",
        "cifar-100-python/test",
        lambda: [python2_pickle(batch()), pickle.dumps(batch(), 4)],
        cifar,
        cases=lambda: {name: pickle.dumps(value, 4) for name, value in BATCHES.items()},
    ),
)
