"""The network of Abdelzad, Czarnecki and Salay (2020) for `examples/train.py --optimizer`; see docs/training.md."""

from torch import nn


def mnist_cnn(num_classes: int) -> nn.Module:
    """Two convolutions, two linear layers and dropout, for images of 28 x 28.

    The paper says no more than that (section 4.1); sizes and rates are those of Keras' own example for MNIST.
    """
    model = nn.Sequential(
        nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU()),  # grey images are read as RGB
        nn.Sequential(nn.Conv2d(32, 64, 3), nn.ReLU()),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Sequential(nn.Linear(64 * 12 * 12, 128), nn.ReLU()),
        nn.Dropout(0.5),
        nn.Linear(128, num_classes),
    )
    model.preprocessing = {"size": 28, "mean": [0, 0, 0], "std": [1, 1, 1]}
    model.feature_blocks = ["0", "1"]
    return model
