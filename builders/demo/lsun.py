"""The demo's LSUN: the database of the test set.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from PIL import Image

from builders.demo.base import DemoContainers
from builders.demo.images import digest, draw_image, encode_image, encode_jpeg

_PER_CLASS = (0, 120)

TROUBLES = {"7x5": 0, "grayscale": 1, "jpeg": 2}
"""Places, in key order, of LSUN images that differ: small, without colour (WebP has no such mode, so of three equal
channels), and a JPEG among the WebP images, which the owner's README says all are."""

_ENCODERS: Mapping[str, Callable[[Image.Image], bytes]] = {
    "webp": lambda image: encode_image(image, "WEBP", quality=75),
    "7x5": lambda image: encode_image(image.resize((7, 5)), "WEBP", quality=75),
    "grayscale": lambda image: encode_image(image.convert("L"), "WEBP", quality=75),
    "jpeg": encode_jpeg,
}


def _write(folder: Path, seed: int) -> None:
    """Write `test_lmdb/`, without the lock file, which would name this process."""
    import lmdb  # only a demo and one source need it

    database = folder / "test_lmdb"
    database.mkdir(exist_ok=True)
    (database / "data.mdb").unlink(missing_ok=True)  # of a demo that is written again
    keys = sorted(digest("lsun", number).hex()[:40] for number in range(_PER_CLASS[1]))
    troubles = {number: kind for kind, number in TROUBLES.items()}
    with (
        lmdb.open(str(database), map_size=1 << 28, lock=False, sync=False) as environment,
        environment.begin(write=True) as transaction,
    ):
        for number, key in enumerate(keys):
            of_image = digest(seed, "lsun", key)
            encode = _ENCODERS[troubles.get(number, "webp")]
            transaction.put(key.encode(), encode(draw_image(of_image[::-1], of_image)))


DEMO = DemoContainers(_PER_CLASS, _write)
