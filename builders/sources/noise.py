"""Noise that this project makes itself: a list of ids, from which `builders.generate.noise` makes images.

Tested by `tests/builders/test_cifar_benchmark.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from builders.sources.base import Expected, Licence, Piece, Source, piece_table
from builders.sources.readers.folders import class_column

_PARTITION = "images"
_CLASS = "gaussian"
_IMAGES = 10_000
"""Kim et al., table 2."""


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the only class."""
    return {_CLASS: "Gaussian noise"}


@functools.cache
def expected() -> Mapping[str, Expected]:
    """Return the size of the only partition."""
    return {_PARTITION: Expected(_IMAGES, {_CLASS: _IMAGES})}


def scan(root: Path, partitions: Sequence[str]) -> list[Piece]:
    """Return the ids; there is nothing to look at."""
    ids = pa.array([f"{number:05d}" for number in range(_IMAGES)])
    column = class_column(tuple(classes()), np.zeros(_IMAGES, np.int32))
    table = piece_table(column, ids, pa.repeat("", _IMAGES), sizes=pa.repeat(pa.scalar(0, pa.int64()), _IMAGES))
    return [Piece(partition, "made from each row's id", "made", table, form="none") for partition in partitions]


NOISE = Source(
    key="noise",
    title="Gaussian noise",
    edition="made by this project",
    licence=Licence(
        name="CC0 1.0",
        url="https://creativecommons.org/publicdomain/zero/1.0/",
        statement="Numbers drawn by a program of this project, which claims no right in them.",
        publish="open",
    ),
    citation="""@article{matsumoto1998mersenne,
  title = {{Mersenne Twister}: A 623-Dimensionally Equidistributed Uniform Pseudo-Random Number Generator},
  author = {Matsumoto, Makoto and Nishimura, Takuji},
  journal = {ACM Transactions on Modeling and Computer Simulation},
  volume = {8},
  number = {1},
  pages = {3--30},
  year = {1998}
}""",
    obtain=None,
    layouts=(f"{_PARTITION}: nothing is needed",),
    classes=classes,
    expected=expected,
    scan=scan,
)
