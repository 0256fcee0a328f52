"""Models by name, the paper's two and timm's, and the network that is attacked."""

import numpy as np
import pytest

from builders.errors import BuildError
from builders.generate.adversarial.network import RESNET50, VIT, AttackedModel, load_network, model_named
from tests.builders.generate.adversarial import small
from tests.builders.generate.adversarial.real import TORCH, needed
from tests.sentences import stops


@needed(*TORCH)
def test_the_network_normalises_is_in_eval_mode_and_frozen():
    import torch

    network = small.network()
    pixels, labels = small.images()
    assert not network.module.training
    assert not any(module.training for module in network.module.modules())
    assert not any(parameter.requires_grad for parameter in network.module.parameters())
    assert network.classes == small.CLASSES
    mean, std = np.float32(small.MODEL.mean), np.float32(small.MODEL.std)
    inputs = torch.from_numpy(((pixels / np.float32(255) - mean) / std).transpose(0, 3, 1, 2))
    with torch.inference_mode():
        expected = torch.softmax(network.module.network(inputs), dim=1).double().numpy()
    judged = network.judge(pixels, labels)
    assert judged.predictions.tolist() == expected.argmax(axis=1).tolist()
    np.testing.assert_allclose(judged.confidences, expected.max(axis=1), atol=1e-5)
    np.testing.assert_allclose(judged.own, expected[np.arange(len(labels)), labels], atol=1e-5)


@needed(*TORCH)
def test_a_model_of_other_classes_is_refused(tmp_path):
    import timm
    import torch

    path = tmp_path / "w.pt"
    model = AttackedModel("few", "test_vit", 160, 160, "bilinear", RESNET50.mean, RESNET50.std)
    torch.save(timm.create_model("test_vit").state_dict(), path)
    assert load_network(model, path, "cpu", ["a"] * 1_000).classes == 1_000
    with stops(BuildError, "1,000"):
        load_network(model, path, "cpu", ["a", "b", "c"])


def test_the_papers_models_take_images_as_their_cards_say():
    assert model_named("resnet50") is RESNET50
    assert model_named("vit") is VIT
    # BROAD stores images at 224 and 384 pixels; torchvision's ImageNet statistics; mmcls's 127.5 of 255.
    assert (RESNET50.size, RESNET50.resize, VIT.size, VIT.resize) == (224, 256, 384, 384)
    assert RESNET50.parameters()["mean"] == "0.485, 0.456, 0.406"
    assert VIT.parameters()["std"] == "0.5, 0.5, 0.5"


def test_the_resnet_is_described_as_torchvision_describes_its_weights():
    models = pytest.importorskip("torchvision.models")
    weights = models.ResNet50_Weights.IMAGENET1K_V1
    transform = weights.transforms()
    assert (RESNET50.size,) == tuple(transform.crop_size)
    assert (RESNET50.resize,) == tuple(transform.resize_size)
    assert RESNET50.interpolation == transform.interpolation.value
    assert (list(RESNET50.mean), list(RESNET50.std)) == (list(transform.mean), list(transform.std))
    accuracy = weights.meta["_metrics"]["ImageNet-1K"]["acc@1"] / 100
    assert pytest.approx(accuracy, abs=1e-9) == RESNET50.accuracy


@needed(*TORCH)
def test_a_model_of_timms_is_described_by_its_configuration():
    model = model_named("timm:tf_efficientnet_lite0.in1k")
    assert (model.size, model.resize, model.interpolation) == (224, 256, "bicubic")
    assert model.mean == model.std == (0.5, 0.5, 0.5)
    assert (model.name, model.split_name) == ("tf_efficientnet_lite0.in1k", "tf_efficientnet_lite0_in1k")
    assert model.accuracy == 0


@needed(*TORCH)
@pytest.mark.parametrize("name", ["resnet", "timm:no_such_network", "timm:resnet50.no_such_tag", "timm:../x"])
def test_an_unknown_model_is_refused_by_name(name):
    with pytest.raises(BuildError, match=name.replace(".", r"\.")):
        model_named(name)


@needed(*TORCH)
def test_a_model_whose_crop_is_larger_than_its_images_is_refused():
    # timm resizes to int(448 / 1.15) = 389 and crops 448: torchvision's CenterCrop fills the border with black.
    with stops(BuildError, "--model", "timm:volo_d4_448", "389"):
        model_named("timm:volo_d4_448")
