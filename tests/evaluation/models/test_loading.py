"""Images that are no images: the row is named, whatever Pillow raises."""

import hashlib
import io
import struct
import warnings
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image as Pillow

pytest.importorskip("torch", reason="loads batches with torch")

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.images import SplitImages
from unknown_detection.evaluation.models.preprocessing import Preprocessing, load_batches


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png_of_size(width, height):
    """A PNG that claims a size, and has pixels for a few rows."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(1000)))
        + chunk(b"IEND", b"")
    )


def small():
    buffer = io.BytesIO()
    Pillow.new("RGB", (8, 8)).save(buffer, "JPEG", exif=Pillow.Exif())
    return buffer.getvalue()


@pytest.fixture
def load(tmp_path):
    """Loads the only image of a shard, of which the digest is right."""

    def batches(data):
        import torch

        path, digest = tmp_path / "shard.parquet", hashlib.sha256(data).hexdigest()
        pq.write_table(pa.table({"image": [{"bytes": data, "path": "b.png"}]}), path)
        rows = pa.table({"id": ["a/b.png"], "stored": ["source"], "content_sha256": [digest]})
        to_tensor = Preprocessing(lambda image: torch.from_numpy(np.array(image, np.float32)), {}, (8, 8))
        images = SplitImages(rows, [path], "bench/test", "a release")
        return list(load_batches(images, to_tensor, [[0]], batch_size=1, workers=0))

    return batches


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (png_of_size(50_000, 50_000), "exceeds limit"),  # Pillow's error
        (png_of_size(10_001, 10_000), "more than any image of a source"),  # Pillow warns
        (png_of_size(0, 5), ""),
        (small()[:200], ""),
        (b"", ""),
        (b"GIF89a", ""),
        (small().replace(b"\xff\xc0\x00\x11", b"\xff\xc0\x00\x01"), ""),
    ],
    ids=["50,000 x 50,000", "10,001 x 10,000", "0 x 5", "cut", "empty", "GIF", "short header"],
)
def test_an_image_that_cannot_be_decoded_is_named(load, data, words):
    with pytest.raises(
        EvaluationError,
        match=rf"^The image of row a/b.png of bench/test in a release cannot be decoded: .*{words}.*\. Run",
    ):
        load(data)


@pytest.mark.parametrize(("kind", "form", "mode"), [("u2", "PNG", "I;16"), ("f4", "TIFF", "F")])
def test_an_image_of_more_than_8_bits_is_named(load, kind, form, mode):
    encoded = io.BytesIO()
    Pillow.fromarray(np.full((8, 8), 30_000, kind)).save(encoded, form)
    sentence = (
        rf"^The image of row a/b.png of .* cannot be decoded: it has values of more than 8 bits, mode {mode}; save"
    )
    with pytest.raises(EvaluationError, match=sentence):
        load(encoded.getvalue())


def test_images_of_photographs_size_are_read(load):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ((numbers, images),) = load(small())
    assert list(numbers) == [0] and images.shape == (1, 8, 8, 3)
