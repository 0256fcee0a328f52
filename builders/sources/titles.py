"""Keys and titles of the sources that users have copies of; a source's module is imported on first use.

Tested by `tests/builders/sources/test_titles.py`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from builders.sources.base import Source

TITLES: Mapping[str, str] = {
    "imagenet": "ImageNet-1k (ILSVRC2012)",
    "food101": "Food-101",
    "caltech256": "Caltech-256",
    "places365": "Places365-Standard",
    "cifar100": "CIFAR-100",
    "svhn": "SVHN (cropped digits)",
    "lsun": "LSUN",
    "lsun_fix": "LSUN-FIX",
    "dtd": "Describable Textures (DTD)",
    "sun397": "SUN397",
    "svhn_full": "SVHN (full numbers)",
    "inaturalist": "iNaturalist (subset for out-of-distribution detection)",
    "imagenet_o": "ImageNet-O",
    "openimage_o": "OpenImage-O",
    "coco2017": "COCO 2017",
    "partial_broad": "PartialBROAD",
    "ninco": "NINCO",
    "imagenet_v2": "ImageNetV2 (matched frequency)",
    "imagenet_r": "ImageNet-R",
    "imagenet21k": "ImageNet-21k",
    "imagenet_c": "ImageNet-C",
    "cifar10": "CIFAR-10",
    "mnist": "MNIST",
    "tiny_imagenet": "Tiny ImageNet",
    "imagenet_es": "ImageNet-ES",
    "cub200": "CUB-200-2011",
    "fgvc_aircraft": "FGVC-Aircraft",
    "mos_sun": "SUN (subset for out-of-distribution detection)",
}
"""The title of every source by its key, which is also its flag on the command line and the name of its module."""


def source_of(key: str) -> Source:
    """Return the source with a key of `TITLES`; its module declares it under the key in capitals."""
    source: Source = getattr(importlib.import_module(f"builders.sources.datasets.{key}"), key.upper())
    return source
