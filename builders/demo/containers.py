"""The demos of sources with many images in a file: SVHN's MATLAB files, LSUN's database, PartialBROAD's ciphers.

The originals of the ciphers are validation images of the demo's ImageNet.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

import functools
import gzip
import io
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from builders.demo import cifar10, cifar100
from builders.demo.arrays import draw_digits
from builders.demo.duplicates import DUPLICATES
from builders.demo.files import FILES
from builders.demo.images import DemoSource, Drawing, digest, draw_image, encode_image, encode_jpeg
from builders.storage.file_cipher import deciphered, file_hash
from taxonomy import tables

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
        numbered = [f"{i % 10} {i}" for i in range(10 * count)]
        digits = [int(item[0]) for item in sorted(numbered, key=functools.partial(digest, f"svhn {partition}"))]
        images = draw_digits([digest(seed, "svhn", partition, position) for position in range(len(digits))], digits)
        labels = np.array([digit or 10 for digit in digits], dtype=np.uint8)
        variables = {"X": np.moveaxis(images, 0, 3), "y": labels[:, None]}
        scipy.io.savemat(folder / f"{partition}_32x32.mat", variables, do_compression=True)


def _write_mnist(folder: Path, seed: int) -> None:
    """Write the owners' four files, packed: digits of 28 x 28 grey pixels."""
    for partition, name, count in (("train", "train", 8), ("test", "t10k", 12)):
        numbered = [f"{i % 10} {i}" for i in range(10 * count)]
        digits = [int(item[0]) for item in sorted(numbered, key=functools.partial(digest, f"mnist {partition}"))]
        drawn = draw_digits([digest(seed, "mnist", partition, place) for place in range(len(digits))], digits)
        pixels = drawn[:, 2:30, 2:30].astype(np.int64).sum(axis=3) // 3
        arrays = {"images-idx3": pixels.astype(np.uint8), "labels-idx1": np.array(digits, np.uint8)}
        for kind, array in arrays.items():
            head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
            packed = gzip.compress(head + array.tobytes(), 0, mtime=0)
            (folder / f"{name}-{kind}-ubyte.gz").write_bytes(packed)


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


_IMAGENET = FILES["imagenet"]

ORIGINALS = 10
"""Ciphers of each attack, all of the same originals; the first six are the troubled ones of the demo's ImageNet."""

_SIDES = {
    "adversarial_pgd_resnet": 224,
    "adversarial_autoattack_resnet": 224,
    "adversarial_pgd_vit": 384,
    "adversarial_autoattack_vit": 384,
}
_SYNTHETIC = ("synthetic_gan", "synthetic_diffusion")

_WITHOUT_HASH = ("adversarial_pgd_resnet", ORIGINALS - 1)
"""The cipher whose hash is left out, by partition and number."""

_SCHEMA = pa.schema(
    [
        ("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
        ("label", pa.int64()),
        ("original_filename", pa.string()),
        ("original_hash", pa.string()),
    ]
)


def originals() -> list[Drawing]:
    """Return those of the demo's ImageNet images for which there are ciphers."""
    replaced = {copy.path for copy in DUPLICATES if copy.source == "imagenet"}
    images = (image for image in _IMAGENET.images() if image.path.startswith("val/") and image.path not in replaced)
    return sorted(images, key=lambda image: image.source_id)[:ORIGINALS]


def attacked(partition: str, original: Drawing, seed: int) -> Image.Image:
    """Return the image that a cipher hides: its original at the model's size, changed by up to 12 steps."""
    side = _SIDES[partition]
    content = _IMAGENET.encoded("imagenet", original, seed)
    with Image.open(io.BytesIO(content)) as image:
        prepared = np.asarray(image.convert("RGB").resize((side, side))).astype(np.int16)
    key = int.from_bytes(digest(seed, partition, original.source_id)[:8], "big")
    changed = prepared + np.random.default_rng(key).integers(-12, 13, prepared.shape)
    return Image.fromarray(np.clip(changed, 0, 255).astype(np.uint8))


def _ciphers(partition: str, seed: int) -> Iterator[dict[str, Any]]:
    labels = {row.wnid: number for number, row in enumerate(tables.imagenet1k())}
    for number, original in enumerate(originals()):
        key = _IMAGENET.encoded("imagenet", original, seed)
        cipher = deciphered(np.asarray(attacked(partition, original, seed)), key)
        yield {
            "image": {"bytes": encode_image(Image.fromarray(cipher), "PNG", compress_level=0)},
            "label": labels[original.class_id],
            "original_filename": f"{Path(original.path).stem}_{original.class_id}.JPEG",
            "original_hash": "none" if (partition, number) == _WITHOUT_HASH else file_hash(key),
        }


def _synthetic(partition: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield one image of each class."""
    for label, row in enumerate(tables.imagenet1k()):
        image = draw_image(digest(seed, partition, row.wnid), digest(seed, partition, "image", row.wnid))
        content = {"bytes": encode_jpeg(image)}
        yield {"image": content, "label": label, "original_filename": "none", "original_hash": "none"}


def _write_partial_broad(folder: Path, seed: int) -> None:
    """Write `data/`, a file for each partition."""
    (folder / "data").mkdir(exist_ok=True)
    for partition in (*_SIDES, *_SYNTHETIC):
        rows = (_ciphers if partition in _SIDES else _synthetic)(partition, seed)
        table = pa.Table.from_pylist(list(rows), _SCHEMA)
        pq.write_table(table, folder / "data" / f"{partition}-00000-of-00001.parquet", row_group_size=100)


CONTAINERS: Mapping[str, DemoSource] = {
    # The stray is what an editor left in the real archive.
    "cifar100": DemoSource(write=cifar100.write, strays=("cifar-100-python/file.txt~",)),
    "cifar10": DemoSource(write=cifar10.write, strays=("cifar-10-batches-py/readme.html",)),
    "svhn": DemoSource(write=_write_svhn),
    "mnist": DemoSource(write=_write_mnist),
    "lsun": DemoSource(write=_write_lsun),
    "partial_broad": DemoSource(write=_write_partial_broad),
}
"""The demo of each such source by its key."""
