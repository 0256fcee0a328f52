"""Prepares originals at a model's own size, as its weights were evaluated.

ILSVRC2012 has validation images with a side below 224. They are enlarged, as they are by torchvision's `Resize` where
accuracies are measured and by ImageNet-C's code, so they are no error here.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image

from builders.generate.adversarial.models import Model
from builders.generate.exact.corruptions import resized_size

_FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def prepared(image: Image.Image, model: Model) -> npt.NDArray[np.uint8]:
    """Resize an image so that its shorter side has `model.resize` pixels, and crop the centre.

    A smaller image is enlarged. The arithmetic is that of torchvision's `Resize` and `CenterCrop` on a Pillow image:
    the longer side is cut to a whole number of pixels, the crop's corner is rounded half to even.

    Args:
        image: mode RGB, any size.
        model: the model.

    Returns:
        Shape (size, size, 3).

    Raises:
        TooNarrowError: the resized image would not fit into memory.
    """
    width, height = resized_size(image.size, model.resize)
    resized = image.resize((width, height), _FILTERS[model.interpolation])
    left, top = (round((side - model.size) / 2) for side in (width, height))
    return np.asarray(resized.crop((left, top, left + model.size, top + model.size)))
