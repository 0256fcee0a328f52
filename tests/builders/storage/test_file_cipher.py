"""The cipher of PartialBROAD against published test vectors, and against a loop that follows its description."""

import hashlib
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.storage.file_cipher import deciphered, file_hash, key_stream

VECTORS = Path(__file__).parents[3].parent / "shared" / "reference" / "published" / "partial_broad_cipher.json"


@pytest.mark.skipif(not VECTORS.is_file(), reason="the test vectors are not beside this checkout")
def test_published_vectors():
    vectors = json.loads(VECTORS.read_text(encoding="utf-8"))["vectors"]
    assert len(vectors) == 5
    for vector in vectors:
        key = bytes((31 * i * i + 7 * i + 3) % 251 for i in range(vector["key_bytes"]))
        plain = np.array([(17 * i + i // 3) % 256 for i in range(vector["plain_bytes"])], np.uint8)
        cipher = deciphered(plain, key)
        assert file_hash(key) == vector["key_hash"]
        assert cipher[:12].tobytes().hex() == vector["cipher_head"]
        assert hashlib.sha256(cipher).hexdigest() == vector["cipher_sha256"]
        assert np.array_equal(deciphered(cipher, key), plain)


def byte_by_byte(file, count):
    """The description, word for word."""
    endless = itertools.cycle(file)
    state = hashlib.sha512(file)
    stream = b""
    while len(stream) < count:
        state.update(bytes(next(endless) for _ in range(131)))
        stream += state.digest()[:32]
    return stream[:count]


@given(st.binary(min_size=1, max_size=400), st.integers(0, 700))
def test_files_of_any_length(file, count):
    assert key_stream(file, count) == byte_by_byte(file, count)


def test_samples_are_taken_in_c_order():
    file = b"an original file"
    cipher = np.arange(2 * 5 * 3, dtype=np.uint8).reshape(2, 5, 3)
    expected = bytes(a ^ b for a, b in zip(cipher.tobytes(), byte_by_byte(file, 30), strict=True))
    assert deciphered(cipher, file).tobytes() == expected
    turned = np.asfortranarray(cipher)
    assert deciphered(turned, file).tobytes() == expected


def test_an_empty_file_is_no_key():
    with pytest.raises(ValueError, match="empty"):
        key_stream(b"", 32)
