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

Tested by `tests/builders/generate/test_sealed.py` and `test_sealed_release.py`.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from PIL import Image

from builders.errors import BuildError, one_line
from builders.executors.base import ONE_CORE
from builders.generate.contract import EachImage, Generated, Generator, SourceImage, Weights
from builders.generate.exact.resize import centre_crop, resized
from builders.release.entries import GeneratorEntry, PreparationEntry
from builders.release.images import (
    TooNarrowError,
    UnreadableImageError,
    array_sha256,
    decode_or_mend,
    resized_size,
)
from builders.release.schema import PREPARED_SHA256
from builders.storage.sealed_files import HEADER_BYTES, TAG_BYTES, SealedHeader, read_sealed_header

Pixels = npt.NDArray[np.uint8]

_SALT = b"unknown-detection sealed residual 2"
_CHECK_BYTES, _KEY_BYTES = 8, 32
_NONCE = bytes(12)

_LEVEL = 1
"""zstd's level. A residual of noise has nothing to be matched, so that higher levels cost time and often bytes; the
entropy coder, which all levels share, does the work (`python -m benchmarks.making.sealing`)."""


CONTENT = "content_sha256"
"""The value of a companion, besides those of the generator's columns, that an opened image is compared with."""


class Original(NamedTuple):
    """The original of a generated image: the generated row's id, the original file's bytes, and its prepared pixels.

    `prepared` is uint8 of shape (height, width, 3).
    """

    row_id: str
    data: bytes
    prepared: Pixels


_FETCH = "Fetch the release again."
_EDITION = "Give the owner's edition, with its files as they were downloaded."

_FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def prepare_original(image: Image.Image, preparation: PreparationEntry) -> Pixels:
    """Prepare an RGB original: resize its shorter side to `preparation.resize` pixels, then crop the centre.

    The arithmetic is that of torchvision's `Resize` and `CenterCrop` on a Pillow image: the longer side is cut to a
    whole number of pixels, the crop's corner is rounded half to even. Columns are resized before rows, as by Pillow
    before version 13: one that chose another order could not open what others sealed. A smaller image is enlarged;
    `TooNarrowError` if it would not fit into memory. Shape (size, size, 3).
    """
    size = resized_size(image.size, preparation.resize)
    return np.asarray(centre_crop(resized(image, size, _FILTERS[preparation.interpolation]), preparation.size))


def seal(pixels: Pixels, original: Original) -> bytes:
    """Seal generated pixels, uint8 of the prepared original's shape; returns the residual."""
    # Unsigned bytes wrap around, and so does the sum that undoes this: no pixel is lost, whatever the difference.
    plain = _codec().compress(np.ascontiguousarray(pixels - original.prepared), asbytes=True)
    check, digest_key, cipher_secret = _keys(original)
    digest = hmac.digest(digest_key, plain, "sha256")
    height, width, _ = pixels.shape
    header = SealedHeader(height, width, len(plain) + TAG_BYTES, check, digest).encode()
    return header + bytes(_cipher(cipher_secret, header).encrypt(_NONCE, plain, header))


def unseal(sealed: bytes, original: Original) -> Pixels:
    """Restore the pixels of a sealed residual; shape (height, width, 3).

    Raises:
        BuildError: the residual is of another version, damaged or cut, or was sealed against another file, under
            another id or against other dimensions.
    """
    from cryptography.exceptions import InvalidTag

    name, prepared = one_line(original.row_id), original.prepared
    header = read_sealed_header(sealed, name)
    check, digest_key, cipher_secret = _keys(original)
    if not hmac.compare_digest(header.check, check):
        raise BuildError(
            f"The file given as the original of {name} is not the one that its residual was sealed with. {_EDITION}"
        )
    start = sealed[:HEADER_BYTES]
    # Nothing is unpacked before this: what the publisher did not write never reaches the decompressor.
    try:
        plain = bytes(_cipher(cipher_secret, start).decrypt(_NONCE, memoryview(sealed)[HEADER_BYTES:], start))
        damaged = not hmac.compare_digest(header.digest, hmac.digest(digest_key, plain, "sha256"))
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
    """Restore the pixels of a published row, and check them against its digests (`images.array_sha256`).

    `prepared_sha256` is the publisher's digest of the prepared original, `content_sha256` that of the pixels.
    """
    pixels, name = unseal(sealed, original), one_line(original.row_id)
    if array_sha256(pixels[np.newaxis])[0] == content_sha256:
        return pixels
    digest = array_sha256(original.prepared[np.newaxis])[0]
    if digest != prepared_sha256:
        raise BuildError(
            f"The original of {name} has other pixels here than where it was sealed (SHA-256 {digest}, not "
            f"{prepared_sha256}), as another JPEG decoder gives. Use the version of Pillow that its manifest names."
        )
    raise BuildError(f"The residual of {name} does not give the pixels that its row names. {_FETCH}")


def residual_opener(declared: Generator, published: GeneratorEntry) -> Generator:
    """Return a generator that opens a split's published sealed residuals instead of generating its images.

    It needs no more than the core install, and has the name, parameters and weights of the publisher's generator
    (`published`), because its images are those; all else is that of the generator of such images here (`declared`).
    It takes the sealed residuals and the rows' values as companions. `BuildError` if the publisher's generator has a
    name that none can have.
    """
    if published.sealed is None:
        raise AssertionError(f"{published.name} has no sealed residuals")
    side = published.sealed.size
    try:
        return replace(
            declared,
            name=published.name,
            version=published.version,
            size=(side, side),
            start=EachImage(_Opener(published.sealed)),
            parameters=published.parameters,
            resources=ONE_CORE,
            weights=tuple(Weights(name, sha256) for name, sha256 in published.weights.items()),
            reproducible=published.reproducible,
            together=1,
            companions=True,
            prepared=side,
            sealed=None,
            requires=(),
            needs="",
        )
    except ValueError as error:
        raise BuildError(
            f"The release names a generator that cannot be one: {one_line(error)} Fetch it again."
        ) from error


@dataclass(frozen=True)
class _Opener:
    """Opens the sealed residual that accompanies an original's file, with the values of the published row."""

    preparation: PreparationEntry

    def __call__(self, image: SourceImage) -> Generated:
        if image.companion is None:
            raise ValueError(f"{image.id} has no sealed residual")
        try:
            decoded, _ = decode_or_mend(image.data)
            prepared = prepare_original(replace(image, image=decoded).rgb, self.preparation)
        except (UnreadableImageError, TooNarrowError) as error:
            raise BuildError(
                f"The file given as the original of {one_line(image.id)} cannot be prepared ({error}). {_EDITION}"
            ) from error
        original = Original(image.id, image.data, prepared)
        values = dict(image.companion.values)
        digests = {CONTENT: str(values.pop(CONTENT)), PREPARED_SHA256.name: str(values[PREPARED_SHA256.name])}
        return Generated(open_row(image.companion.data, original, **digests), values)


def _keys(original: Original) -> tuple[bytes, bytes, bytes]:
    """Derive the key check, which is published, the key of the digest and the secret of the cipher."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    length = _CHECK_BYTES + 2 * _KEY_BYTES
    derived = HKDF(SHA256(), length, _SALT, original.row_id.encode()).derive(original.data)
    return derived[:_CHECK_BYTES], derived[_CHECK_BYTES:-_KEY_BYTES], derived[-_KEY_BYTES:]


def _cipher(secret: bytes, header: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

    return AESGCM(HKDFExpand(SHA256(), _KEY_BYTES, header).derive(secret))


def _codec() -> pa.Codec:
    return pa.Codec("zstd", _LEVEL)
