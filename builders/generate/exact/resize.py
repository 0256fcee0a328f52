"""Resizes images without aliasing: straight to 32 x 32, or by LSUN-FIX's published procedure with a crop.

Pillow's `BILINEAR` filter grows with the scale factor, so that every source pixel counts. It resamples 8-bit images in
integer arithmetic, so equal inputs give equal pixels on every machine; only the decoder may differ between versions.

Columns and rows take two calls, because Pillow 13 changed the order of the two within one call for tall images
(python-pillow/Pillow #9549), after which one pixel in six was one level off. Earlier versions always began with the
columns; with two calls Pillow 11, 12 and 13 agree.

Tack et al. (CSI, NeurIPS 2020) found that the resized LSUN and ImageNet images in circulation can be detected by their
lack of smoothness alone, because they were shrunk without antialiasing. Kim et al. (section 3.1) follow them and
resize the original images again.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

from builders.generate.contract import SIDE, EachImage, Generated, Generator, SourceImage
from builders.release.images import resized_size

LSUN_FIX_SHORTER_SIDE = 256
"""The first resize of LSUN-FIX, and the side of its crop. LSUN's own images have this shorter side already."""


def fixed_resize(image: Image.Image) -> Image.Image:
    """Shrink an image to 32 x 32 RGB in one step, without a crop and without aliasing.

    The order of operations: the image is decoded at full size (never scaled by the JPEG decoder) and turned upright,
    converted to RGB by Pillow, and shrunk to 32 columns and then to 32 rows. The aspect ratio is not kept. So the
    loader of the authors of Kim et al. treats images without a procedure of their own (DTD, Tiny ImageNet158); the
    paper names neither filter nor crop. BILINEAR is the default of torchvision's `Resize` for Pillow images.
    """
    return _resized(image, (SIDE, SIDE))


def lsun_fix(image: Image.Image) -> Image.Image:
    """Make an image of LSUN-FIX: resize the shorter side to 256, crop the centre, resize to 32 x 32 RGB.

    This is the procedure that Tack et al. published with their code (alinlab/CSI, `lsun_fix_preprocess.py`):
    torchvision's `Resize(256)`, `CenterCrop(256)` and `Resize(32)` on Pillow images. For an image of 256 x 256 it
    gives the pixels of `fixed_resize`; of any other shape it cuts off both ends of the longer side, where
    `fixed_resize` squeezes them in.
    """
    side = LSUN_FIX_SHORTER_SIDE
    return _resized(centre_crop(shorter_side(image, side), side), (SIDE, SIDE))


def shorter_side(image: Image.Image, side: int) -> Image.Image:
    """Return an image in RGB whose shorter side has `side` pixels, as torchvision's `Resize(side)` makes it.

    The longer side is cut to a whole number of pixels. Smaller images are enlarged. An alpha channel is dropped.
    `TooNarrowError` if it would have more than 100 million pixels.
    """
    return _resized(image, resized_size(image.size, side))


def centre_crop(image: Image.Image, side: int) -> Image.Image:
    """Crop the square of `side` pixels at the centre of an image, as torchvision's `CenterCrop(side)` does."""
    # Python rounds halves to even, as in torchvision.
    left, top = (round((length - side) / 2) for length in image.size)
    return image.crop((left, top, left + side, top + side))


def resized(image: Image.Image, size: tuple[int, int], filter_: Image.Resampling) -> Image.Image:
    """Resize the columns of an RGB image and then its rows, so that every version of Pillow gives the same pixels."""
    return image.resize((size[0], image.height), filter_).resize(size, filter_)


def _resized(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    rgb = image if image.mode == "RGB" else image.convert("RGB")
    return resized(rgb, size, Image.Resampling.BILINEAR)


def _fixed(image: SourceImage) -> Generated:
    return Generated(np.asarray(fixed_resize(image.rgb)))


FIXED_RESIZE = Generator(
    name="fixed-resize-32",
    version=1,
    description="decoded at full size, RGB, Pillow BILINEAR to 32 columns and then to 32 rows",
    size=(SIDE, SIDE),
    start=EachImage(_fixed),
    parameters={"side": SIDE},
)


def _lsun_fix(image: SourceImage) -> Generated:
    return Generated(np.asarray(lsun_fix(image.rgb)))


LSUN_FIX_RESIZE = Generator(
    name="lsun-fix-32",
    version=1,
    description="LSUN-FIX's published procedure: decoded at full size, RGB, shorter side to 256, the 256 x 256 at the "
    "centre, then 32 x 32, each resize by Pillow BILINEAR with columns before rows",
    size=(SIDE, SIDE),
    start=EachImage(_lsun_fix),
    parameters={"shorter_side": LSUN_FIX_SHORTER_SIDE, "crop": LSUN_FIX_SHORTER_SIDE, "side": SIDE},
)
