"""Images that we make, each by a named function of one image and its row's id: resized, arrays as images, noise."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

SIDE = 32
"""Width and height of every image of the CIFAR-scale benchmark."""


@dataclass(frozen=True)
class Transform:
    """How a row's image is made.

    `name` ends the row's id (`<source>/<source_id>#<name>`) and is part of the format: another recipe is another name.
    An empty name marks images that are the source's own pixels. `apply` takes the source's image (upright, in whatever
    mode it has; None where the source has none) and the row's id, and makes an RGB image of `size` (width, height).
    """

    name: str
    description: str
    size: tuple[int, int]
    apply: Callable[[Image.Image | None, str], Image.Image]

    def row_id(self, source_id: str) -> str:
        """The id of the row that is made from an image; `source_id` has its source in front."""
        return f"{source_id}#{self.name}" if self.name else source_id

    @property
    def nominal_bytes(self) -> int:
        """Bytes that one made image counts when shards are cut: its pixels, which do not depend on an encoder."""
        return self.size[0] * self.size[1] * 3


def fixed_resize(image: Image.Image) -> Image.Image:
    """Shrink an image to 32 x 32 RGB without aliasing.

    The order of operations: the whole image is decoded at full size (never by a JPEG decoder's own scaling) and turned
    upright; converted to RGB by Pillow; shrunk to 32 columns and then to 32 rows (the aspect ratio is not kept), by
    Pillow's `BILINEAR` filter, whose triangle is as wide as the shrinkage asks, so that every source pixel counts.

    The two sides are two calls because one call does them in an order that Pillow 13 changed for tall images
    (python-pillow/Pillow #9549), by which one pixel in six came out one level off. Columns first is what every
    earlier version did, so that Pillow 11, 12 and 13 agree.

    Tack et al. (CSI, NeurIPS 2020) found that the resized LSUN and ImageNet images in circulation are told apart by
    their smoothness alone, since they were shrunk without such a filter; Kim et al. (section 3.1) resize the original
    images anew after them. The text of neither paper at hand names filter or cropping. BILINEAR is what torchvision's
    `Resize` does with Pillow images by default; nothing is cropped, since the images in circulation show whole
    scenes.

    Args:
        image: any mode and size.

    Returns:
        32 x 32, mode RGB. Pillow resamples 8-bit images in integer arithmetic, so equal pixels in give equal pixels
        out on every machine; the decoder in front of it is the only part that may differ between versions.
    """
    columns = _as_rgb(image).resize((SIDE, image.height), Image.Resampling.BILINEAR)
    return columns.resize((SIDE, SIDE), Image.Resampling.BILINEAR)


def gaussian_noise(row_id: str) -> Image.Image:
    """Draw i.i.d. noise from N(0.5, 1) for each channel of each pixel, clipped to [0, 1]; Kim et al., table 2.

    The generator is NumPy's legacy `RandomState` (MT19937 and the polar method), which is frozen: its stream stays
    the same in every version (NEP 19). Its seed is the SHA-256 of the row's id as eight 32-bit words, so one row's
    image needs no other. Values become 8-bit by `rint(255 * x)`.

    Args:
        row_id: such as `noise/00042#gaussian-32`.

    Returns:
        32 x 32, mode RGB.
    """
    words = np.frombuffer(hashlib.sha256(row_id.encode()).digest(), dtype="<u4")
    drawn = np.random.RandomState(words).normal(0.5, 1.0, (SIDE, SIDE, 3))
    pixels: npt.NDArray[np.uint8] = np.rint(255 * np.clip(drawn, 0, 1)).astype(np.uint8)
    return Image.fromarray(pixels)


def _apply_resize(image: Image.Image | None, _: str) -> Image.Image:
    return fixed_resize(_given(image))


def _apply_noise(_: Image.Image | None, row_id: str) -> Image.Image:
    return gaussian_noise(row_id)


def _apply_nothing(image: Image.Image | None, _: str) -> Image.Image:
    return _as_rgb(_given(image))


def _as_rgb(image: Image.Image) -> Image.Image:
    # `convert` copies an image that is RGB already, which for a photograph takes as long as the resize.
    return image if image.mode == "RGB" else image.convert("RGB")


def _given(image: Image.Image | None) -> Image.Image:
    if image is None:
        raise ValueError("this transform needs an image of a source")
    return image


AS_PNG = Transform("", "the source's own pixels as PNG", (SIDE, SIDE), _apply_nothing)
FIXED_RESIZE = Transform(
    "fixed-resize-32",
    "decoded at full size, RGB, Pillow BILINEAR to 32 columns and then to 32 rows",
    (SIDE, SIDE),
    _apply_resize,
)
GAUSSIAN_NOISE = Transform(
    "gaussian-32",
    "N(0.5, 1) for each channel, clipped to [0, 1], from NumPy's RandomState",
    (SIDE, SIDE),
    _apply_noise,
)

TRANSFORMS: Mapping[str, Transform] = {
    transform.name: transform for transform in (AS_PNG, FIXED_RESIZE, GAUSSIAN_NOISE)
}
"""By name, which is what a worker is told."""
