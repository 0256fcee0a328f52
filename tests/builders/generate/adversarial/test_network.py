"""The network that is attacked: normalisation inside, eval mode, parameters frozen."""

import numpy as np
import pytest

from builders.errors import BuildError
from builders.generate.adversarial.network import RESNET50, AttackedModel, load_network
from tests.builders.generate.adversarial import small
from tests.builders.generate.adversarial.real import TORCH, needed

pytestmark = needed(*TORCH)


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


def test_a_model_of_other_classes_is_refused(tmp_path):
    import timm
    import torch

    path = tmp_path / "w.pt"
    model = AttackedModel("few", "test_vit", 160, 160, "bilinear", RESNET50.mean, RESNET50.std)
    torch.save(timm.create_model("test_vit").state_dict(), path)
    assert load_network(model, path, "cpu", ["a"] * 1_000).classes == 1_000
    with pytest.raises(BuildError, match=r"few has 1,000 classes, and the images have 3\. Give"):
        load_network(model, path, "cpu", ["a", "b", "c"])
