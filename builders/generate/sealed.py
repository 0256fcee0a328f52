"""Seals generated pixels, so that they can be published without the image that they were generated from.

An attacked ImageNet image shows an image that nobody may publish. What is published instead is its residual against
the prepared original (cropped and resized as the attacked model takes it), encrypted with a key that only somebody
who has the original file can derive. `seal` makes it, `unseal` turns it back into the pixels.

A sealed residual protects what the residual shows of the original from people without the original's file. It does
not hide the size of the image, or how well the residual compresses, which tells how much of the image the attack
could not change further since it was black or white; it is no protection from somebody who has the
file, and it makes nobody's use of ImageNet lawful.

Format, version 2, integers little-endian:

- header: `UDSR`, version, height, width, bytes of the ciphertext, key check (8 bytes), digest (32 bytes);
- ciphertext: AES-256-GCM with its tag; the header is authenticated, too.

The plaintext is (pixels - prepared) mod 256, compressed with zstd. HKDF-SHA256 (RFC 5869) turns the original file's
bytes into the key check, which tells another file, and two secrets. The first keys the digest, an HMAC-SHA256 of the
plaintext, which is compared when a residual is opened; the second and the header give the key of the cipher. So each
key encrypts one plaintext under one header only, also when images are generated again under the same ids, and one
nonce serves all. AES-GCM-SIV (RFC 8452), which is made for that
purpose, would give the same protection, but OpenSSL's takes twenty times as long as its AES-GCM, which makes opening
half as slow again, and not every OpenSSL that `cryptography` is built with has it.

Equal inputs give equal bytes, but another version of zstd may compress to others; what identifies a row is the digest
over its pixels.
"""

from __future__ import annotations

import hmac
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from PIL import Image

from builders.errors import BuildError, one_line
from builders.generate.exact.resize import centre_crop
from builders.release.images import resized_size, rgb_sha256
from builders.release.split_entries import PreparationEntry
from builders.storage.sealed_files import HEADER_BYTES, TAG_BYTES, SealedHeader, read_sealed_header

Pixels = npt.NDArray[np.uint8]

_SALT = b"unknown-detection sealed residual 2"
_CHECK_BYTES, _KEY_BYTES = 8, 32
_NONCE = bytes(12)

_LEVEL = 1
"""zstd's level. A residual of noise has nothing to be matched, so that higher levels cost time and often bytes; the
entropy coder, which all levels share, does the work (`python -m benchmarks.making.sealing`)."""


class Original(NamedTuple):
    """The original of a generated image: id of the generated row, bytes of the file, and its pixels as prepared.

    `prepared` is uint8 of shape (height, width, 3).
    """

    row_id: str
    data: bytes
    prepared: Pixels


_FETCH = "Fetch the release again."
_EDITION = "Give the owner's edition, with its files as they were downloaded."

_FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def prepare_original(image: Image.Image, preparation: PreparationEntry) -> Pixels:
    """Prepare an RGB original: resize its shorter side to `preparation.resize` pixels, and crop the centre.

    The arithmetic is that of torchvision's `Resize` and `CenterCrop` on a Pillow image: the longer side is cut to a
    whole number of pixels, the crop's corner is rounded half to even. A smaller image is enlarged.

    Returns:
        Shape (size, size, 3).

    Raises:
        TooNarrowError: the resized image would not fit into memory.
    """
    resized = image.resize(resized_size(image.size, preparation.resize), _FILTERS[preparation.interpolation])
    return np.asarray(centre_crop(resized, preparation.size))


def seal(pixels: Pixels, original: Original) -> bytes:
    """Seal generated pixels, uint8 of the shape of the prepared original."""
    # Unsigned bytes wrap around, and so does the sum that undoes this: no pixel is lost, whatever the difference.
    plain = _codec().compress(np.ascontiguousarray(pixels - original.prepared), asbytes=True)
    secrets = _Secrets.of(original)
    digest = hmac.digest(secrets.digest_key, plain, "sha256")
    height, width, _ = pixels.shape
    header = SealedHeader(height, width, len(plain) + TAG_BYTES, secrets.check, digest).encode()
    return header + bytes(secrets.cipher(header).encrypt(_NONCE, plain, header))


def unseal(sealed: bytes, original: Original) -> Pixels:
    """Restore the pixels of a sealed residual; shape (height, width, 3).

    Raises:
        BuildError: the residual is of another version, damaged or cut, or was sealed against another file, under
            another id or against other dimensions.
    """
    from cryptography.exceptions import InvalidTag

    name, prepared = one_line(original.row_id), original.prepared
    header = read_sealed_header(sealed, name)
    secrets = _Secrets.of(original)
    if not hmac.compare_digest(header.check, secrets.check):
        raise BuildError(
            f"The file given as the original of {name} is not the one that its residual was sealed with. {_EDITION}"
        )
    start = sealed[:HEADER_BYTES]
    # Nothing is unpacked before this: what the publisher did not write never reaches the decompressor.
    try:
        plain = bytes(secrets.cipher(start).decrypt(_NONCE, memoryview(sealed)[HEADER_BYTES:], start))
        damaged = not hmac.compare_digest(header.digest, hmac.digest(secrets.digest_key, plain, "sha256"))
    except InvalidTag:
        damaged = True
    if damaged:
        raise BuildError(f"The residual of {name} is damaged. {_FETCH}")
    if prepared.shape != (header.height, header.width, 3):
        raise BuildError(
            f"The residual of {name} is of {header.width} x {header.height} pixels, and its original was prepared at "
            f"{prepared.shape[1]} x {prepared.shape[0]}. Use the tools that published it."
        )
    try:
        # In the memory that one image takes; raises also where there are more or fewer bytes.
        residual = np.frombuffer(_codec().decompress(plain, prepared.nbytes), np.uint8)
    except OSError as error:
        raise BuildError(f"The residual of {name} does not unpack to one image ({error}). {_FETCH}") from error
    return residual.reshape(prepared.shape) + prepared


def open_row(sealed: bytes, original: Original, *, prepared_sha256: str, content_sha256: str) -> Pixels:
    """Restore the pixels of a published row, and compare them with its digests (`images.rgb_sha256`).

    `prepared_sha256` is the publisher's digest of the prepared original, `content_sha256` that of the pixels.

    Raises:
        BuildError: as `unseal`, or the pixels are not the published ones.
    """
    pixels, name = unseal(sealed, original), one_line(original.row_id)
    if rgb_sha256(pixels[np.newaxis])[0] == content_sha256:
        return pixels
    digest = rgb_sha256(original.prepared[np.newaxis])[0]
    if digest != prepared_sha256:
        raise BuildError(
            f"The original of {name} has other pixels here than where it was sealed (SHA-256 {digest}, not "
            f"{prepared_sha256}), as another JPEG decoder gives. Use the version of Pillow that the release names."
        )
    raise BuildError(f"The residual of {name} does not give the pixels that its row names. {_FETCH}")


class _Secrets(NamedTuple):
    """Keys derived from an original's bytes: the key check, which is published, and two secrets."""

    check: bytes
    digest_key: bytes
    cipher_secret: bytes

    @classmethod
    def of(cls, original: Original) -> _Secrets:
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        length = _CHECK_BYTES + 2 * _KEY_BYTES
        derived = HKDF(SHA256(), length, _SALT, original.row_id.encode()).derive(original.data)
        keys = derived[_CHECK_BYTES:]
        return cls(derived[:_CHECK_BYTES], keys[:_KEY_BYTES], keys[_KEY_BYTES:])

    def cipher(self, header: bytes) -> Any:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

        return AESGCM(HKDFExpand(SHA256(), _KEY_BYTES, header).derive(self.cipher_secret))


def _codec() -> pa.Codec:
    return pa.Codec("zstd", _LEVEL)
