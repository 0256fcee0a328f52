"""The demos of sources that keep many images in a file: SVHN's MATLAB files and LSUN's database, and all such by key.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from builders.demo import cifar100, partial_broad
from builders.demo.arrays import draw_digits
from builders.demo.base import DemoContainers
from builders.demo.images import digest, draw_image, encode_image, encode_jpeg, ranked

LSUN_TROUBLES = {"7x5": 0, "grayscale": 1, "jpeg": 2}
"""Places, in key order, of LSUN images that differ: small, without colour (WebP has no such mode, so of three equal
channels), and a JPEG among the WebP images, which the owner's README says all are."""

_ENCODERS: Mapping[str, Callable[[Image.Image], bytes]] = {
    "webp": lambda image: encode_image(image, "WEBP", quality=75),
    "7x5": lambda image: encode_image(image.resize((7, 5)), "WEBP", quality=75),
    "grayscale": lambda image: encode_image(image.convert("L"), "WEBP", quality=75),
    "jpeg": encode_jpeg,
}


def _write_svhn(folder: Path, seed: int) -> None:
    """Write `train_32x32.mat` and `test_32x32.mat`, where label 10 is the digit 0."""
    import scipy.io  # slow to import, and only a demo needs it

    for partition, count in (("train", 10), ("test", 20)):
        digits = [int(item[0]) for item in ranked([f"{i % 10} {i}" for i in range(10 * count)], f"svhn {partition}")]
        images = draw_digits([digest(seed, "svhn", partition, position) for position in range(len(digits))], digits)
        labels = np.array([digit or 10 for digit in digits], dtype=np.uint8)
        variables = {"X": np.moveaxis(images, 0, 3), "y": labels[:, None]}
        scipy.io.savemat(folder / f"{partition}_32x32.mat", variables, do_compression=True)


def _write_lsun(folder: Path, seed: int) -> None:
    """Write `test_lmdb/`, without the lock file, which would name this process."""
    import lmdb  # only a demo needs it

    database = folder / "test_lmdb"
    database.mkdir(exist_ok=True)
    (database / "data.mdb").unlink(missing_ok=True)  # of a demo that is written again
    keys = sorted(digest("lsun", number).hex()[:40] for number in range(120))
    troubles = {number: kind for kind, number in LSUN_TROUBLES.items()}
    with (
        lmdb.open(str(database), map_size=1 << 28, lock=False, sync=False) as environment,
        environment.begin(write=True) as transaction,
    ):
        for number, key in enumerate(keys):
            of_image = digest(seed, "lsun", key)
            encode = _ENCODERS[troubles.get(number, "webp")]
            transaction.put(key.encode(), encode(draw_image(of_image[::-1], of_image)))


CONTAINERS: Mapping[str, DemoContainers] = {
    # The stray is what an editor left in the real archive.
    "cifar100": DemoContainers(cifar100.write, strays=("cifar-100-python/file.txt~",)),
    "svhn": DemoContainers(_write_svhn),
    "lsun": DemoContainers(_write_lsun),
    "partial_broad": DemoContainers(partial_broad.write),
}
"""The demo of each such source by its key."""
