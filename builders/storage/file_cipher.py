"""The cipher of PartialBROAD, with which the authors of BROAD publish their adversarial ImageNet images.

An image's samples are combined by exclusive or with a key stream that is computed from its original file: SHA-512 over
the whole file, and then for every 32 bytes of key stream the next 131 bytes of the file, from its start and going
round at its end, after which the first 32 bytes of the digest so far are used. The first 64 hex digits of the digest
over the file alone are published with each image, to check the file. (ServiceNow/broad, `broad/utils/crypt.py`.)
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

_HASHED, _USED = 131, 32
"""Bytes of the file that are hashed for each part of the key stream, and the part's bytes of the digest."""
_HASH_DIGITS = 64

Samples = npt.NDArray[np.uint8]


def file_hash(original: bytes) -> str:
    """Return the hash with which an original file is published, 64 hex digits."""
    return hashlib.sha512(original).hexdigest()[:_HASH_DIGITS]


def deciphered(samples: Samples, original: bytes) -> Samples:
    """Decipher or encipher an image's samples, of any shape, in C order; the cipher is its own inverse."""
    stream = np.frombuffer(key_stream(original, samples.size), np.uint8)
    return samples ^ stream.reshape(samples.shape)


def key_stream(original: bytes, count: int) -> bytes:
    """Return the first bytes of an original file's key stream; raises `ValueError` if the file is empty."""
    if not original:
        raise ValueError("an empty file has no key stream")
    # The end of the file is followed by its start, so that each part can be taken by one slice.
    file = original + (original * (_HASHED // len(original) + 1))[:_HASHED]
    state = hashlib.sha512(original)
    # This loop takes nearly all of the time, and most of it is SHA-512: bound methods, no calls of ours.
    update, digest, parts = state.update, state.digest, []
    start, length = 0, len(original)
    for _ in range(-(-count // _USED)):
        update(file[start : start + _HASHED])
        parts.append(digest()[:_USED])
        start += _HASHED
        if start >= length:
            start %= length
    return b"".join(parts)[:count]
