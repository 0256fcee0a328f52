"""The resizes against published pixels, a direct computation of their filter, and torchvision."""

import numpy as np
import pytest
from PIL import Image

from builders.generate.contract import SourceImage
from builders.generate.exact.resize import LSUN_FIX_RESIZE, fixed_resize, lsun_fix
from builders.release import images
from builders.release.images import TooNarrowError

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


# The same for `lsun_fix`, under the same three versions.
GOLDEN_LSUN_FIX = [
    "a82bf7bacbf28f2b8135696dfefa7b43f9292c116ff016215a5c88f7b8f421ab",
    "de431babf107688741c74c5c7b86d965c0da5420eac5dad264e960d269df1bdc",
    "3a53ba4de7af7fd6ea281febed59d23f6c82e9aa748cfe7da0d3e4d2b8517f14",
    "f9895645a5e9a1652f23b06998ef31d8f870aa5d179389ad7580677d7064c759",
    "2a9ad2f5bfa3a850185d3c01f86a24d7bd0e1bdb93bf3d6346cc1a36b34a3144",
    "27c0a4124ac61c3d27b9a6b9487e76315250d9b308a2b504a8830f0e1d11aea2",
    "0644f0e058f7d1c3935b140c10080b13a77a409e001da5323871664a592b733e",
    "bd860bb271fccc23dbb853405ce6347955211af0e9e1d0ca46123999317070ea",
    "de9b8e95ba945eb110d58e405bac96b2194b87d2b2cd82d8f85a91884deb7c53",
    "f8996a15268acf771db9b53dd52153099089df52a3a14df89e9515c99c2b7602",
    "1fcd63fabe9a01f191cca2346ed3a8a68e6e1b7b37444dffc5a2df0ac5b5c00b",
    "99947e1eb1eeb26adb1bb719e236d72585c3878722087f4bfd7605d44272de7f",
    "649cfb0e281b4b361378219f208d35c776bacd5944a1e98536624a33582f5b70",
    "c9a0006e8c9ef352d3a509dd2825075a3fdabb79f4fdff3546c260f3c9ebee5b",
    "bc8e7c33987306188e8268c216789638c2b2ce739c5d1847bcc91b4eba5bf0ad",
    "d36d857d95cd4a72c31d624a04f2998c8c4511c8c968871fc636648b596e3306",
    "3c34bbc43fa75b5369ccb7022eb83b03d740849f5375295b770c688d61d2f72a",
    "d23b931e5f4537deb90e8ff1c593df1fe20ab0ade579a7b84d946a64dc3c9cbf",
    "793658eacdb9036c64f7369e87ba336aa3155f8d4d8ca5bbc1ec0cb74f2c9a47",
    "938e3608b11175043d4eee25389852b67247bf1c7e420b6fc40ebc0ab62d8b14",
    "0206689352ba0e83cf2eca91b489c7fc2c41b50fd66f7dc76e4d0b81d2868f53",
    "8cac4cf5f5eeecbb4626c4fabfc6199fdd268add594bb1e1a59c06e31c6c9424",
    "7be54b0c5a8bdd8a8e9067f7cbd4a429c1079a45f2aec95c4cc628f7acd24f57",
    "754e75ee92373b5741bc40b75477202a939c42cfdef079b1f18e5e5247fd3bd7",
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


@pytest.mark.parametrize("number", range(24))
def test_lsun_fix_gives_the_published_pixels(number):
    assert images.pixel_sha256(lsun_fix(scene(number))) == GOLDEN_LSUN_FIX[number]


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
    with pytest.raises(TooNarrowError, match=r"too narrow to be resized \(1 x 2,000 pixels\)"):
        lsun_fix(thread)
    source = SourceImage("lsun/test/x.webp#lsun-fix-32", "unlabelled", "unlabelled", thread, b"")
    (generated,) = LSUN_FIX_RESIZE.start(LSUN_FIX_RESIZE)([source])
    assert generated.pixels is None
    assert generated.reason == "it is too narrow to be resized (1 x 2,000 pixels)"
