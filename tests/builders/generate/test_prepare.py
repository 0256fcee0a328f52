"""Prepared originals, held against torchvision's transforms."""

import dataclasses

import numpy as np
import pytest

from builders.generate.adversarial.network import RESNET50, VIT
from builders.generate.sealed import prepare_original
from tests.builders.photographs import pieces

SIZES = [(500, 375), (375, 500), (256, 256), (257, 611), (91, 60), (1000, 301)]


@pytest.mark.parametrize("model", [RESNET50, VIT, dataclasses.replace(RESNET50, interpolation="bicubic", resize=255)])
def test_images_are_prepared_as_torchvision_prepares_them(model):
    transforms = pytest.importorskip("torchvision.transforms")
    mode = transforms.InterpolationMode(model.interpolation)
    theirs = transforms.Compose(
        [transforms.Resize(model.resize, interpolation=mode), transforms.CenterCrop(model.size)]
    )
    (piece,) = pieces(1, 64, 3)
    for size in SIZES:
        image = piece.convert("RGB").resize(size)
        ours = prepare_original(image, model.preparation)
        assert ours.shape == (model.size, model.size, 3)
        np.testing.assert_array_equal(ours, np.asarray(theirs(image)))
