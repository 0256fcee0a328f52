"""Containers of arrays: CIFAR-100's pickles and SVHN's MATLAB files."""

from __future__ import annotations

import functools
import io
import pickle
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.io

from builders.demo.cifar100 import python2_pickle
from builders.sources.opening import open_source
from builders.sources.readers import pickles
from builders.sources.registry import SOURCES
from builders.sources.unpack import UNPACKERS
from taxonomy import tables
from tests.fuzz.bombs import zlib_bomb
from tests.fuzz.target import Target
from unknown_detection.words import is_printable

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
    return [python2_pickle(value), *(pickle.dumps(value, protocol) for protocol in (2, 3, 4, 5))]


def load(folder: Path) -> object:
    """The values of a pickle, and the array in it."""
    with (folder / "x").open("rb") as file:
        value = pickles.load_pickle("X", file, folder / "x")
    try:
        pickles.byte_matrix(value.get("data"))
    except ValueError as error:
        assert is_printable(str(error))
    return value


def _as_key(value: bytes) -> bytes:
    return b"\x80\x04}" + value + b"K\x01s."


def _doubled(times: int) -> bytes:
    """A tuple of two equal tuples of two equal tuples and so on, with two instructions a level."""
    return b")" + b"".join(b"q%ch%c\x86" % (level, level) for level in range(times))


DEEP = 400_000
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
    "too many instructions": b"\x80\x02}" + b"q\1" * 700_000 + b".",
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
    "another key with control characters": {"\x1b[2J\n" * 9: 1},
    "pixels of floats": batch(data=_PIXELS.astype(float)),
    "pixels of objects": batch(data=np.array([None] * 3)),
    "pixels of other shape": batch(data=_PIXELS.reshape(9, 1024)),
}


def cifar(folder: Path) -> object:
    """CIFAR-100's test images."""
    index = open_source(SOURCES["cifar100"], folder, ("test",))
    path = folder / "cifar-100-python" / "test"
    return [bytes(image) for rows in UNPACKERS["batch"](path, np.arange(index.table.num_rows)) for image in rows]


def mats() -> list[bytes]:
    """SVHN's cropped digits, with compressed variables and with plain ones."""
    files = []
    for compressed in (False, True):
        buffer = io.BytesIO()
        pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 2), dtype=np.uint8)
        scipy.io.savemat(buffer, {"X": pixels, "y": np.array([[1], [10]], np.uint8)}, do_compression=compressed)
        files.append(buffer.getvalue())
    return files


def element(kind: int, data: bytes, length: int | None = None) -> bytes:
    """A part of a MATLAB 5 file, with any length."""
    padding = b"" if kind == 15 else bytes(-len(data) % 8)
    return struct.pack("<II", kind, len(data) if length is None else length) + data + padding


def matrix(dimensions: Sequence[int], content: bytes, *, kind: int = 9, name: bytes = b"X", further: int = 0) -> bytes:
    """A variable (kind 1 is a cell array, 2 a structure, 9 holds bytes), which has further bytes behind these."""
    flags = element(6, struct.pack("<II", kind, 0))
    shape = element(5, struct.pack(f"<{len(dimensions)}i", *dimensions))
    body = flags + shape + element(1, name) + content
    return element(14, body, len(body) + further)


def mat(*variables: bytes) -> bytes:
    """A file of some variables."""
    return b"MATLAB 5.0 MAT-file".ljust(116) + bytes(8) + b"\x00\x01IM" + b"".join(variables)


# MATLAB 7.3: a text of 116 bytes, 8 of offset, version 2.0 and the byte order, then HDF5 from byte 512.
HDF5 = b"MATLAB 7.3 MAT-file".ljust(116) + bytes(8) + b"\x00\x02IM" + bytes(384) + b"\x89HDF\r\n\x1a\n"
_ZEROS = 600 << 20
_LONG = matrix((_ZEROS, 1), element(2, b"", _ZEROS), name=b"y", further=_ZEROS)
_Y = matrix((2, 1), element(2, b"\1\2"), name=b"y")
_CELLS = functools.reduce(lambda inner, _: matrix((1, 1), inner, kind=1), range(3000), _Y)
VARIABLES = {
    "of HDF5": HDF5,
    "of HTML": b"<html>not found</html>" * 99,
    "of nothing": b"",
    "of huge dimensions": mat(matrix((32, 32, 3, 1 << 30), element(2, b"abc")), _Y),
    "of dimensions below zero": mat(matrix((32, 32, 3, -5), element(2, b"abc")), _Y),
    "of 100,000 dimensions": mat(matrix((1,) * 100_000, element(2, b"a")), _Y),
    "of bytes said to be four gigabytes": mat(matrix((32, 32, 3, 2), element(2, b"abc", 0xFFFFFFF0)), _Y),
    "of a variable said to be four gigabytes": mat(element(14, b"", 0xFFFFFFF0), _Y),
    "of a compressed variable said to be four gigabytes": mat(element(15, b"", 0xFFFFFFF0), _Y),
    "of many cells": mat(matrix((1 << 15, 1 << 15), b"", kind=1, name=b"synsets")),
    "of many structures": mat(
        matrix(
            (1 << 15, 1 << 15), element(5, b"\x20\0\0\0") + element(1, b"a".ljust(32, b"\0")), kind=2, name=b"synsets"
        )
    ),
    "of deep cells": mat(_CELLS),
    "of a name of control characters": mat(matrix((1, 1), element(2, b"a"), name=b"\x1b[2J\n")),
    "of a bomb": mat(element(15, zlib_bomb(element(14, b"", _ZEROS), _ZEROS >> 20))),
    "of a bomb in y": mat(
        matrix((32, 32, 3, 2), element(2, bytes(6144))),
        element(15, zlib_bomb(_LONG, _ZEROS >> 20)),
    ),
}


def svhn(folder: Path) -> object:
    """SVHN's test images."""
    index = open_source(SOURCES["svhn"], folder, ("test",))
    path = folder / "test_32x32.mat"
    return [bytes(image) for rows in UNPACKERS["mat"](path, np.arange(index.table.num_rows)) for image in rows]


TARGETS = (
    Target("pickle", "x", small, load, cases=lambda: PICKLES),
    Target(
        "cifar100",
        "cifar-100-python/test",
        lambda: [python2_pickle(batch()), pickle.dumps(batch(), 4)],
        cifar,
        cases=lambda: {name: pickle.dumps(value, 4) for name, value in BATCHES.items()},
    ),
    Target("svhn", "test_32x32.mat", mats, svhn, cases=lambda: VARIABLES),
)
