"""Networks for pictures of 8 x 8 that learn digits in seconds, written for `--model FILE.py:NAME`."""

from torch import nn
from torchvision import transforms
from torchvision.transforms._presets import ImageClassification

MEAN, STD = (0.3, 0.3, 0.3), (0.4, 0.4, 0.4)


def small(num_classes, rate=0.0):
    """Two convolutions and a last layer; with a rate, dropout before the last layer."""
    model = nn.Sequential(
        nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
        nn.Sequential(nn.Conv2d(16, 24, 3, stride=2, padding=1), nn.BatchNorm2d(24), nn.ReLU()),
        nn.Flatten(),
        nn.Dropout(rate),
        nn.Linear(24 * 4 * 4, num_classes),
    )
    steps = [transforms.Resize((8, 8)), transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    model.preprocessing = transforms.Compose(steps)
    model.feature_blocks = ["0", "1"]
    return model


def small_dropout(num_classes):
    """The same with dropout."""
    return small(num_classes, 0.2)


def large(num_classes):
    """For images above 64 pixels, which have the other recipe; it averages the whole image."""
    model = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, num_classes))
    model.preprocessing = ImageClassification(crop_size=72, resize_size=80, mean=MEAN, std=STD)
    return model
