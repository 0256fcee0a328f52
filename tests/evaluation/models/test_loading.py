"""Images that are no images: the row is named, whatever Pillow raises."""

import io
import struct
import warnings
import zlib

import numpy as np
import pytest
from datasets import Dataset, Features, Image, Value
from PIL import Image as Pillow

pytest.importorskip("torch", reason="loads batches with torch")

from unknown_detection.evaluation.errors import EvaluationError
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


def load(data):
    import torch

    features = Features({"id": Value("string"), "image": Image()})
    rows = Dataset.from_dict({"id": ["a/b.png"], "image": [{"bytes": data, "path": None}]}, features=features)
    to_tensor = Preprocessing(lambda image: torch.from_numpy(np.array(image, np.float32)), {}, (8, 8))
    return list(load_batches(rows, to_tensor, [[0]], batch_size=1, workers=0))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (png_of_size(50_000, 50_000), "exceeds limit"),  # Pillow's error
        (png_of_size(10_000, 10_000), "exceeds limit"),  # Pillow's warning
        (png_of_size(0, 5), ""),
        (small()[:200], ""),
        (b"", ""),
        (b"GIF89a", ""),
        (small().replace(b"\xff\xc0\x00\x11", b"\xff\xc0\x00\x01"), ""),
    ],
    ids=["50,000 x 50,000", "10,000 x 10,000", "0 x 5", "cut", "empty", "GIF", "short header"],
)
def test_an_image_that_cannot_be_decoded_is_named(data, words):
    with pytest.raises(EvaluationError, match=rf"^The image of row a/b.png cannot be decoded: .*{words}.*\. Check"):
        load(data)


@pytest.mark.parametrize(("kind", "form", "mode"), [("u2", "PNG", "I;16"), ("f4", "TIFF", "F")])
def test_an_image_of_more_than_8_bits_is_named(kind, form, mode):
    encoded = io.BytesIO()
    Pillow.fromarray(np.full((8, 8), 30_000, kind)).save(encoded, form)
    sentence = rf"^The image of row a/b.png cannot be used: it has values of more than 8 bits \(mode {mode}\)"
    with pytest.raises(EvaluationError, match=sentence):
        load(encoded.getvalue())


def test_images_of_photographs_size_are_read():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ((numbers, images),) = load(small())
    assert list(numbers) == [0] and images.shape == (1, 8, 8, 3)
