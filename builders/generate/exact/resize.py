"""The fixed resize: shrinks images to 32 x 32 without aliasing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from builders.generate.arrays import SIDE
from builders.generate.contract import Generate, Generated, Generator, SourceImage


def fixed_resize(image: Image.Image) -> Image.Image:
    """Shrink an image to 32 x 32 RGB without aliasing.

    The order of operations: the image is decoded at full size (never scaled by the JPEG decoder) and turned upright,
    converted to RGB by Pillow, and shrunk to 32 columns and then to 32 rows (the aspect ratio is not kept). The filter
    is Pillow's `BILINEAR`, whose support grows with the scale factor, so that every source pixel counts.

    Columns and rows take two calls, because Pillow 13 changed the order of the two within one call for tall images
    (python-pillow/Pillow #9549), after which one pixel in six was one level off. Earlier versions always began with
    the columns; with two calls Pillow 11, 12 and 13 agree.

    Tack et al. (CSI, NeurIPS 2020) found that the resized LSUN and ImageNet images in circulation can be detected by
    their lack of smoothness alone, because they were shrunk without antialiasing. Kim et al. (section 3.1) follow them
    and resize the original images again. Neither paper's text names the filter or a crop, so these are ours: BILINEAR
    is the default of torchvision's `Resize` for Pillow images, and nothing is cropped, since the images in circulation
    show whole scenes.

    Args:
        image: any mode and size.

    Returns:
        32 x 32, mode RGB. Pillow resamples 8-bit images in integer arithmetic, so equal inputs give equal pixels on
        every machine; only the decoder may differ between versions.
    """
    rgb = image if image.mode == "RGB" else image.convert("RGB")
    columns = rgb.resize((SIDE, image.height), Image.Resampling.BILINEAR)
    return columns.resize((SIDE, SIDE), Image.Resampling.BILINEAR)


def _start(_: Generator) -> Generate:
    return _generate


def _generate(images: Sequence[SourceImage]) -> list[Generated]:
    return [Generated(np.asarray(fixed_resize(image.rgb))) for image in images]


FIXED_RESIZE = Generator(
    name="fixed-resize-32",
    version=1,
    description="decoded at full size, RGB, Pillow BILINEAR to 32 columns and then to 32 rows",
    size=(SIDE, SIDE),
    start=_start,
    parameters={"side": SIDE},
)
