"""The fixed resize against published pixels and a direct computation of its filter."""

import numpy as np
import pytest
from PIL import Image

from builders.generate.exact.resize import fixed_resize
from builders.release import images

# Digests over the pixels of `fixed_resize` of `scene(i)`: the same under Pillow 11.0.0, 12.0.0 and 13.0.0, and those
# of one call of `resize` under 11 and 12. One call under 13 gives other pixels for 13 to 16, whose height shrinks
# more.
GOLDEN = [
    "35f04b220d5f5f56e7ddc37ba24a0e938595d87824f13927cf5b8ff792967e75",
    "a6f5b1b44e3202bffb3f0b6293f8aa19f7ea84422b239e59b6e4f061ea621ed1",
    "c5ed9f63abec12271a4284dfb83d6c3b063960b8bce6dee20564194f84c7df6e",
    "4ec87031e8f3f62effbcd533dc1b5a9c236cb9697dbe69407a72c50d41d94b5a",
    "0d4376f88732ec74218cd7d59b43deb74b28b946c0cf72ab9ed72ceb8798a36e",
    "282c645715f7dd82215544c08a4b02f84b3071c4073e7691a6e1a9d484d9cafd",
    "8380dd8aa64b93f47f0db1e4cccf0ef6324d8395d55c2639d285f54deda09a16",
    "0716f10a8265d9a03a16c6ad7c954d2d65ee6d4c54f05a4bbf3e2874fd7b0903",
    "5f8163fab22bdff9f17d743f5d251ac573ffb1cbfbc71ea7edc857c3e902b6c1",
    "1b8eaf1de9917defd8743d04ce3739d0b9eb19110ec4ad804c8b4a3f164fbe76",
    "dcd51525cd3306e357fc28a12888c61dc59c49ab2a924be62ee45a4dfc68eb21",
    "fdeebd240e7f78dd3c5374fc47fcaeba4157fd64c23317792332f4ed015b88a1",
    "0c79aa44823b8661f30b87e6f79a8f73892a82fad226146ee1d18c60bd676b7d",
    "5e1a39db51a8503dcfc9a9fb281c6def19c8142177d69181805830d3ac3b35c6",
    "ad0eb8a97b6877c7682533ab6913b03fe21ae47c25d03a6bab2e0514aeed7473",
    "1b78a277d1aa5d27c2c4317912bc7ff0f8f6fa5036091e7607e852036bb723f9",
    "37117ee82505223de0034d76f13bb7fa7e691665638ac3a6c96cc35eb3da1aa1",
    "a9a0cae6ac707bf3d11f3e220b4526df295c879706534421ac82707aa176bacb",
    "aa08dc01d8644fce7ef49596880ae4ea141ad972a0259b32548bb8c202210fba",
    "b69e493dcace57401dd8e0720c0c87027e18659cc85561e60c58e5e976087656",
    "7b185a31798c9d0ce404a48dde3413328e292884d252016eadb8f24dc336eeaa",
    "939b4fcd082164d92d028c2b5c32ac565b55152037349abb92cbcfc1062fe9ed",
    "967c606ba14b50aa6cce2da212a546156dd7815f707c319a5769c66f16e359fb",
    "9ccf28adc6bf65ab98ebf3f47d535c0b439e970761f642177bd245b07e1709bd",
]


def scene(number):
    """A made-up scene with fine detail: integer arithmetic alone, so equal on every machine."""
    width, height = 40 + 37 * number % 460, 33 + 53 * number % 440
    x, y = np.arange(width, dtype=np.int64), np.arange(height, dtype=np.int64)[:, None]
    channels = [(x * x * (number + 3) // 7 + y * (11 + c) + x * y // (2 + c)) % (256 - 5 * c) for c in range(3)]
    return Image.fromarray(np.stack(channels, axis=-1).astype(np.uint8))


@pytest.mark.parametrize("number", range(24))
def test_the_fixed_resize_gives_the_published_pixels(number):
    assert images.pixel_sha256(fixed_resize(scene(number))) == GOLDEN[number]


def triangle(source):
    """The weights of Pillow's documented bilinear filter, a triangle of the width of the shrinkage, for one side."""
    scale = source / 32
    support = max(scale, 1.0)
    weights = np.zeros((32, source))
    for i in range(32):
        centre = (i + 0.5) * scale
        near = 1 - np.abs((np.arange(source) + 0.5 - centre) / support)
        weights[i] = np.clip(near, 0, None)
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("size", [(500, 375), (64, 48), (33, 290), (32, 32), (20, 25)])
def test_the_fixed_resize_is_the_antialiased_triangle_filter(size):
    pixels = np.random.default_rng(size).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    expected = np.einsum("ih,hwc,jw->ijc", triangle(size[1]), pixels.astype(float), triangle(size[0]))
    found = np.asarray(fixed_resize(Image.fromarray(pixels))).astype(float)
    # Each of the two passes rounds to whole levels.
    assert np.abs(found - expected).max() <= 1.01


@pytest.mark.parametrize("mode", ["L", "P", "CMYK", "RGBA", "1", "I;16"])
def test_the_fixed_resize_takes_any_mode(mode):
    image = scene(3).convert("L").convert("I;16") if mode == "I;16" else scene(3).convert(mode)
    made = fixed_resize(image)
    assert (made.mode, made.size) == ("RGB", (32, 32))
    assert images.pixel_sha256(made) == images.pixel_sha256(fixed_resize(image.convert("RGB")))
