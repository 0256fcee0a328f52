"""A small classifier of ten classes for tests, which classifies its images right."""

import copy
import functools

import numpy as np

from builders.generate.adversarial.network import AttackedModel, Network
from tests.builders.generate.adversarial.real import one_thread

CLASSES, SIDE, IMAGES = 10, 32, 24
MODEL = AttackedModel("small", "none", SIDE, SIDE, "bilinear", (0.4, 0.5, 0.6), (0.2, 0.25, 0.3))


@functools.cache
def network():
    """A convolutional network, trained for a moment on `images()`."""
    import torch

    one_thread()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 5, stride=2),
            torch.nn.BatchNorm2d(16),
            torch.nn.ReLU(),
            torch.nn.Dropout(0.5),
            torch.nn.Conv2d(16, 16, 5, stride=2),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(16 * 25, CLASSES),
        )
        pixels, labels = images()
        mean, std = (torch.tensor(values).reshape(3, 1, 1) for values in (MODEL.mean, MODEL.std))
        inputs = (torch.from_numpy(pixels.transpose(0, 3, 1, 2) / np.float32(255)) - mean) / std
        optimizer = torch.optim.Adam(module.parameters(), 3e-3)
        for _ in range(60):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(module(inputs), torch.from_numpy(labels)).backward()
            optimizer.step()
    return Network(MODEL, module, "cpu")


def double_network():
    """The same in double precision, rounded once: no logit and no gradient depends on the batch."""
    import torch

    class InDouble(torch.nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = copy.deepcopy(module).double()

        def forward(self, pixels):
            return self.module(pixels.double()).float()

    double = copy.copy(network())
    double.module, double.fast = InDouble(double.module), InDouble(double.fast)
    return double


@functools.cache
def images():
    """Images of noise around a colour, and their classes."""
    drawn = np.random.RandomState(0)
    pixels = drawn.randint(60, 196, (IMAGES, 1, 1, 3)) + drawn.randint(-40, 40, (IMAGES, SIDE, SIDE, 3))
    return pixels.clip(0, 255).astype(np.uint8), np.arange(IMAGES) % CLASSES
