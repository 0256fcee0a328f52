"""The demo's PartialBROAD: ciphers whose originals are validation images of the demo's ImageNet, and drawn images.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from builders.demo.base import Drawing
from builders.demo.duplicates import DUPLICATES
from builders.demo.files import FILES
from builders.demo.images import digest, draw_image, encode_image, encode_jpeg
from builders.storage.file_cipher import deciphered, file_hash
from taxonomy import tables

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

Row = tuple[bytes, int, str, str]


def originals() -> list[Drawing]:
    """Return the demo's ImageNet images that the ciphers are of."""
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


def _ciphers(partition: str, seed: int) -> Iterator[Row]:
    labels = {row.wnid: number for number, row in enumerate(tables.imagenet1k())}
    for number, original in enumerate(originals()):
        key = _IMAGENET.encoded("imagenet", original, seed)
        cipher = deciphered(np.asarray(attacked(partition, original, seed)), key)
        stem = Path(original.path).stem
        digest_text = "none" if (partition, number) == _WITHOUT_HASH else file_hash(key)
        content = encode_image(Image.fromarray(cipher), "PNG", compress_level=0)
        yield content, labels[original.class_id], f"{stem}_{original.class_id}.JPEG", digest_text


def _synthetic(partition: str, seed: int) -> Iterator[Row]:
    """Yield one image of each class."""
    for label, row in enumerate(tables.imagenet1k()):
        image = draw_image(digest(seed, partition, row.wnid), digest(seed, partition, "image", row.wnid))
        yield encode_jpeg(image), label, "none", "none"


def write(folder: Path, seed: int) -> None:
    """Write `data/`, a file for each partition."""
    (folder / "data").mkdir(exist_ok=True)
    for partition in _SIDES:
        _write_file(folder, partition, list(_ciphers(partition, seed)))
    for partition in _SYNTHETIC:
        _write_file(folder, partition, list(_synthetic(partition, seed)))


def _write_file(folder: Path, partition: str, rows: Sequence[Row]) -> None:
    columns = [
        [{"bytes": content, "path": None} for content, *_ in rows],
        [label for _, label, *_ in rows],
        [name for *_, name, _ in rows],
        [digest_text for *_, digest_text in rows],
    ]
    table = pa.table(dict(zip(_SCHEMA.names, columns, strict=True)), schema=_SCHEMA)
    pq.write_table(table, folder / "data" / f"{partition}-00000-of-00001.parquet", row_group_size=100)
