"""The demo's model: a small convolutional network, trained on the digits of the demo's release.

It also shows the form of a file for `FILE.py:FUNCTION` on the command line: a function that returns a
`torch.nn.Module`, with an attribute `preprocessing`.

Tested by `tests/evaluation/demo/test_walkthrough.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EPOCHS = 12
_BATCH = 50

OPTIMIZERS: Mapping[str, Mapping[str, float]] = {"adam": {"lr": 2e-3}, "sgd": {"lr": 5e-2, "momentum": 0.9}}
"""The training methods of the demo, by the names of torch's optimizers; all reach about the same accuracy."""


def digits_cnn(num_classes: int) -> Any:
    """Build a network of three convolutions, global average pooling, dropout, and a linear layer."""
    from torch import nn

    def block(inputs: int, outputs: int) -> Any:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())

    model = nn.Sequential()
    model.block1, model.pool, model.block2, model.block3 = block(3, 16), nn.MaxPool2d(2), block(16, 32), block(32, 64)
    model.mean, model.flatten, model.dropout = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2)
    model.head = nn.Linear(64, num_classes)
    model.feature_blocks = ("block1", "block2", "block3")
    return model


def preprocessing(image: Any) -> Any:
    """Normalize an image of 8 x 8 by the mean and the standard deviation of the training images' pixels, rounded."""
    from torchvision.transforms import functional

    return functional.normalize(functional.to_tensor(functional.resize(image, [8, 8])), [0.31] * 3, [0.38] * 3)


digits_cnn.preprocessing = preprocessing  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Training:
    """The optimizer and seed of one model."""

    optimizer: str
    seed: int

    @property
    def name(self) -> str:
        """Stem of this run's file names."""
        return f"{self.optimizer}-{self.seed}"


def train(images: Any, labels: Any, classes: int, training: Training) -> Any:
    """Train a model from random initialization; equal arguments give equal weights on one machine.

    `images` are float32 of shape (n, 3, 8, 8), labels int64 of shape (n,). The model is returned in eval mode. For
    such small models and images, more threads than one are slower, and may change the last bits of sums: torch is left
    with one.
    """
    import torch

    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        model = digits_cnn(classes).train()
        optimizer_class = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[training.optimizer]
        optimizer = optimizer_class(model.parameters(), **OPTIMIZERS[training.optimizer])
        steps = EPOCHS * -(-len(labels) // _BATCH)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        for _ in range(EPOCHS):
            for batch in torch.randperm(len(labels)).split(_BATCH):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
                optimizer.step()
                schedule.step()
    return model.eval()


def batch_of(images: Any) -> Any:
    """Return all images of a split, preprocessed, as one tensor of shape (n, 3, 8, 8)."""
    import torch

    return torch.stack([preprocessing(image.convert("RGB")) for image in images])
