"""Sealed residuals: what they give back, how they are built, and what is refused."""

import hashlib
import hmac
import struct

import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.making.sealing import entropy, pgd_residual
from builders.errors import BuildError
from builders.generate.sealed import Original, open_row, seal, unseal
from builders.release.images import array_sha256

HEADER = 4 + 1 + 4 + 4 + 4 + 8 + 32


def attacked(side=24, seed=0, name="imagenet/val/ILSVRC2012_val_00000293.JPEG#pgd"):
    """An original, and its pixels after an attack."""
    generator = np.random.default_rng(seed)
    prepared = generator.integers(12, 244, (side, side + 3, 3), dtype=np.uint8)
    residual = generator.integers(-12, 13, prepared.shape)
    return Original(name, generator.bytes(5_000), prepared), (prepared + residual).astype(np.uint8)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_any_pixels_come_back(height, width, seed):
    generator = np.random.default_rng(seed)
    prepared, pixels = generator.integers(0, 256, (2, height, width, 3), dtype=np.uint8)
    original = Original("id", generator.bytes(1 + seed % 300), prepared)
    sealed = seal(pixels, original)
    assert np.array_equal(unseal(sealed, original), pixels)
    assert seal(pixels, original) == sealed


def rfc5869(secret, salt, info, length):
    """HKDF-SHA256, sections 2.2 and 2.3 of the RFC."""
    extracted = hmac.new(salt, secret, hashlib.sha256).digest()
    block = derived = b""
    while len(derived) < length:
        block = hmac.new(extracted, block + info + bytes([len(derived) // 32 + 1]), hashlib.sha256).digest()
        derived += block
    return derived[:length]


def expand(secret, info):
    return hmac.new(secret, info + b"\1", hashlib.sha256).digest()


def test_the_format_is_the_described_one():
    original, pixels = attacked()
    sealed = seal(pixels, original)
    magic, version, height, width, size, check, digest = struct.unpack("<4sBIII8s32s", sealed[:HEADER])
    assert (magic, version, height, width, size) == (b"UDSR", 2, *pixels.shape[:2], len(sealed) - HEADER)
    secrets = rfc5869(original.data, b"unknown-detection sealed residual 2", original.row_id.encode(), 72)
    assert check == secrets[:8]
    key = expand(secrets[40:], sealed[:HEADER])
    plain = AESGCM(key).decrypt(bytes(12), sealed[HEADER:], sealed[:HEADER])
    assert digest == hmac.new(secrets[8:40], plain, hashlib.sha256).digest()
    residual = pa.decompress(plain, pixels.size, codec="zstd", asbytes=True)
    assert residual == (pixels.astype(int) - original.prepared).astype(np.int8).tobytes()


def test_another_image_under_the_same_id_has_another_key():
    original, pixels = attacked()
    first = seal(pixels, original)
    flipped = seal(np.flip(pixels, 1), original)
    # The key follows from the digest in the header, after check and sizes.
    assert first[HEADER - 40 : HEADER - 32] == flipped[HEADER - 40 : HEADER - 32]
    assert first[HEADER - 32 : HEADER] != flipped[HEADER - 32 : HEADER]
    renamed = seal(pixels, original._replace(row_id="another id"))
    assert renamed[HEADER - 40 : HEADER] != first[HEADER - 40 : HEADER]


def test_a_residual_as_of_pgd_takes_less_than_six_tenths_of_its_bytes():
    generator = np.random.default_rng(0)
    residual = pgd_residual(generator, 224)
    prepared = generator.integers(12, 244, residual.shape, dtype=np.uint8)
    pixels = (prepared + residual).astype(np.uint8)
    share = len(seal(pixels, Original("id", b"file", prepared))) / pixels.size
    # No code of single values is shorter than their entropy.
    assert 0.54 < entropy(residual) < share < 0.6


def refused(sealed, original):
    with pytest.raises(BuildError) as caught:
        unseal(sealed, original)
    message = str(caught.value)
    assert original.row_id in message
    assert message.count(". ") == 1  # what is wrong, and the next step
    return message


def test_another_original_and_another_row_are_refused():
    original, pixels = attacked()
    sealed = seal(pixels, original)
    for other in (original._replace(data=original.data[:-1]), original._replace(row_id="imagenet/val/x#pgd")):
        assert "is not the one that its residual was sealed with" in refused(sealed, other)


def test_damage_is_refused_wherever_it_is():
    original, pixels = attacked(side=8)
    sealed = seal(pixels, original)
    for place in range(len(sealed)):
        damaged = bytearray(sealed)
        damaged[place] ^= 1
        refused(bytes(damaged), original)
    for size in (0, 3, HEADER - 1, HEADER, len(sealed) - 1):
        refused(sealed[:size], original)
    assert f"it has {len(sealed) + 1:,} bytes, not {len(sealed):,}" in refused(sealed + b"x", original)
    assert "is damaged" in refused(sealed[:-1] + bytes([sealed[-1] ^ 1]), original)


def sealed_by(original, plain, shape, *, info=None, digest_of=None):
    """Seal any plaintext, with the right keys unless told otherwise, as only somebody with the original could."""
    secrets = rfc5869(original.data, b"unknown-detection sealed residual 2", original.row_id.encode(), 72)
    digest = hmac.new(secrets[8:40], plain if digest_of is None else digest_of, hashlib.sha256).digest()
    header = struct.pack("<4sBIII8s32s", b"UDSR", 2, *shape[:2], len(plain) + 16, secrets[:8], digest)
    key = expand(secrets[40:], info(header) if info else header)
    return header + AESGCM(key).encrypt(bytes(12), plain, header)


def test_the_digest_in_the_header_is_that_of_what_is_sealed():
    original, pixels = attacked(side=8)
    plain = pa.compress(bytes(pixels.size), codec="zstd", asbytes=True)
    assert np.array_equal(unseal(sealed_by(original, plain, pixels.shape), original), original.prepared)
    assert "is damaged" in refused(sealed_by(original, plain, pixels.shape, digest_of=plain + b"x"), original)


@pytest.mark.parametrize("field", [slice(0, 4), slice(4, 5), slice(5, 9), slice(9, 13), slice(13, 17), slice(17, 25)])
def test_the_key_follows_from_every_field_of_the_header(field):
    original, pixels = attacked(side=8)
    plain = pa.compress(bytes(pixels.size), codec="zstd", asbytes=True)

    def other(header):
        changed = bytearray(header)
        changed[field.start] ^= 1
        return bytes(changed)

    assert "is damaged" in refused(sealed_by(original, plain, pixels.shape, info=other), original)
    only_digest = sealed_by(original, plain, pixels.shape, info=lambda header: header[-32:])
    assert "is damaged" in refused(only_digest, original)


def test_the_length_tells_how_much_of_the_image_is_black_or_white():
    residual = pgd_residual(np.random.default_rng(0), 64)
    lengths = []
    for black in (0, 32, 64):  # rows that no attack makes darker
        prepared = np.full(residual.shape, 128, np.uint8)
        prepared[:black] = 0
        pixels = np.clip(prepared + residual.astype(int), 0, 255).astype(np.uint8)
        lengths.append(len(seal(pixels, Original("id", b"file", prepared))))
    assert lengths[0] > 1.1 * lengths[1] > 1.1 * 1.1 * lengths[2]


def test_what_unpacks_to_more_or_less_than_an_image_is_refused():
    original, pixels = attacked(side=8)
    good = pa.compress(bytes(pixels.size), codec="zstd", asbytes=True)
    bomb = pa.compress(bytes(1 << 28), codec="zstd", asbytes=True)  # 256 MB in 8 kB
    for plain in (bomb, pa.compress(bytes(pixels.size - 1), codec="zstd", asbytes=True), b"", b"no zstd", good * 2):
        assert "does not unpack to one image" in refused(sealed_by(original, plain, pixels.shape), original)


def test_other_dimensions_are_named():
    original, pixels = attacked()
    sealed = seal(pixels, original)
    larger = np.zeros((30, 40, 3), np.uint8)
    assert "of 27 x 24 pixels, and its original was prepared at 40 x 30" in refused(
        sealed, original._replace(prepared=larger)
    )


def test_another_decoder_is_told_from_a_wrong_row():
    original, pixels = attacked()
    sealed = seal(pixels, original)
    prepared, content = (array_sha256(image[None])[0] for image in (original.prepared, pixels))
    digests = {"prepared_sha256": prepared, "content_sha256": content}
    assert np.array_equal(open_row(sealed, original, **digests), pixels)
    # A decoder that differs by one in one sample.
    decoded = original.prepared.copy()
    decoded[0, 0, 0] += 1
    other = original._replace(prepared=decoded)
    with pytest.raises(BuildError, match=r"other pixels here than where it was sealed \(SHA-256 .* Pillow") as caught:
        open_row(sealed, other, **digests)
    assert prepared in str(caught.value)
    with pytest.raises(BuildError, match="does not give the pixels that its row names"):
        open_row(sealed, original, **{**digests, "content_sha256": "0" * 64})
