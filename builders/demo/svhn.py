"""The demo's SVHN with cropped digits: MATLAB files.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from builders.demo.arrays import draw_digits
from builders.demo.base import DemoContainers
from builders.demo.images import digest, ranked

_PER_CLASS = (10, 20)


def _write(folder: Path, seed: int) -> None:
    """Write `train_32x32.mat` and `test_32x32.mat`, where label 10 is the digit 0."""
    import scipy.io  # slow to import, and only a demo needs it

    for partition, count in zip(("train", "test"), _PER_CLASS, strict=True):
        digits = [int(item[0]) for item in ranked([f"{i % 10} {i}" for i in range(10 * count)], f"svhn {partition}")]
        images = draw_digits([digest(seed, "svhn", partition, position) for position in range(len(digits))], digits)
        labels = np.array([digit or 10 for digit in digits], dtype=np.uint8)
        variables = {"X": np.moveaxis(images, 0, 3), "y": labels[:, None]}
        scipy.io.savemat(folder / f"{partition}_32x32.mat", variables, do_compression=True)


DEMO = DemoContainers(_PER_CLASS, _write)
