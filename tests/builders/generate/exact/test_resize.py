"""The resizes against published pixels, a direct computation of their filter, and torchvision."""

import numpy as np
import pytest
from PIL import Image

from builders.generate.contract import SourceImage
from builders.generate.exact.resize import LSUN_FIX_RESIZE, fixed_resize, lsun_fix
from builders.release import images
from builders.release.images import TooNarrowError
from tests.sentences import stops

# The first 16 hex digits of each digest over the pixels of `fixed_resize` of `scene(i)`: the same under Pillow 11.0.0,
# 12.0.0 and 13.0.0, and those of one call of `resize` under 11 and 12. One call under 13 gives other pixels for 13 to
# 16, whose height shrinks more.
GOLDEN = (
    "35f04b220d5f5f56a6f5b1b44e3202bfc5ed9f63abec12274ec87031e8f3f62e0d4376f88732ec74282c645715f7dd82"
    "8380dd8aa64b93f40716f10a8265d9a05f8163fab22bdff91b8eaf1de9917defdcd51525cd3306e3fdeebd240e7f78dd"
    "0c79aa44823b86615e1a39db51a8503dad0eb8a97b6877c71b78a277d1aa5d2737117ee82505223da9a0cae6ac707bf3"
    "aa08dc01d8644fceb69e493dcace57407b185a31798c9d0c939b4fcd082164d9967c606ba14b50aa9ccf28adc6bf65ab"
)


# The same for `lsun_fix`, under the same three versions.
GOLDEN_LSUN_FIX = (
    "a82bf7bacbf28f2bde431babf10768873a53ba4de7af7fd6f9895645a5e9a1652a9ad2f5bfa3a85027c0a4124ac61c3d"
    "0644f0e058f7d1c3bd860bb271fccc23de9b8e95ba945eb1f8996a15268acf771fcd63fabe9a01f199947e1eb1eeb26a"
    "649cfb0e281b4b36c9a0006e8c9ef352bc8e7c3398730618d36d857d95cd4a723c34bbc43fa75b53d23b931e5f4537de"
    "793658eacdb9036c938e3608b11175040206689352ba0e838cac4cf5f5eeecbb7be54b0c5a8bdd8a754e75ee92373b57"
)


def scene(number):
    """A made-up scene with fine detail: integer arithmetic alone, so equal on every machine."""
    width, height = 40 + 37 * number % 460, 33 + 53 * number % 440
    x, y = np.arange(width, dtype=np.int64), np.arange(height, dtype=np.int64)[:, None]
    channels = [(x * x * (number + 3) // 7 + y * (11 + c) + x * y // (2 + c)) % (256 - 5 * c) for c in range(3)]
    return Image.fromarray(np.stack(channels, axis=-1).astype(np.uint8))


@pytest.mark.parametrize(("resize", "digests"), [(fixed_resize, GOLDEN), (lsun_fix, GOLDEN_LSUN_FIX)])
def test_the_resizes_give_the_published_pixels(resize, digests):
    assert "".join(images.pixel_sha256(resize(scene(number)))[:16] for number in range(24)) == digests


def triangle(source, target=32):
    """The weights of Pillow's documented bilinear filter, a triangle of the width of the shrinkage, for one side."""
    scale = source / target
    support = max(scale, 1.0)
    weights = np.zeros((target, source))
    for i in range(target):
        centre = (i + 0.5) * scale
        near = 1 - np.abs((np.arange(source) + 0.5 - centre) / support)
        weights[i] = np.clip(near, 0, None)
    return weights / weights.sum(axis=1, keepdims=True)


def filtered(pixels, size):
    """Pixels of another size (width, height) by matrices of weights, without rounding."""
    height, width = pixels.shape[:2]
    rows, columns = triangle(height, size[1]), triangle(width, size[0])
    return np.einsum("ih,hwc,jw->ijc", rows, pixels.astype(float), columns, optimize=True)


@pytest.mark.parametrize("size", [(500, 375), (64, 48), (33, 290), (32, 32), (20, 25)])
def test_the_fixed_resize_is_the_antialiased_triangle_filter(size):
    pixels = np.random.default_rng(size).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    expected = filtered(pixels, (32, 32))
    resized = np.asarray(fixed_resize(Image.fromarray(pixels))).astype(float)
    # Each of the two passes rounds to whole levels.
    assert np.abs(resized - expected).max() <= 1.01


@pytest.mark.parametrize("resize", [fixed_resize, lsun_fix])
@pytest.mark.parametrize("mode", ["L", "P", "CMYK", "RGBA", "LA", "1"])
def test_the_resizes_take_any_mode_of_8_bits(resize, mode):
    image = scene(3).convert(mode)
    resized = resize(image)
    assert (resized.mode, resized.size) == ("RGB", (32, 32))
    assert images.pixel_sha256(resized) == images.pixel_sha256(resize(image.convert("RGB")))


# Most of LSUN's images have a shorter side of 256; (255, 1023) is enlarged by 1.004, with a longer side of 1,027.01.
@pytest.mark.parametrize("size", [(341, 256), (256, 341), (256, 256), (500, 375), (90, 61), (7, 5), (255, 1023)])
def test_lsun_fix_is_the_antialiased_triangle_filter_before_and_after_the_centre_crop(size):
    pixels = np.random.default_rng(size).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    width, height = (int(256 * side / min(size)) for side in size)
    left, top = (round((side - 256) / 2) for side in (width, height))
    expected = filtered(filtered(pixels, (width, height))[top : top + 256, left : left + 256], (32, 32))
    resized = np.asarray(lsun_fix(Image.fromarray(pixels))).astype(float)
    # Each of the four passes rounds to whole levels, and averages keep errors as they are.
    assert np.abs(resized - expected).max() <= 2.02


@pytest.mark.parametrize("number", range(0, 24, 3))
def test_lsun_fix_is_the_published_script_of_csi(number):
    """alinlab/CSI, lsun_fix_preprocess.py: these three transforms, on a Pillow image."""
    transforms = pytest.importorskip("torchvision.transforms", reason="torchvision is not installed")
    script = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(256), transforms.Resize(32)])
    assert np.array_equal(np.asarray(lsun_fix(scene(number))), np.asarray(script(scene(number))))


def test_the_two_resizes_agree_on_squares_of_256_only():
    """So an image of LSUN whose sides are equal has the same pixels in versions 2 and 3 of the benchmark."""
    square = scene(22).resize((256, 256))
    assert np.array_equal(np.asarray(lsun_fix(square)), np.asarray(fixed_resize(square)))
    wide = scene(22).resize((341, 256))
    assert np.array_equal(np.asarray(lsun_fix(wide)), np.asarray(fixed_resize(wide.crop((42, 0, 298, 256)))))
    assert not np.array_equal(np.asarray(lsun_fix(wide)), np.asarray(fixed_resize(wide)))


def test_an_image_too_narrow_for_memory_has_a_reason():
    thread = Image.new("RGB", (1, 2000))  # 256 x 512,000 with a shorter side of 256
    with stops(TooNarrowError, "2,000"):
        lsun_fix(thread)
    source = SourceImage("lsun/test/x.webp#lsun-fix-32", "unlabelled", "unlabelled", thread, b"")
    (generated,) = LSUN_FIX_RESIZE.start(LSUN_FIX_RESIZE)([source])
    assert generated.pixels is None
    assert generated.reason == "it is too narrow to be resized (1 x 2,000 pixels)"
