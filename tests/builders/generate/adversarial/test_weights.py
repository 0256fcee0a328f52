"""Weights: mmcls's vision transformer on timm's network, and files that do not fit.

Files that are none are in `tests/evaluation/models/test_weights.py`.
"""

import pytest

from builders.errors import BuildError
from builders.generate.adversarial.network import load_strictly, timm_name
from tests.builders.generate.adversarial.real import TORCH, needed, one_thread

pytestmark = needed(*TORCH)

DEPTH, WIDTH, HEADS, SIDE, PATCH, CLASSES = 2, 24, 3, 32, 16, 10


def small_vit():
    import timm

    one_thread()
    return timm.create_model(
        "vit_base_patch16_384", img_size=SIDE, embed_dim=WIDTH, depth=DEPTH, num_heads=HEADS, num_classes=CLASSES
    ).eval()


def mmcls_shapes(depth, width, tokens, classes):
    """The tensors of mmcls's VisionTransformer with its VisionTransformerClsHead, as its source code names them."""
    parameters = {"weight": (width,), "bias": (width,)}
    shapes = {
        "backbone.cls_token": (1, 1, width),
        "backbone.pos_embed": (1, tokens, width),
        "backbone.patch_embed.projection.weight": (width, 3, PATCH, PATCH),
        "backbone.patch_embed.projection.bias": (width,),
        **{f"backbone.ln1.{name}": shape for name, shape in parameters.items()},
        "head.layers.head.weight": (classes, width),
        "head.layers.head.bias": (classes,),
    }
    for layer in range(depth):
        start = f"backbone.layers.{layer}"
        shapes |= {f"{start}.{norm}.{name}": shape for norm in ("ln1", "ln2") for name, shape in parameters.items()}
        for name, (outputs, inputs) in {
            "attn.qkv": (3 * width, width),
            "attn.proj": (width, width),
            "ffn.layers.0.0": (4 * width, width),
            "ffn.layers.1": (width, 4 * width),
        }.items():
            shapes |= {f"{start}.{name}.weight": (outputs, inputs), f"{start}.{name}.bias": (outputs,)}
    return shapes


def random_weights(seed=0):
    import torch

    drawn = torch.Generator().manual_seed(seed)
    shapes = mmcls_shapes(DEPTH, WIDTH, (SIDE // PATCH) ** 2 + 1, CLASSES)
    return {name: torch.randn(shape, generator=drawn) for name, shape in shapes.items()}


def mmcls_forward(weights, images):
    """The network of mmcls, written down from its source: norms before attention and before the feed-forward net."""
    import torch
    from torch.nn import functional

    def norm(x, name):
        return functional.layer_norm(x, (WIDTH,), weights[f"{name}.weight"], weights[f"{name}.bias"], eps=1e-6)

    def linear(x, name):
        return functional.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    patches = functional.conv2d(
        images,
        weights["backbone.patch_embed.projection.weight"],
        weights["backbone.patch_embed.projection.bias"],
        stride=PATCH,
    )
    x = patches.flatten(2).transpose(1, 2)
    x = (
        torch.cat([weights["backbone.cls_token"].expand(len(images), -1, -1), x], dim=1)
        + weights["backbone.pos_embed"]
    )
    for layer in range(DEPTH):
        start = f"backbone.layers.{layer}"
        qkv = linear(norm(x, f"{start}.ln1"), f"{start}.attn.qkv")
        q, k, v = qkv.reshape(len(images), -1, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        shares = torch.softmax(q @ k.transpose(-2, -1) / (WIDTH // HEADS) ** 0.5, dim=-1)
        x = x + linear((shares @ v).transpose(1, 2).flatten(2), f"{start}.attn.proj")
        hidden = functional.gelu(linear(norm(x, f"{start}.ln2"), f"{start}.ffn.layers.0.0"))
        x = x + linear(hidden, f"{start}.ffn.layers.1")
    return linear(norm(x, "backbone.ln1")[:, 0], "head.layers.head")


def test_weights_of_mmcls_give_the_same_logits_in_timms_network(tmp_path):
    import torch

    path = tmp_path / "vit.pth"
    stored = random_weights()
    torch.save({"meta": {"epoch": 3, "CLASSES": ["tench"]}, "state_dict": stored}, path)
    network = small_vit()
    load_strictly(network, path, "vit")
    images = torch.rand(3, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        assert torch.allclose(network(images), mmcls_forward(stored, images), atol=1e-4)


def test_names_of_the_whole_network_are_those_of_timm_and_back():
    import timm
    import torch

    with torch.device("meta"):
        expected = timm.create_model("vit_base_patch16_384", pretrained=False).state_dict()
    theirs = mmcls_shapes(12, 768, 24**2 + 1, 1_000)
    assert {timm_name(name): shape for name, shape in theirs.items()} == {
        name: tuple(tensor.shape) for name, tensor in expected.items()
    }
    # timm's own names stay.
    assert [timm_name(name) for name in expected] == list(expected)


def test_timms_own_weights_load_and_wrong_ones_are_refused_by_name(tmp_path):
    import torch

    path = tmp_path / "w.pt"
    network, other = small_vit(), small_vit()
    torch.save({f"module.{name}": value for name, value in other.state_dict().items()}, path)
    load_strictly(network, path, "vit")
    assert torch.equal(network.head.weight, other.head.weight)
    weights = other.state_dict()
    del weights["norm.weight"]
    weights["extra"] = torch.zeros(1)
    weights["head.weight"] = torch.zeros(CLASSES + 1, WIDTH)
    torch.save(weights, path)
    with pytest.raises(BuildError) as caught:
        load_strictly(network, path, "vit")
    message = str(caught.value)
    assert str(path) in message
    for fact in ("1 missing (norm.weight)", "1 unknown to it (extra)", "head.weight 11 x 24 for 10 x 24", "--weights"):
        assert fact in message


def test_a_resnet_of_torchvision_is_timms_also_without_counted_batches(tmp_path):
    import timm
    import torch

    models = pytest.importorskip("torchvision.models")
    torch.manual_seed(0)
    theirs = models.resnet18(num_classes=CLASSES).eval()
    # As in files of torch before 0.4.1, of which resnet50-19c8e357.pth is one.
    path = tmp_path / "resnet.pth"
    torch.save(
        {name: value for name, value in theirs.state_dict().items() if not name.endswith("num_batches_tracked")}, path
    )
    ours = timm.create_model("resnet18", pretrained=False, num_classes=CLASSES).eval()
    load_strictly(ours, path, "resnet18")
    images = torch.rand(2, 3, 64, 64)
    with torch.inference_mode():
        assert torch.allclose(ours(images), theirs(images), atol=1e-5)
