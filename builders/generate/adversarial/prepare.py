"""Prepares originals at a model's own size, as its weights were evaluated."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image

from builders.generate.adversarial.models import Model

_FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def prepared(image: Image.Image, model: Model) -> npt.NDArray[np.uint8]:
    """Resize an image so that its shorter side has `model.resize` pixels, and crop the centre.

    The arithmetic is that of torchvision's `Resize` and `CenterCrop` on a Pillow image: the longer side is cut to a
    whole number of pixels, the crop's corner is rounded half to even.

    Args:
        image: mode RGB, any size.
        model: the model.

    Returns:
        Shape (size, size, 3).
    """
    width, height = image.size
    short = min(width, height)
    width, height = (model.resize * side // short for side in (width, height))
    resized = image.resize((width, height), _FILTERS[model.interpolation])
    left, top = (round((side - model.size) / 2) for side in (width, height))
    return np.asarray(resized.crop((left, top, left + model.size, top + model.size)))
