"""Models of a few kilobytes, as somebody would write them for `--model FILE.py:FUNCTION`."""

import time

from tests.evaluation.extra import nn, torch, torchvision

transforms = torchvision.transforms
MEAN, STD = [0.5, 0.4, 0.3], [0.2, 0.25, 0.5]
PREPROCESSING = transforms.Compose([transforms.Resize((8, 8)), transforms.ToTensor(), transforms.Normalize(MEAN, STD)])


def images_of(size=8, count=12):
    """Noise as models get it, the same every time."""
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(3))


def eight(image):
    """To the input of the models here, without their mean and standard deviation."""
    return transforms.functional.to_tensor(image.resize((8, 8)))


class Small(nn.Module):
    """Two blocks, dropout and a last layer, for images of 8 x 8."""

    def __init__(self, classes, dropout=0.0):
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(inplace=True))
        self.layer2 = nn.Sequential(nn.Conv2d(6, 10, 3, stride=2, padding=1), nn.ReLU(inplace=True))
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(10, classes)
        self.preprocessing = PREPROCESSING

    def forward(self, images):
        """Logits of images (B, 3, 8, 8)."""
        return self.fc(self.dropout(self.layer2(self.layer1(images)).mean(dim=(2, 3))))


def cnn(num_classes):
    """Without dropout."""
    return Small(num_classes)


def with_dropout(num_classes):
    """Half of the last features dropped while training."""
    return Small(num_classes, dropout=0.5)


class Slow(Small):
    """Sleeps for a batch, whatever its size, so that passes can be counted by a clock."""

    def forward(self, images):
        """Logits of images (B, 3, 8, 8)."""
        time.sleep(0.03)
        return super().forward(images)


def slow(num_classes):
    """With dropout, as `with_dropout`."""
    return Slow(num_classes, dropout=0.5)


class Scaled(Small):
    """Has another number of each logit than its last layer gives."""

    def forward(self, images):
        """Logits of images (B, 3, 8, 8)."""
        return 0.5 * super().forward(images)


def scaled(num_classes):
    """Without a linear head."""
    return Scaled(num_classes)


class AlwaysDropping(Small):
    """Drops values in eval mode too, as the unified benchmark's networks do."""

    def forward(self, images):
        """Logits, others at every call."""
        features = self.layer2(self.layer1(images)).mean(dim=(2, 3))
        return self.fc(nn.functional.dropout(features, 0.5, training=True))


def always_dropping(num_classes):
    """Half of the last features dropped, always."""
    return AlwaysDropping(num_classes)


class Noisy(Small):
    """Adds noise that is no dropout."""

    def forward(self, images):
        """Logits, others at every call."""
        return super().forward(images + torch.randn_like(images))


def noisy(num_classes):
    """Other logits at every call."""
    return Noisy(num_classes)


def of_three():
    """A model that has its own number of classes, and names its blocks."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    model.feature_blocks = ["0", "1"]
    return model


of_three.preprocessing = transforms.Compose([transforms.Resize((6, 8)), transforms.ToTensor()])


def without_preprocessing(num_classes):
    """What everybody forgets at first."""
    return nn.Sequential(nn.Flatten(), nn.Linear(192, num_classes))


def probabilities(num_classes):
    """A softmax in place of logits, with weights that are the same at every call."""
    model = nn.Sequential(of_seed(cnn, num_classes=num_classes), nn.Softmax(1))
    model.preprocessing = PREPROCESSING
    return model


def of_mapping(num_classes):
    """What a preprocessing is not."""
    model = without_preprocessing(num_classes)
    model.preprocessing = {"size": 8}
    return model


def no_model():
    """Returns something else."""
    return {}


def of_seed(make, seed=0, **kwargs):
    """A model with weights that are the same every time, batch norm's statistics included."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = make(**kwargs)
        for name, tensor in model.state_dict().items():
            if name.endswith("running_mean"):
                tensor.normal_()
            elif name.endswith("running_var"):
                tensor.uniform_(0.5, 2)
    return model.eval()
