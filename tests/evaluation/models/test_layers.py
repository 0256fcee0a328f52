"""The last layer and the blocks of models of many kinds, against torchvision's and timm's own ways to features."""

import pytest

from tests.evaluation.extra import nn, timm, torch, torchvision
from tests.evaluation.small_models import images_of, of_seed
from tests.sentences import stops
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.layers import LOGITS_TOLERANCE, capture_outputs, find_layers

pytestmark = pytest.mark.usefixtures("one_thread")


def capture(model, images, declared=None):
    """The layers found, and what a run leaves."""
    layers = find_layers(model, images, declared=declared, name="it")
    with torch.inference_mode(), capture_outputs(model, layers) as outputs:
        outputs.logits = model(images)
        head = model.get_submodule(layers.head)
        bias = 0 if head.bias is None else head.bias
        of_head = outputs.penultimate @ head.weight.flatten(1).T + bias
        assert (of_head - outputs.logits).abs().max() <= LOGITS_TOLERANCE * max(outputs.logits.abs().max(), 1)
    assert outputs.penultimate.shape == (len(images), head.weight[0].numel())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    return layers, outputs


def same(ours, theirs):
    return torch.allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_resnet_of_torchvision():
    """Against `create_feature_extractor`, which rewrites the model's graph."""
    model = of_seed(torchvision.models.resnet18, num_classes=7)
    images = images_of(32)
    layers, outputs = capture(model, images)
    assert (layers.head, layers.blocks, layers.classes) == ("fc", ("layer1", "layer2", "layer3", "layer4"), 7)
    nodes = [*layers.blocks, "flatten"]
    theirs = torchvision.models.feature_extraction.create_feature_extractor(model, nodes)(images)
    assert same(outputs.penultimate, theirs["flatten"])
    for name in layers.blocks:
        assert same(outputs.blocks[name], theirs[name].flatten(2).mean(2))


def test_vision_transformer_of_timm_gives_class_tokens():
    """Against timm's `forward_intermediates`, whose prefix tokens begin with the class token."""
    model = of_seed(timm.create_model, model_name="vit_tiny_patch16_224", img_size=32, num_classes=7)
    images = images_of(32)
    layers, outputs = capture(model, images)
    final, intermediates = model.forward_intermediates(images, return_prefix_tokens=True)
    assert layers.blocks == tuple(f"blocks.{number}" for number in range(12))
    for name, (_, prefix) in zip(layers.blocks, intermediates, strict=True):
        assert same(outputs.blocks[name], prefix[:, 0])
    assert same(outputs.penultimate, model.forward_head(final, pre_logits=True))


def test_channels_last_and_means_of_tokens():
    """Swin keeps channels last; MLP-Mixer has tokens and no class token. Against `forward_intermediates`, NCHW."""
    for name, options in (
        ("swin_tiny_patch4_window7_224", {"img_size": 64, "window_size": 2, "depths": (1, 1, 1, 1)}),
        ("mixer_s32_224", {"img_size": 64}),
    ):
        model = of_seed(timm.create_model, model_name=name, num_classes=5, **options)
        images = images_of(64)
        layers, outputs = capture(model, images)
        _, intermediates = model.forward_intermediates(images)
        assert len(intermediates) == len(layers.blocks)
        for block, maps in zip(layers.blocks, intermediates, strict=True):
            assert same(outputs.blocks[block], maps.flatten(2).mean(2)), (name, block)


@pytest.mark.parametrize(
    ("make", "size", "head", "first", "last", "count"),
    [
        ("alexnet", 64, "classifier.6", "features.0", "features.10", 5),
        ("mobilenet_v3_small", 32, "classifier.3", "features.0", "features.12", 13),
        ("regnet_y_400mf", 32, "fc", "trunk_output.block1", "trunk_output.block4", 4),
        ("shufflenet_v2_x0_5", 32, "fc", "conv1", "conv5", 5),
        ("swin_t", 64, "head", "features.0", "features.7", 8),
        ("timm:regnety_002", 32, "head.fc", "s1", "s4", 4),  # what timm lists, without the stem
        ("timm:resnetv2_50x1_bit", 32, "head.fc", "stages.0", "stages.3", 4),  # its head is a convolution
    ],
)
def test_other_models(make, size, head, first, last, count):
    """By their definitions: a list of stages, or the children before the head."""
    library, _, name = make.rpartition(":")
    if library:
        model = of_seed(timm.create_model, model_name=name, num_classes=4)
    else:
        model = of_seed(torchvision.models.get_model, name=name, weights=None, num_classes=4)
    layers, outputs = capture(model, images_of(size))
    assert (layers.head, layers.blocks[0], layers.blocks[-1], len(layers.blocks)) == (head, first, last, count)
    if name == "swin_t":  # 96 channels in its first stage, whatever the size of the image, by the paper's table 7
        assert [block.shape[1] for block in outputs.blocks.values()] == [96, 96, 192, 192, 384, 384, 768, 768]


def test_declared_blocks_of_a_sequence():
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 6), nn.ReLU(inplace=True), nn.Linear(6, 4)).eval()
    images = images_of(4)
    layers, outputs = capture(model, images, declared=["1", "2"])
    hidden = images.flatten(1) @ model[1].weight.T + model[1].bias
    assert layers.blocks == ("1", "2")
    # What a block gave is kept as it was, though the next layer works in place.
    assert same(outputs.blocks["1"], hidden)
    assert same(outputs.blocks["2"], hidden.clamp(min=0))
    assert capture(model, images)[0].blocks == ("1",)


class Scaled(nn.Module):
    """Logits that are not what the last layer gives."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale
        self.body = nn.Linear(12, 5)
        self.fc = nn.Linear(5, 3)

    def forward(self, images):
        logits = self.fc(self.body(images.flatten(1)))
        # In place, so that the last layer's output is the logits and still not what it computed.
        return logits.mul_(self.scale)


class Cosine(nn.Linear):
    """Logits from the angle between features and each class's weights."""

    def forward(self, features):
        return 16 * nn.functional.linear(nn.functional.normalize(features), nn.functional.normalize(self.weight))


def test_heads_that_are_not_linear_are_said_to_be_none():
    """Scaled and cosine: their penultimate features are what goes into the last layer with weights."""
    images = images_of(2)
    assert find_layers(Scaled(1.0).eval(), images, declared=None, name="it").linear
    cosine = nn.Sequential(nn.Flatten(), nn.Linear(12, 5), Cosine(5, 3))
    for model, head, body in (
        (Scaled(0.5), "fc", lambda model: model.body),
        (cosine, "2", lambda model: model[1]),
    ):
        layers = find_layers(model.eval(), images, declared=None, name="it")
        assert (layers.head, layers.linear, layers.classes) == (head, False, 3)
        with torch.inference_mode(), capture_outputs(model, layers) as outputs:
            model(images)
            assert same(outputs.penultimate, body(model)(images.flatten(1)))


def test_a_distilled_transformer_of_timm():
    """Its logits are the mean of two heads on two tokens; the second's token is that of the distillation."""
    model = of_seed(timm.create_model, model_name="deit_tiny_distilled_patch16_224", img_size=32, num_classes=7)
    images = images_of(32)
    layers = find_layers(model, images, declared=None, name="it")
    assert (layers.head, layers.linear) == ("head_dist", False)
    with torch.inference_mode(), capture_outputs(model, layers) as outputs:
        model(images)
        assert same(outputs.penultimate, model.forward_features(images)[:, 1])


def test_logits_without_a_layer_of_weights_come_with_the_last_block():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 6, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    images = images_of(8)
    layers = find_layers(model, images, declared=None, name="it")
    assert (layers.head, layers.linear, layers.blocks) == ("", False, ("0", "1"))
    with torch.inference_mode(), capture_outputs(model, layers) as outputs:
        logits = model(images)
    assert same(outputs.penultimate, logits)  # the mean of the last maps, in this model both


class Listed(nn.Module):
    """A stem, a list of blocks under a name of its own, and a head, as in PyPI's EfficientNet."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3)
        self._stages = nn.ModuleList([nn.Conv2d(4, 5, 3), nn.Conv2d(5, 6, 3)])
        self.unused = nn.Linear(2, 2)
        self.classifier = nn.Linear(6, 3)

    def forward(self, images):
        """Logits."""
        maps = self.stem(images)
        for stage in self._stages:
            maps = stage(maps)
        return self.classifier(maps.mean((2, 3)))


class Wrapped(nn.Sequential):
    """A linear model whose logits a function changes."""

    def __init__(self, change):
        super().__init__(nn.Flatten(), nn.Linear(12, 3))
        self.change = change

    def forward(self, images):
        """Logits."""
        return self.change(super().forward(images))


@pytest.mark.parametrize(
    ("model", "declared"),
    [
        (nn.Conv2d(3, 3, 1), None),
        (Wrapped(lambda logits: logits[:1]), None),
        (Wrapped(lambda logits: logits + 0j), None),
        (nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), ["5"]),
        (Listed(), ["stem", "unused"]),
    ],
    ids=["no logits", "one image's", "complex", "no such block", "no block"],
)
def test_models_that_detectors_cannot_read(model, declared):
    with stops(EvaluationError, *(declared or [])):
        capture(model.eval(), images_of(12 if declared and len(declared) > 1 else 2), declared)


def test_blocks_in_a_list_are_found_without_what_does_not_run():
    layers = find_layers(Listed().eval(), torch.zeros(2, 3, 12, 12), declared=None, name="it")
    assert layers.blocks == ("stem", "_stages.0", "_stages.1")
