"""Folded batch norms: the same logits and gradients, or the network itself."""

import pytest

from builders.generate.adversarial.network import fold_batch_norms
from tests.builders.generate.adversarial.real import TORCH, needed, one_thread

pytestmark = needed(*TORCH)


def trained(module):
    """Give batch norms statistics and weights that differ from 0 and 1."""
    import torch

    one_thread()
    drawn = torch.Generator().manual_seed(0)
    for layer in module.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.running_mean.normal_(generator=drawn)
            layer.running_var.uniform_(0.5, 2, generator=drawn)
            layer.weight.data.uniform_(0.5, 1.5, generator=drawn)
            layer.bias.data.normal_(generator=drawn)
    return module.eval().requires_grad_(False)


def batch_norms(module):
    import torch

    return sum(isinstance(layer, torch.nn.BatchNorm2d) for layer in module.modules())


@pytest.mark.parametrize("name", ["test_resnet", "tf_efficientnet_lite0", "test_vit"])
def test_a_folded_network_has_the_same_logits_and_gradients(name):
    import timm
    import torch

    torch.manual_seed(0)
    module = trained(timm.create_model(name, pretrained=False))
    side = 160
    pixels = torch.rand(2, 3, side, side, requires_grad=True)
    twin = fold_batch_norms(module, torch.rand(1, 3, side, side))
    assert bool(batch_norms(module)) is (name != "test_vit")
    assert batch_norms(twin) == 0
    labels = torch.tensor([3, 4])
    gradients = []
    for network in (module, twin):
        logits = network(pixels)
        (gradient,) = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, labels, reduction="sum"), pixels)
        gradients.append((logits.detach(), gradient))
    for ours, theirs in zip(*gradients, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-4 * float(theirs.abs().max()))


def test_a_network_that_reads_a_convolution_twice_stays_as_it_is():
    import torch

    class Skips(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)

        def forward(self, x):
            x = self.convolution(x)
            return (x + self.norm(x)).flatten(1)

    module = trained(Skips())
    pixels = torch.rand(1, 3, 8, 8)
    before = module(pixels)
    assert fold_batch_norms(module, pixels) is module
    assert torch.equal(module(pixels), before)
