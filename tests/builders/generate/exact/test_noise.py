"""The noise that we make, against its law and its definition."""

import hashlib
import math

import numpy as np

from builders.generate.exact.noise import gaussian_noise
from builders.release import images


def test_noise_follows_the_clipped_normal_law():
    pixels = np.stack([np.asarray(gaussian_noise(f"noise/{i:05d}#gaussian-32")) for i in range(200)]) / 255
    # Half of N(0.5, 1) beyond each end: P(X < 0) = P(X > 1) = 1 - Phi(0.5).
    beyond = 0.5 * math.erfc(0.5 / math.sqrt(2))
    count = pixels.size
    error = 4 * math.sqrt(beyond * (1 - beyond) / count)
    # Rounding to 8 bits moves values below 1/510 to 0, whose density is at most 0.4.
    assert abs(np.mean(pixels == 0) - beyond) < error + 0.4 / 510
    assert abs(np.mean(pixels == 1) - beyond) < error + 0.4 / 510
    assert abs(pixels.mean() - 0.5) < 4 * pixels.std() / math.sqrt(count)
    # Neighbours and channels are independent.
    flat = pixels.reshape(200, -1)
    assert abs(np.corrcoef(flat[:, :-1].ravel(), flat[:, 1:].ravel())[0, 1]) < 4 / math.sqrt(count)


def test_noise_is_regenerated_from_the_row_id_alone():
    # Written down once from the definition: SHA-256 of the id as eight little-endian words seeds MT19937.
    row_id = "noise/00042#gaussian-32"
    digest = hashlib.sha256(row_id.encode()).digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 32, 4)]
    generator = np.random.RandomState(words)
    expected = [round(255 * min(max(generator.normal(0.5, 1.0), 0.0), 1.0)) for _ in range(32 * 32 * 3)]
    assert np.asarray(gaussian_noise(row_id)).ravel().tolist() == expected
    assert gaussian_noise(row_id).tobytes() != gaussian_noise("noise/00043#gaussian-32").tobytes()


def test_the_frozen_generator_has_not_changed():
    # The digest of one image under NumPy 2.0.0, 2.2.0 and 2.4.6.
    assert images.pixel_sha256(gaussian_noise("noise/00000#gaussian-32")) == NOISE_GOLDEN


NOISE_GOLDEN = "62cb5c277461b9727ac5367ee89c46a8d480a3fb47326a38d71bec91e40a5bed"
