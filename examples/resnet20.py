"""The network that the unified benchmark's published code trains on CIFAR-40, for `--model`.

    python examples/train.py --model examples/resnet20.py:resnet20 --release DIR --known cifar-train --out runs/ce

Kim, Koo and Hwang write ResNet-18 (section 4.1); their code makes this ResNet-20, which has a fortieth of its weights.
"""

from typing import Any

from torch import Tensor, nn
from torchvision.models.resnet import BasicBlock
from torchvision.transforms import functional


def preprocessing(image: Any) -> Tensor:
    """Normalize an image of 32 x 32; of an image of another size, take the middle as `train.py` does."""
    if image.size != (32, 32):
        image = functional.center_crop(functional.resize(image, 36), 32)
    return functional.normalize(functional.to_tensor(image), (0.507, 0.487, 0.441), (0.267, 0.256, 0.276))


def resnet20(num_classes: int, rate: float = 0.0) -> nn.Module:
    """Build three stages of three blocks, 16, 32 and 64 channels (He et al., section 4.2), with 1 x 1 shortcuts."""
    layers: list[nn.Module] = [
        nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
    ]
    before = 16
    for width, stride in ((16, 1), (32, 2), (64, 2)):
        shortcut = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        first = BasicBlock(before, width, stride, shortcut if stride > 1 else None)
        layers.append(nn.Sequential(first, BasicBlock(width, width), BasicBlock(width, width)))
        before = width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(rate), nn.Linear(64, num_classes))
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        if rate and isinstance(module, BasicBlock):
            module.bn1, module.bn2 = (nn.Sequential(norm, nn.Dropout(rate)) for norm in (module.bn1, module.bn2))
    model.preprocessing, model.feature_blocks = preprocessing, ["1", "2", "3"]
    return model


def resnet20_dropout(num_classes: int) -> nn.Module:
    """Build `resnet20` with dropout for `--method mcdropout`, at the rates of `train.py`."""
    return resnet20(num_classes, 0.1)
