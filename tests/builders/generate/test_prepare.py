"""Prepared originals, held against torchvision's transforms."""

import dataclasses

import numpy as np
import pytest

from builders.generate.adversarial.network import RESNET50, VIT
from builders.generate.sealed import prepare_original
from builders.release.images import array_sha256
from tests.builders.generate.exact.test_resize import scene
from tests.builders.photographs import pieces

SIZES = [(500, 375), (375, 500), (256, 256), (257, 611), (91, 60), (1000, 301)]


@pytest.mark.parametrize("model", [RESNET50, VIT, dataclasses.replace(RESNET50, interpolation="bicubic", resize=255)])
def test_images_are_prepared_as_torchvision_prepares_them(model):
    transforms = pytest.importorskip("torchvision.transforms")
    mode = transforms.InterpolationMode(model.interpolation)
    resize, crop = transforms.Resize(model.resize, interpolation=mode), transforms.CenterCrop(model.size)
    (piece,) = pieces(1, 64, 3)
    for size in SIZES:
        image = piece.convert("RGB").resize(size)
        ours = prepare_original(image, model.preparation)
        assert ours.shape == (model.size, model.size, 3)
        # Columns first, which torchvision leaves to Pillow, and Pillow 13 does the other way where that is faster.
        narrowed = transforms.Resize((image.height, resize(image).width), interpolation=mode)(image)
        theirs = transforms.Resize(resize(image).size[::-1], interpolation=mode)(narrowed)
        np.testing.assert_array_equal(ours, np.asarray(crop(theirs)))


def test_the_version_of_pillow_does_not_matter():
    """Pillow 13 resizes rows before columns where that is faster; one in 1,000 photographs did not open then."""
    tall = scene(5).resize((300, 1700))
    # The same under Pillow 11.0.0, 12.0.0 and 13.0.0.
    for model, digest in ((RESNET50, "d7cdf5fbd92337c0"), (VIT, "4d860443a7233f76")):
        prepared = prepare_original(tall, model.preparation)
        assert array_sha256(prepared[None])[0][:16] == digest
