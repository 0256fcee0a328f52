"""Corruptions against formulas, other implementations and published digests; what they do not depend on."""

import colorsys
import dataclasses
import functools
import importlib.metadata
import io
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from builders.demo.images import encode_image
from builders.errors import BuildError
from builders.generate.contract import SourceImage, check_installed, not_installed
from builders.generate.exact import corruptions
from builders.generate.exact.corruptions import DESCRIPTIONS, corruption, prepare_image
from builders.release.images import pixel_sha256
from tests.builders.generate.exact.test_resize import scene
from tests.builders.photographs import photographs
from tests.sentences import assert_sentence

ROOT = Path(__file__).parents[4]


@functools.cache
def started(name, severity):
    pytest.importorskip("imagecorruptions", reason="needs the extra generate")
    generator = corruption(name, severity)
    return generator.start(generator)


def source(image, row_id="imagenet/val/a.JPEG#toy"):
    return SourceImage(row_id, "n01440764", "tench", image, b"")


def corrupted(name, severity, image, row_id="imagenet/val/a.JPEG#toy"):
    (generated,) = started(name, severity)([source(image, row_id)])
    assert generated.values == {"corruption": name, "severity": severity}
    return generated.pixels


def photograph():
    return photographs()[0]


def unit(image):
    """The prepared pixels, 0 to 1."""
    return np.asarray(prepare_image(image)) / 255


def assert_truncated(pixels, exact, tolerance=1e-3):
    """The 8-bit pixels are the exact values truncated, which rounding errors may carry over a whole number."""
    exact = np.clip(exact, 0, 1) * 255
    assert (pixels >= np.floor(exact - tolerance)).all()
    assert (pixels <= np.floor(exact + tolerance)).all()


def drawn(row_id="imagenet/val/a.JPEG#toy"):
    """What NumPy draws for a row: the state is seeded by the eight words of the SHA-256 of the id."""
    return np.random.RandomState(corruptions.seed_words(row_id))


# --- the images before a corruption


@pytest.mark.parametrize(
    ("size", "resized"),
    # torchvision 0.29, `_compute_resized_output_size`: the longer side is int(256 * longer / shorter).
    [((500, 375), (341, 256)), ((375, 500), (256, 341)), ((60, 80), (256, 341)), ((256, 300), (256, 300))],
)
def test_images_are_resized_to_256_and_cut_to_224(size, resized):
    image = photograph().resize(size)
    large = image.resize((resized[0], size[1]), Image.Resampling.BILINEAR).resize(resized, Image.Resampling.BILINEAR)
    # CenterCrop: int(round((side - 224) / 2)).
    left, top = (round((side - 224) / 2) for side in resized)
    assert prepare_image(image).tobytes() == large.crop((left, top, left + 224, top + 224)).tobytes()


# --- formulas


def test_gaussian_noise_is_drawn_by_the_rows_id():
    expected = np.clip(unit(photograph()) + drawn().normal(size=(224, 224, 3), scale=0.38), 0, 1) * 255
    assert np.array_equal(corrupted("gaussian_noise", 5, photograph()), expected.astype(np.uint8))


def test_shot_noise_and_speckle_noise_are_drawn_by_the_rows_id():
    pixels = unit(photograph())
    shot = np.clip(drawn().poisson(pixels * 3) / 3, 0, 1) * 255
    assert np.array_equal(corrupted("shot_noise", 5, photograph()), shot.astype(np.uint8))
    speckle = np.clip(pixels * (1 + drawn().normal(size=pixels.shape, scale=0.6)), 0, 1)
    assert_truncated(corrupted("speckle_noise", 5, photograph()), speckle, 1e-9)


def test_impulse_noise_is_salt_and_pepper_on_27_percent_of_the_samples():
    row_id = "imagenet/val/a.JPEG#toy"
    draws = np.random.default_rng(int(corruptions.seed_words(row_id)[0]))
    changed, salted = (draws.random((224, 224, 3)) <= share for share in (0.27, 0.5))
    exact = np.where(changed, salted, unit(photograph()))
    assert_truncated(corrupted("impulse_noise", 5, photograph(), row_id), exact, 1e-9)
    assert abs(changed.mean() - 0.27) < 0.005


def gauss(size, sigma):
    weights = np.array([math.exp(-((i - size // 2) ** 2) / (2 * sigma**2)) for i in range(size)])
    return weights / weights.sum()


def test_defocus_blur_is_a_convolution_with_an_antialiased_disk():
    y, x = np.mgrid[-10:11, -10:11]
    disk = (x**2 + y**2 <= 100).astype(float)
    disk /= disk.sum()
    for axis in (0, 1):
        disk = ndimage.correlate1d(disk, gauss(5, 0.5), axis, mode="mirror")
    exact = ndimage.convolve(unit(photograph()), disk[::-1, ::-1, None], mode="mirror")
    assert_truncated(corrupted("defocus_blur", 5, photograph()), exact)


def test_gaussian_blur_is_a_convolution():
    exact = unit(photograph())
    for axis in (0, 1):
        exact = ndimage.convolve1d(exact, gauss(2 * 24 + 1, 6), axis, mode="nearest")
    assert_truncated(corrupted("gaussian_blur", 5, photograph()), exact)


def along_a_line(pixels, radius, sigma, angle):
    """The mean of shifted images, whose edges repeat, with one half of a Gaussian as weights; angle in degrees."""
    weights = np.array([math.exp(-(i**2) / (2 * sigma**2)) for i in range(2 * radius + 1)])
    weights /= weights.sum()
    down, across = math.sin(math.radians(angle)), math.cos(math.radians(angle))
    rows, columns = (np.arange(side) for side in pixels.shape[:2])
    blurred = np.zeros(pixels.shape)
    for i, weight in enumerate(weights):
        y = np.clip(rows + math.ceil(i * down - 0.5), 0, len(rows) - 1)
        x = np.clip(columns + math.ceil(i * across - 0.5), 0, len(columns) - 1)
        blurred += weight * pixels[y][:, x]
    return blurred


def test_motion_blur_is_a_mean_along_a_line():
    exact = along_a_line(unit(photograph()), 20, 15, drawn().uniform(-45, 45))
    assert_truncated(corrupted("motion_blur", 5, photograph()), exact)


def test_snow_is_a_blurred_layer_on_a_whitened_image():
    draws = drawn()
    layer = draws.normal(size=(224, 224), loc=0.55, scale=0.3)
    side = math.ceil(224 / 2.5)
    start = (224 - side) // 2
    layer = ndimage.zoom(layer[start : start + side, start : start + side], 2.5, order=1)
    layer = np.clip(np.where(layer < 0.85, 0, layer), 0, 1)
    layer = np.rint(255 * along_a_line(layer, 12, 12, draws.uniform(-135, -45)))[:224, :224, None] / 255
    pixels = unit(photograph())
    grey = pixels @ [[0.299], [0.587], [0.114]]
    exact = 0.55 * pixels + 0.45 * np.maximum(pixels, grey * 1.5 + 0.5) + layer + layer[::-1, ::-1]
    assert_truncated(corrupted("snow", 5, photograph()), exact)


def hsv_changed(image, change):
    """The prepared pixels, changed one by one in the HSV of Python's colorsys."""
    flat = unit(image)[::7, ::7].reshape(-1, 3)
    return np.array([colorsys.hsv_to_rgb(*change(*colorsys.rgb_to_hsv(*pixel))) for pixel in flat.tolist()])


def test_brightness_and_saturate_change_hsv():
    brighter = hsv_changed(photograph(), lambda h, s, v: (h, s, min(v + 0.5, 1)))
    assert_truncated(corrupted("brightness", 5, photograph())[::7, ::7].reshape(-1, 3), brighter)
    gaudy = hsv_changed(photograph(), lambda h, s, v: (h, min(s * 20 + 0.2, 1), v))
    assert_truncated(corrupted("saturate", 5, photograph())[::7, ::7].reshape(-1, 3), gaudy)


def test_contrast_is_towards_the_mean_of_each_channel():
    pixels = unit(photograph())
    means = pixels.mean((0, 1))
    assert_truncated(corrupted("contrast", 5, photograph()), means + 0.05 * (pixels - means))


def test_pixelate_has_the_means_of_squares():
    squares = np.asarray(prepare_image(photograph())).reshape(56, 4, 56, 4, 3).mean((1, 3))
    pixels = corrupted("pixelate", 5, photograph())
    # Pillow takes the mean of rows, then of columns, and rounds both to whole levels.
    assert np.abs(pixels[::4, ::4] - squares).max() <= 0.5 + 0.5
    assert np.array_equal(pixels, pixels[::4, ::4].repeat(4, 0).repeat(4, 1))


def test_jpeg_compression_is_that_of_pillow_at_quality_7():
    data = encode_image(prepare_image(photograph()), "JPEG", quality=7)
    assert np.array_equal(corrupted("jpeg_compression", 5, photograph()), np.asarray(Image.open(io.BytesIO(data))))


def test_frost_lies_on_a_darkened_image():
    # 0.6 of the image and 0.75 of a photograph of frost.
    black = corrupted("frost", 5, Image.new("RGB", (256, 256))).astype(float)
    exact = 0.6 * unit(photograph()) + black / 255
    assert_truncated(corrupted("frost", 5, photograph()), exact, tolerance=1.01)
    assert black.std() > 10


def test_fog_is_the_same_on_all_channels():
    # x * max / (max + 3) + 3 * fractal * max / (max + 3), on an even image: only the fractal varies.
    foggy = corrupted("fog", 5, Image.new("RGB", (256, 256), (255, 102, 0))).astype(float) / 255
    for channel, value in ((0, 1), (1, 0.4)):
        assert np.allclose(foggy[..., channel] - value / 4, foggy[..., 2], atol=1.01 / 255)
    assert (foggy[..., 2].min(), foggy[..., 2].max()) == (0, pytest.approx(0.75, abs=0.2))


def test_zoom_blur_is_a_mean_of_enlarged_images():
    pixels = unit(photograph())
    layers = [pixels]
    for factor in np.arange(1, 1.31, 0.03):
        side = math.ceil(224 / factor)
        start = (224 - side) // 2
        piece = pixels[start : start + side, start : start + side]
        layers.append(ndimage.zoom(piece, (factor, factor, 1), order=1)[:224, :224])
    # In single precision.
    assert_truncated(corrupted("zoom_blur", 5, photograph()), np.mean(layers, axis=0), 5e-3)


@pytest.mark.parametrize("name", [pytest.param("glass_blur", marks=pytest.mark.slow), "elastic_transform"])
def test_what_moves_pixels_keeps_an_even_image(name):
    even = corrupted(name, 5, Image.new("RGB", (256, 256), (200, 90, 10))).astype(int)
    assert np.abs(even - (200, 90, 10)).max() <= 1
    moved = corrupted(name, 5, photograph()).astype(int)
    still = np.asarray(prepare_image(photograph())).astype(int)
    assert np.abs(moved - still).mean() > 2
    assert np.abs(moved.mean((0, 1)) - still.mean((0, 1))).max() < 3


# --- what the result depends on

# Digests over the pixels of `scene(5)` at severity 5 under the id "imagenet/val/a.JPEG#toy": the same with NumPy 2.2.6
# and 2.4.6, SciPy 1.16 and 1.17, Pillow 12.3 and 13.0, and with and without AVX2, AVX-512, FMA and IPP.
GOLDEN = {
    "gaussian_noise": "d3e731a18714a9b6",
    "shot_noise": "150933396c383942",
    "impulse_noise": "6496f75c5b27faff",
    "defocus_blur": "ae37f00e7a88fa3e",
    "glass_blur": "e3fa887fc5d6386f",
    "motion_blur": "422f4e848b9a98ba",
    "zoom_blur": "437c40fd6aa0b5c1",
    "snow": "f528d619c85321e2",
    "frost": "ac9b0f9f603e38dd",
    "fog": "97fef10b8eaee048",
    "brightness": "c7847d78e938ff60",
    "contrast": "f2821e18067be405",
    "elastic_transform": "1912521680a1c2f6",
    "pixelate": "ea1cf80f4c3f4409",
    "jpeg_compression": "412f1d72f5b3e78f",
    "speckle_noise": "b5d55548beee1e0f",
    "gaussian_blur": "f086369e1e40f61a",
    "spatter": "7dfee0e54ae374dc",
    "saturate": "094547f82e1e0534",
}


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_the_published_pixels(name):
    assert pixel_sha256(Image.fromarray(corrupted(name, 5, scene(5))))[:16] == GOLDEN[name]


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_order_batch_and_what_came_before_change_nothing(name):
    generate = started(name, 3)
    images = [source(scene(number), f"imagenet/val/{number}.JPEG#{name}-3") for number in range(3)]
    np.random.seed(1)
    before = np.random.get_state()[1].copy()
    expected = [generated.pixels for generated in generate(images)]
    assert np.array_equal(np.random.get_state()[1], before)
    assert isinstance(np.exp, np.ufunc)
    np.random.seed(2)
    alone = [generate([image])[0].pixels for image in reversed(images)]
    assert np.array_equal(expected, alone[::-1])
    other = generate([source(scene(0), "imagenet/val/other.JPEG")])[0].pixels
    fixed = {"defocus_blur", "zoom_blur", "brightness", "contrast", "pixelate", "jpeg_compression", "gaussian_blur"}
    assert np.array_equal(other, expected[0]) is (name in fixed | {"saturate"})


DIGESTS = """
from PIL import Image
from builders.release.images import pixel_sha256
from tests.builders.generate.exact.test_corruptions import CHOSEN_BY_CPU, corrupted, even_and_fine
for name, severity in CHOSEN_BY_CPU:
    print(pixel_sha256(Image.fromarray(corrupted(name, severity, even_and_fine()))))
"""

CHOSEN_BY_CPU = (
    ("defocus_blur", 4),
    ("motion_blur", 4),
    ("gaussian_blur", 2),
    ("snow", 1),
    ("frost", 3),
    ("elastic_transform", 1),
)


def even_and_fine():
    """A photograph with even bands, where the last bit of a sum decides on the level."""
    pixels = np.asarray(photograph()).copy()
    pixels[:150] = np.arange(640)[:, None] % 256
    pixels[150:250] = 255
    return Image.fromarray(pixels)


def test_a_cpu_without_the_newer_instructions_gives_the_same_pixels():
    # Each of these changed when the library was called as it is.
    older = {
        "OPENCV_CPU_DISABLE": "AVX2,AVX,FP16",
        "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-W", "ignore", "-c", DIGESTS]
    child = subprocess.run(command, cwd=ROOT, env=os.environ | older, check=True, capture_output=True, text=True)
    ours = [pixel_sha256(Image.fromarray(corrupted(name, s, even_and_fine()))) for name, s in CHOSEN_BY_CPU]
    assert child.stdout.split() == ours


# --- the declaration


def test_the_library_has_no_other_corruptions():
    library = pytest.importorskip("imagecorruptions", reason="needs the extra generate")
    assert list(DESCRIPTIONS) == library.get_corruption_names("all")


# --- the extra


@pytest.mark.parametrize("installed", [None, "1.1.4"])
def test_without_the_extra_one_sentence_names_it(monkeypatch, installed):
    def version(name):
        if name != "imagecorruptions-imaug":
            return importlib.metadata.metadata(name)["version"]
        if installed is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed

    monkeypatch.setattr("builders.generate.contract.importlib.metadata.version", version)
    generators = {
        "broad-corruptions/snow": corruption("snow", 5),
        "toy": dataclasses.replace(TOY, requires=("numpy",)),
    }
    assert [key for key, generator in generators.items() if not generator.is_installed] == ["broad-corruptions/snow"]
    assert not_installed(generators.values()) == "imagecorruptions-imaug 1.1.5 is not installed"
    with pytest.raises(BuildError) as caught:
        check_installed(generators)
    assert_sentence(str(caught.value), not_installed(generators.values()), "broad-corruptions/snow")


TOY = corruption("fog", 1)


def test_a_library_that_does_not_import_is_named_with_the_reason(monkeypatch):
    # As `import cv2` fails on a machine without a display's libraries.
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(BuildError, match=r"^Cannot import imagecorruptions-imaug \(.*cv2.*opencv-python-headless"):
        TOY.start(TOY)
