"""Models of images and texts: what their classifier computes, by their own encoders, and what it is known by."""

import numpy as np
import pytest

import unknown_detection as ud
from tests.evaluation import small_clips
from tests.evaluation.extra import torch
from tests.evaluation.small_clips import Tiny, of_open_clip, of_transformers, seeded, text_model
from tests.sentences import stops
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.models import open_model
from unknown_detection.evaluation.models.text import PROMPTS, Texts

pytestmark = pytest.mark.usefixtures("one_thread")

NAMES = ("tabby cat", "dog", "crane")
PACKAGES = {of_open_clip: "open_clip", of_transformers: "transformers"}


def of(make):
    if make in PACKAGES:
        pytest.importorskip(PACKAGES[make], reason="makes one of its models")
    return make


def opened(model, names=NAMES, prompts=(), **options):
    return open_model(model, None, names, device="cpu", texts=Texts(lambda: names, prompts), **options)


def unit(values):
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


@pytest.fixture
def images():
    return torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def encoded(make, images, texts):
    """Embeddings of images and texts by the package's own methods, in float64."""
    model = seeded(make)
    with torch.no_grad():
        if make is of_transformers:
            outputs = model(input_ids=small_clips.tokenize(texts), pixel_values=images)
            pair = outputs.image_embeds, outputs.text_embeds  # of unit length
        else:
            pair = model.encode_image(images), model.encode_text(small_clips.tokenize(texts))
    return [unit(values.double().numpy()) for values in pair]


@pytest.mark.parametrize("make", [Tiny, of_open_clip, of_transformers])
def test_logits_are_scaled_cosines_with_the_means_over_prompts(make, images):
    prompts = ("a photo of a {}.", "{} in the wild")
    model = opened(text_model(of(make), prompts=prompts))
    outputs = model.forward(images)
    embedded, first = encoded(make, images, [prompts[0].format(name) for name in NAMES])
    _, second = encoded(make, images, [prompts[1].format(name) for name in NAMES])
    texts = unit(first + second)
    scale = float(np.exp(seeded(make).logit_scale.item()))
    assert np.allclose(outputs.penultimate.numpy(), embedded, atol=1e-6)
    assert np.allclose(outputs.logits.numpy(), scale * embedded @ texts.T, atol=1e-5 * scale)
    assert np.allclose(model.head.weight, scale * texts, atol=1e-5 * scale)
    assert not model.head.bias.any()
    assert model.head.negatives.shape == (0, small_clips.WIDTH)
    assert model.layers.linear
    assert (model.module.names, model.module.prompts) == (NAMES, prompts)
    if make is not Tiny:
        assert [block.rpartition(".")[2] for block in model.layers.blocks] == ["0", "1"]


@pytest.mark.parametrize("make", [of_open_clip, of_transformers])
def test_blocks_are_the_class_token_after_each(make, images):
    model = opened(text_model(of(make)))
    blocks = model.forward(images).blocks
    captured = {}
    for name in model.layers.blocks:
        layer = model.module.get_submodule(name)
        layer.register_forward_hook(lambda _, __, output, name=name: captured.update({name: output}))
    with torch.no_grad():
        model.module(images)
    assert all(torch.allclose(blocks[name], captured[name][:, 0], atol=1e-6) for name in blocks)


def test_names_prompts_and_weights_make_the_digest_and_the_model_is_left_alone():
    model = text_model()
    model.model.train()
    digests = [
        opened(model).digest,
        opened(model, names=("tabby cat", "dog", "cranes")).digest,
        opened(model, prompts=["a drawing of a {}."]).digest,
    ]
    assert model.model.training
    assert all(parameter.requires_grad for parameter in model.model.parameters())
    with torch.no_grad():
        model.model.words.weight += 1e-3
    digests.append(opened(model).digest)
    assert len({*digests}) == 4
    assert opened(text_model(prompts=PROMPTS)).digest == digests[0]
    assert not any("head" in name for name in opened(model).module.state_dict())


def test_a_file_may_make_one():
    model = opened(f"{small_clips.__file__}:tiny")
    assert model.name == "small_clips.py:tiny"
    assert np.array_equal(model.head.weight, opened(text_model()).head.weight)


@pytest.mark.parametrize("prompts", ["a photo of a {}.", ["a photo"], ["{} and {}"], ["{}", ""]])
def test_prompts_without_one_place_for_the_name_are_refused(prompts):
    with stops(EvaluationError, "prompt"):
        opened(text_model(), prompts=prompts)


def test_what_is_no_text_model_is_refused(tmp_path):
    with pytest.raises(AttributeError, match="logit_scale"):
        opened(ud.TextModel(torch.nn.Linear(2, 2), small_clips.tokenize))
    with stops(EvaluationError, "weights="):
        torch.save({}, tmp_path / "weights.pt")
        open_model(f"{small_clips.__file__}:tiny", tmp_path / "weights.pt", NAMES, texts=Texts(lambda: NAMES))
    with stops(EvaluationError, "Tiny", "release"):
        open_model(text_model(), None, NAMES)


def of_values(model, images):
    """GL-MCM's local embeddings by its text: the last block's residual stream with values in place of attention."""
    visual = getattr(model, "visual", None)
    state = model.state_dict()
    with torch.no_grad():
        if visual is not None:
            kept = []
            handle = visual.transformer.resblocks[-1].register_forward_pre_hook(lambda _, given: kept.append(given[0]))
            model.encode_image(images)
            handle.remove()
            block, width = visual.transformer.resblocks[-1], 16
            normed = block.ln_1(kept[0])
            value = normed @ block.attn.in_proj_weight[2 * width :].T + block.attn.in_proj_bias[2 * width :]
            tokens = kept[0] + value @ block.attn.out_proj.weight.T + block.attn.out_proj.bias
            tokens = tokens + block.mlp(block.ln_2(tokens))
            return visual.ln_post(tokens)[:, 1:] @ state["visual.proj"]
        hidden = model.vision_model(pixel_values=images, output_hidden_states=True).hidden_states[-2]
        block = model.vision_model.encoder.layers[-1]
        value = block.self_attn.out_proj(block.self_attn.v_proj(block.layer_norm1(hidden)))
        tokens = hidden + value
        tokens = tokens + block.mlp(block.layer_norm2(tokens))
        return model.vision_model.post_layernorm(tokens)[:, 1:] @ state["visual_projection.weight"].T


@pytest.mark.parametrize("make", [of_open_clip, of_transformers])
def test_patches_have_the_embeddings_of_their_values(make, images):
    """The authors' code (8708a08, `clip/model.py`) adds the projected values to the residual, then the MLP."""
    model = opened(text_model(of(make)))
    with torch.no_grad():
        local = model.module.local(images)
    assert local.shape == (5, 4, small_clips.WIDTH)
    assert np.allclose(local.numpy(), unit(of_values(seeded(make), images).numpy()), atol=1e-6)
    with torch.no_grad():
        assert torch.equal(model.module(images), opened(text_model(make)).module(images)), "the hooks are gone"
