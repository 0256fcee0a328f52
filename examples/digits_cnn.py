"""A small convolutional network for the digits of `examples/digits_release.py`, and its training: three seconds.

It also shows the form of a file for `--model FILE.py:FUNCTION` on the command line: a function that returns a
`torch.nn.Module`, with an attribute `preprocessing`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torchvision import transforms

from unknown_detection.evaluation.releases import Release

EPOCHS, BATCH = 12, 50

OPTIMIZERS: Mapping[str, Mapping[str, float]] = {"adam": {"lr": 2e-3}, "sgd": {"lr": 5e-2, "momentum": 0.9}}
"""Training methods, by the names of torch's optimizers; both reach about the same accuracy."""


def digits_cnn(num_classes: int) -> nn.Module:
    """Build a network of three convolutions, global average pooling, dropout, and a linear layer."""

    def block(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())

    model = nn.Sequential()
    model.block1, model.pool, model.block2, model.block3 = block(3, 16), nn.MaxPool2d(2), block(16, 32), block(32, 64)
    model.mean, model.flatten, model.dropout = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2)
    model.head = nn.Linear(64, num_classes)
    model.feature_blocks = ("block1", "block2", "block3")
    # Grey images are read as RGB. Mean and deviation are those of the training images' pixels, rounded.
    model.preprocessing = transforms.Compose(
        [
            transforms.Resize((8, 8)),
            transforms.ToTensor(),
            transforms.Normalize([0.31, 0.31, 0.31], [0.38, 0.38, 0.38]),
        ]
    )
    return model


def train(release: Release, optimizer: str = "adam", seed: int = 0) -> nn.Module:
    """Train on the split `digits-train/train`; equal arguments give equal weights on one machine."""
    torch.set_num_threads(1)  # with such small images, more threads are slower
    torch.manual_seed(seed)
    labels = torch.tensor(release.rows("digits-train", "train")["label"].to_pylist())
    model = digits_cnn(len(release.label_names("digits-train")))
    rows = release.images("digits-train", "train")
    images = torch.stack([model.preprocessing(row["image"].convert("RGB")) for row in rows])
    steps = EPOCHS * -(-len(labels) // BATCH)
    training = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[optimizer](
        model.parameters(), **OPTIMIZERS[optimizer]
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(training, steps)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(labels)).split(BATCH):
            training.zero_grad()
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            training.step()
            schedule.step()
    return model.eval()
