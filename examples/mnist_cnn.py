"""The network of Abdelzad, Czarnecki and Salay (2020) for `examples/train.py --optimizer`; see docs/training.md."""

from typing import Any

from torch import Tensor, nn
from torchvision.transforms import functional


def preprocessing(image: Any) -> Tensor:
    """Turn an image of 28 x 28 into a tensor; of an image of another size, take the middle."""
    if image.size != (28, 28):
        image = functional.center_crop(functional.resize(image, 32), 28)
    return functional.to_tensor(image)


def mnist_cnn(num_classes: int) -> nn.Module:
    """Build two convolutions, two linear layers and dropout, for images of 28 x 28.

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
    model.preprocessing = preprocessing
    model.feature_blocks = ["0", "1"]
    return model
