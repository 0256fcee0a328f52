import io
import struct

import datasets
import numpy as np
import pytest
from PIL import Image

from builders import images
from builders.demo_files import TROUBLES


def jpeg(size=(40, 30), seed=0, **options):
    pixels = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    encoded = io.BytesIO()
    Image.fromarray(pixels).save(encoded, "JPEG", **options)
    return encoded.getvalue()


def broken_exif():
    """Orientation 6 beside a whole-number tag (ResolutionUnit) stored as text: turning it raises struct.error."""
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x0128] = 2
    block = bytearray(exif.tobytes())
    # In the tag's entry the type SHORT (3) becomes ASCII (2).
    at = block.index(bytes.fromhex("01280003")) if b"MM" in block else block.index(bytes.fromhex("28010300"))
    block[at + 2 : at + 4] = b"\x00\x02" if b"MM" in block else b"\x02\x00"
    return jpeg(exif=bytes(block))


def decode_with_datasets(data):
    return datasets.Image().decode_example({"bytes": data, "path": None})


def test_a_whole_jpeg_is_kept_as_it_is():
    assert images.check(jpeg()) is None


@pytest.mark.parametrize("kept", [1000, 300])
def test_a_cut_jpeg_is_unreadable(kept):
    with pytest.raises(images.UnreadableImageError, match=r"(?i)truncated"):
        images.check(jpeg()[:kept])


def test_a_jpeg_with_bytes_after_its_end_is_decoded_and_kept():
    assert images.check(jpeg() + b"\0\0\0") is None


@pytest.mark.parametrize("data", [b"", b"not an image at all", b"<html>404</html>"])
def test_other_bytes_are_unreadable(data):
    with pytest.raises(images.UnreadableImageError):
        images.check(data)


def test_damage_between_start_and_end_is_only_seen_by_decoding():
    whole = jpeg()
    # A Huffman table (marker FFC4) with 255 codes of every length cannot be.
    table = whole.index(b"\xff\xc4") + 5
    damaged = whole[:table] + b"\xff" * 16 + whole[table + 16 :]
    assert images.check(damaged) is None
    with pytest.raises(images.UnreadableImageError):
        images.check(damaged, decode=True)


def test_the_broken_exif_block_here_does_end_a_stream():
    with pytest.raises(struct.error, match="integer"):
        decode_with_datasets(broken_exif())


def test_a_broken_exif_block_is_removed_and_nothing_else():
    data = broken_exif()
    mended = images.check(data)
    start, stop = images.metadata_segment(data)
    assert mended == data[:start] + data[stop:]
    assert images.metadata_segment(mended) is None
    assert np.array_equal(np.asarray(decode_with_datasets(mended)), np.asarray(Image.open(io.BytesIO(data))))


def test_a_sound_exif_block_stays():
    exif = Image.Exif()
    exif[0x0112] = 6
    assert images.check(jpeg(exif=exif.tobytes())) is None


def test_planted_troubles_decode_as_datasets_decodes_them(demo):
    for trouble in TROUBLES:
        data = (demo[trouble.source] / trouble.path).read_bytes()
        stored = images.check(data) or data
        ours, theirs = images.decode(stored), decode_with_datasets(stored)
        assert ours.size == theirs.size, trouble
        assert np.array_equal(np.asarray(ours), np.asarray(theirs)), trouble


def test_pixel_digest_ignores_the_encoder_and_sees_every_pixel():
    image = Image.effect_noise((20, 10), 30)
    stored = []
    for level in (1, 9):
        encoded = io.BytesIO()
        image.save(encoded, "PNG", compress_level=level)
        stored.append(encoded.getvalue())
    assert stored[0] != stored[1]
    assert images.content_sha256("pixels", stored[0]) == images.content_sha256("pixels", stored[1])
    image.putpixel((3, 3), (image.getpixel((3, 3)) + 1) % 256)
    assert images.pixel_sha256(image) != images.content_sha256("pixels", stored[0])


def test_pixel_digest_tells_shapes_and_modes_with_equal_bytes_apart():
    flat = [Image.new("L", (6, 2)), Image.new("L", (2, 6)), Image.new("P", (6, 2)), Image.new("RGB", (2, 2))]
    assert len({images.pixel_sha256(image) for image in flat}) == 4
