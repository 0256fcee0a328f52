"""PGD, held against torchattacks' own."""

import numpy as np
import pytest

from builders.generate.adversarial.attacks import PGD
from tests.builders.generate.adversarial import small
from tests.builders.generate.adversarial.real import TORCH, needed

pytestmark = needed(*TORCH)

SEEDS = tuple(range(small.IMAGES))


def attacked(attack, rows=slice(None)):
    import torch

    network = small.network()
    pixels, labels = small.images()
    images, classes = network.pixels(pixels)[rows], torch.from_numpy(labels)[rows]
    ((part, result),) = attack.candidates(network, images, classes, SEEDS[rows])
    assert part == ""
    return images, classes, result


def test_steps_are_those_of_torchattacks():
    import torch

    torchattacks = pytest.importorskip("torchattacks")
    settings = PGD(epsilon=0.05, steps=10, step_size=2 / 255, random_start=False)
    images, labels, ours = attacked(settings)
    theirs = torchattacks.PGD(small.network().module, eps=0.05, alpha=2 / 255, steps=10, random_start=False)
    result = theirs(images, labels)
    # Its loss is a mean, whose gradient has the same signs but where it is nearly 0.
    assert torch.isclose(ours, result, atol=1e-6).float().mean() > 0.999


def test_images_stay_in_the_ball_and_the_random_start_is_uniform_in_it():
    images, _, start = attacked(PGD(epsilon=0.05, steps=0))
    moved = (start - images).numpy()[((images > 0.05) & (images < 0.95)).numpy()]
    assert np.abs(moved).max() <= 0.05 + 1e-7
    # Of a uniform variable in [-e, e]: mean 0, variance e^2 / 3; here of some 30,000 values.
    assert abs(moved.mean()) < 0.05 / 50
    assert moved.var() == pytest.approx(0.05**2 / 3, rel=0.03)
    images, labels, result = attacked(PGD())
    assert (result - images).abs().max() <= 0.05 + 1e-6
    assert result.min() >= 0 and result.max() <= 1
    assert (small.network().module(result).argmax(dim=1) == labels).sum() == 0


def test_an_image_depends_neither_on_its_batch_nor_on_torchs_generator():
    import torch

    settings, before = PGD(steps=5), torch.random.get_rng_state()
    _, _, together = attacked(settings)
    assert torch.equal(torch.random.get_rng_state(), before)
    for rows in (slice(0, 1), slice(1, 6), slice(6, small.IMAGES)):
        _, _, alone = attacked(settings, rows)
        assert torch.isclose(alone, together[rows], atol=1e-6).float().mean() > 0.999
    _, _, repeated = attacked(settings)
    assert torch.equal(repeated, together)
