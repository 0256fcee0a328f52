"""The corruptions of ImageNet-C: noise, blur, weather and digital changes of an image, each at five severities.

Hendrycks and Dietterich (ICLR 2019, section 4.1) define 15 of them, and 4 more for validation. 17 are computed by
imagecorruptions-imaug, and two, which it defines otherwise, by `builders.generate.exact.imagenet_c`. Compared with the
authors' published code on six photographs at each severity, with the same random numbers: equal are 14 (`glass_blur`
where it shuffles pixels), and `fog`, `spatter` and `elastic_transform` but for single samples by one level.

What ImageNet-C did is done here: the image in RGB, its shorter side resized to 256 by Pillow's BILINEAR (smaller
images are enlarged), the 224 x 224 at the centre, the corruption, and truncation to 8 bits. What differs:

- rows store these pixels as PNG; ImageNet-C has JPEG files of quality 85;
- random numbers are seeded by the row's id; those of ImageNet-C are not known;
- an image is turned upright by its EXIF orientation first, as in all rows that are decoded;
- `snow` is blurred by the library's own 25 taps instead of ImageMagick's, and its layer is rounded, not truncated;
- `motion_blur` is that of the library, too, and truncated where ImageMagick rounds;
- `elastic_transform` places samples exactly, and not to a 32nd of a pixel.
"""

from __future__ import annotations

import contextlib
import decimal
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from builders.errors import BuildError
from builders.generate.contract import EachImage, Generate, Generated, Generator, SourceImage
from builders.generate.exact import imagenet_c
from builders.generate.exact.noise import seed_words
from builders.generate.exact.resize import centre_crop, shorter_side
from builders.release.schema import Column

LIBRARY, LIBRARY_VERSION = "imagecorruptions-imaug", "1.1.5"

SEVERITIES = (1, 2, 3, 4, 5)

DESCRIPTIONS: Mapping[str, str] = {
    "gaussian_noise": "Gaussian noise",
    "shot_noise": "Poisson noise",
    "impulse_noise": "salt-and-pepper noise",
    "defocus_blur": "blur by a disk",
    "glass_blur": "blur as through frosted glass",
    "motion_blur": "blur along a line in a random direction",
    "zoom_blur": "blur towards the centre",
    "snow": "falling snow",
    "frost": "frost on the lens, of five photographs",
    "fog": "fog, a random fractal",
    "brightness": "a higher value of HSV",
    "contrast": "less contrast",
    "elastic_transform": "stretched and compressed small regions",
    "pixelate": "large pixels",
    "jpeg_compression": "compression as JPEG",
    "speckle_noise": "noise that grows with a pixel's value",
    "gaussian_blur": "Gaussian blur",
    "spatter": "drops of water or mud on the lens",
    "saturate": "another saturation of HSV",
}
"""The corruptions by the library's names. The last four are ImageNet-C's for validation."""

Corrupt = Callable[..., Any]
"""Takes a Pillow image and a severity, as the library's functions, and returns an array of 0 to 255 or an image."""

TAKES_SEED = ("glass_blur", "impulse_noise")
"""Corruptions that draw from generators of their own, seeded by an argument, instead of NumPy's global state."""

_OURS: Mapping[str, Corrupt] = {"frost": imagenet_c.frost, "elastic_transform": imagenet_c.elastic_transform}
"""Corruptions that the library defines otherwise than ImageNet-C."""

_DIFFERENCES: Mapping[str, str] = {
    "snow": "the snow is blurred by the library's own 25 taps instead of ImageMagick's",
    "motion_blur": "the blur is the library's own, truncated where ImageMagick's is rounded",
    "elastic_transform": "samples are placed exactly instead of to a 32nd of a pixel",
}

_SHORTER_SIDE, _SIDE = 256, 224

CORRUPTION = Column("corruption", "string", "the corruption, by its name in ImageNet-C")
SEVERITY = Column("severity", "int64", "its severity, 1 to 5")


def prepare_image(image: Image.Image) -> Image.Image:
    """Prepare an image as ImageNet-C did: RGB, shorter side 256, and the 224 x 224 at the centre.

    Sizes and offsets are those of torchvision's `Resize(256)` and `CenterCrop(224)`. An alpha channel is dropped.
    """
    return centre_crop(shorter_side(image, _SHORTER_SIDE), _SIDE)


def corruption(name: str, severity: int) -> Generator:
    """Return the generator of a named corruption; `ValueError` for an unknown name.

    Its pixels follow from the source image and the row's id: not from other images, their order, or the worker.
    Code that OpenCV and NumPy choose by the CPU is avoided: its last bits differ, and truncation turns them into whole
    levels, in even regions everywhere.
    """
    if name not in DESCRIPTIONS or severity not in SEVERITIES:
        raise ValueError(f"ImageNet-C has no {name} at severity {severity}")
    difference = f", and {_DIFFERENCES[name]}" if name in _DIFFERENCES else ""
    by = "its published formula" if name in _OURS else f"{LIBRARY} {LIBRARY_VERSION}"
    return Generator(
        name=f"{name}-{severity}",
        version=2 if name in _OURS else 1,  # version 1 of these two was the library's
        description=f"ImageNet-C's {name} ({DESCRIPTIONS[name]}) at severity {severity}, by {by}: RGB, shorter side "
        "resized to 256 (BILINEAR; smaller images are enlarged), the 224 x 224 at the centre, the corruption seeded "
        "by the row's id, and truncation to 8 bits. ImageNet-C's own files are JPEGs of quality 85; these are PNGs "
        "without that loss" + difference,
        size=(_SIDE, _SIDE),
        start=_start,
        parameters={"corruption": name, "severity": severity, "library": f"{LIBRARY} {LIBRARY_VERSION}"},
        columns=(CORRUPTION, SEVERITY),
        prepared=_SIDE,
        requires=(f"{LIBRARY}=={LIBRARY_VERSION}",),
    )


def _start(generator: Generator) -> Generate:
    try:
        import cv2
        from imagecorruptions import corruptions
    except ImportError as error:
        raise BuildError(
            f"Cannot import {LIBRARY} ({error}). Install what it needs; on a machine without a display, "
            "opencv-python-headless can take the place of opencv-python."
        ) from error
    # One core per worker, and the code that is the same for every CPU of an architecture: with AVX2 `defocus_blur`
    # differs in single pixels, and with IPP `frost` in one of ten.
    cv2.setNumThreads(1)
    cv2.setUseOptimized(False)
    name, severity = str(generator.parameters["corruption"]), int(generator.parameters["severity"])
    if name == "glass_blur":  # compiled by Numba here, which reads `exp` of NumPy
        corruptions.glass_blur(Image.new("RGB", (32, 32)), severity, seed=0)
    corrupt = _OURS.get(name) or getattr(corruptions, name)
    return EachImage(functools.partial(_corrupt, corrupt, name, severity))(generator)


def _corrupt(corrupt: Corrupt, name: str, severity: int, image: SourceImage) -> Generated:
    source = prepare_image(image.rgb)
    words = seed_words(image.id)
    arguments = {"seed": int(words[0])} if name in TAKES_SEED else {}
    with _reproducible(words):
        values = np.asarray(corrupt(source, severity, **arguments))
    return Generated(values.astype(np.uint8, order="C"), {"corruption": name, "severity": severity})


@contextlib.contextmanager
def _reproducible(words: npt.NDArray[np.uint32]) -> Iterator[None]:
    """Seed NumPy's global random state and round its `exp` correctly, and put both back at the end.

    NumPy's `exp` has other last bits on CPUs with AVX-512, and the C library's on those without FMA. The library and
    SciPy compute the kernels of blurs by it: 49 numbers at most, and few kernels.
    """
    numpy_exp, state = np.exp, np.random.get_state()
    np.exp = _exp  # type: ignore[assignment]
    np.random.seed(words)
    try:
        yield
    finally:
        np.exp = numpy_exp
        np.random.set_state(state)


def _exp(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    exponents = np.asarray(values, np.float64)
    return np.array([_exp_of(value) for value in exponents.ravel().tolist()]).reshape(exponents.shape)


@functools.lru_cache(maxsize=4096)
def _exp_of(value: float) -> float:
    return float(decimal.Decimal(value).exp(decimal.Context(prec=50)))
