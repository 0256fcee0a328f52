"""Models of images and texts, such as CLIP, as classifiers whose last layer is the texts of the classes.

Logits are scaled cosines, penultimate features embeddings of images, and the head is those of names in prompts: what
reads logits, features and the head reads them here, too. `torch` is imported within functions only.

Tested by `tests/evaluation/models/test_text.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.layers import stages
from unknown_detection.precision import exact_float32

PROMPTS = ("a photo of a {}.",)
"""The prompt of CLIP's authors and of MCM (Ming et al. 2022, section 4)."""

_VISION = ("visual.trunk", "visual", "vision_model")
"""Names of the part that sees images: open_clip's with a model of timm inside and its own, and transformers'."""

_TEXTS = 256
"""Texts that are embedded at once; ours."""


@dataclass(frozen=True)
class Texts:
    """What a text model is told of a release: the names of its classes, in order, and prompts in place of its own."""

    names: Callable[[], Sequence[str]]
    prompts: Sequence[str] = ()


@dataclass(frozen=True)
class TextModel:
    """A model of images and texts in one space, such as CLIP, to extract features with.

        >>> clip, _, preprocess = open_clip.create_model_and_transforms("ViT-B-16", "openai")  # doctest: +SKIP
        >>> model = ud.TextModel(clip, open_clip.get_tokenizer("ViT-B-16"), preprocess)  # doctest: +SKIP

    Attributes:
        model: a module with open_clip's `encode_image` and `encode_text`, or transformers' `get_image_features` and
            `get_text_features`; of both `logit_scale` is read, the logarithm of what logits are cosines times.
        tokenizer: open_clip's, a function from a list of texts to a tensor, or one of transformers.
        preprocessing: as for `extract`.
        prompts: what a class's name is put into at `{}`. Of several, a class's embedding is the mean.
        encode_local: maps the model and images to embeddings of their patches, shape (B, P, D), which `gl_mcm` reads;
            None for GL-MCM's of open_clip's and transformers' vision transformers.
    """

    model: Any
    tokenizer: Any
    preprocessing: Any = None
    prompts: Sequence[str] = PROMPTS
    encode_local: Callable[[Any, Any], Any] | None = None

    def classifier(self, texts: Texts) -> Any:
        """Return a module that maps images to the scaled cosines of the classes that texts name; the model is copied.

        Its last layer is no part of its state, since it follows from the rest, up to rounding.
        """
        import torch

        source, model, prompts = self, self.model, tuple(texts.prompts or self.prompts)
        if isinstance(texts.prompts, str) or any(prompt.count("{}") != 1 for prompt in prompts):
            shown = repr(texts.prompts) if isinstance(texts.prompts, str) else [*prompts]
            raise EvaluationError(
                f"Each prompt has one {{}}, where the name of a class goes; found {shown}. Write a list of them "
                "as in ['a photo of a {}.']."
            )

        class TextClassifier(torch.nn.Module):  # type: ignore[misc]
            """Scaled cosines between images and texts of classes."""

            def __init__(self) -> None:
                super().__init__()
                self.model = copy.deepcopy(model).eval().float()
                self.preprocessing = source.preprocessing
                self.names, self.prompts = tuple(texts.names()), prompts
                self.encode_local = source.encode_local
                modules = dict(self.model.named_modules())
                if tower := next((name for name in _VISION if name in modules), ""):
                    self.feature_blocks = [f"model.{tower}.{block}" for block in stages(modules[tower])]
                tokens = ("class_embedding", "cls_token")
                self.class_token = any(name.endswith(tokens) for name, _ in self.model.named_parameters()) or None
                rows = self.embed(self.names).clone() * self.model.logit_scale.detach().exp().cpu()
                self.head = torch.nn.Linear(rows.shape[1], len(rows), bias=False)
                self.head.weight.data = rows
                self.register_state_dict_post_hook(_without_head)

            def get_extra_state(self) -> Any:
                return {"names": self.names, "prompts": self.prompts}

            def set_extra_state(self, state: Any) -> None:
                """Nothing: names and prompts are given."""

            def forward(self, images: Any) -> Any:
                return self.head(_unit(_encode_image(self.model, images)))

            def embed(self, names: Sequence[str], *, exact: bool = False) -> Any:
                """Return unit embeddings of names in the prompts, shape (names, D), on the CPU; float64 if exact."""
                encoder = copy.deepcopy(self.model).cpu().double() if exact else self.model
                return _embed(encoder, source.tokenizer, names, self.prompts)

            def local(self, images: Any) -> Any:
                """Return the unit embeddings of patches, shape (B, P, D)."""
                return _unit((source.encode_local or encode_local)(self.model, images))

        return TextClassifier()


def _without_head(_: Any, state: dict[str, Any], prefix: str, __: Any) -> None:
    del state[f"{prefix}head.weight"]


def texts_of(module: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of classes and the prompts of a classifier that a text model has made; of others none."""
    has = all(hasattr(module, name) for name in ("embed", "names", "prompts"))
    return (module.names, module.prompts) if has else ((), ())


def has_texts(module: Any) -> bool:
    """Whether a module is a classifier that a text model has made."""
    return texts_of(module) != ((), ())


def encode_local(model: Any, images: Any) -> Any:
    """Return GL-MCM's embeddings of an image's patches in the space of texts, shape (B, P, D).

    They are the last block's tokens where its attention is replaced by each token's own value, after the last norm and
    the projection (Miyai et al., GL-MCM: Global and Local Maximum Concept Matching for Zero-Shot Out-of-Distribution
    Detection, IJCV 2025, section 3.2, and the authors' code).
    """
    visual: Any = getattr(model, "visual", None)
    if hasattr(visual, "ln_post") and hasattr(visual, "transformer") and getattr(visual, "proj", None) is not None:
        block = visual.transformer.resblocks[-1]
        with _values_alone(block.attn, block) as captured:
            _encode_image(model, images)
        return visual.ln_post(captured[-1])[:, 1:] @ visual.proj
    vision: Any = getattr(model, "vision_model", None)
    if hasattr(vision, "post_layernorm") and hasattr(model, "visual_projection"):
        block = vision.encoder.layers[-1]
        with _values_alone(block.self_attn, block) as captured:
            _encode_image(model, images)
        return model.visual_projection(vision.post_layernorm(captured[-1])[:, 1:])
    raise EvaluationError(
        f"{type(model).__qualname__} has neither open_clip's vision transformer nor that of transformers' CLIP, so "
        "there are no embeddings of patches. Give TextModel(encode_local=...), or leave gl_mcm out."
    )


@contextmanager
def _values_alone(attention: Any, block: Any) -> Iterator[list[Any]]:
    """Let an attention layer return each token's projected value within the block; capture the block's output."""
    from torch.nn.functional import linear

    captured: list[Any] = []

    def values(layer: Any, arguments: tuple[Any, ...], named: Any, output: Any) -> Any:
        tokens = arguments[0] if arguments else named["hidden_states"]
        if hasattr(layer, "v_proj"):
            return layer.out_proj(layer.v_proj(tokens)), None
        weight, bias = layer.in_proj_weight.chunk(3)[2], layer.in_proj_bias.chunk(3)[2]
        return layer.out_proj(linear(tokens, weight, bias)), None

    def keep(_: Any, __: Any, output: Any) -> None:
        captured.append(output[0] if isinstance(output, tuple) else output)

    with attention.register_forward_hook(values, with_kwargs=True), block.register_forward_hook(keep):
        yield captured


def _encode_image(model: Any, images: Any) -> Any:
    encode = getattr(model, "encode_image", None) or (lambda given: model.get_image_features(pixel_values=given))
    return _embedding(encode(images))


def _embed(model: Any, tokenizer: Any, names: Sequence[str], prompts: Sequence[str]) -> Any:
    """Embed names: the mean over prompts of unit embeddings, of unit length again, as CLIP's authors do."""
    import torch

    device, config = model.logit_scale.device, getattr(model, "config", None)
    known = getattr(getattr(config, "text_config", None), "max_position_embeddings", None)  # not of every tokenizer
    length = {} if known is None else {"max_length": known}
    with exact_float32(), torch.inference_mode():
        total: Any = 0
        for prompt in prompts:
            texts, found = [prompt.replace("{}", name) for name in names], []
            for first in range(0, len(texts), _TEXTS):
                some = texts[first : first + _TEXTS]
                if hasattr(model, "encode_text"):
                    output = model.encode_text(tokenizer(some).to(device))
                else:  # all of one length, so that an embedding does not depend on the other texts
                    tokens = tokenizer(some, padding="max_length", truncation=True, return_tensors="pt", **length)
                    output = model.get_text_features(**tokens.to(device))
                found.append(_unit(_embedding(output)).cpu())
            total = total + torch.cat(found)
        return _unit(total)


def _embedding(output: Any) -> Any:
    """Return the embeddings of what an encoder returns; transformers 5 returns them with its tokens."""
    return getattr(output, "pooler_output", output)


def _unit(values: Any) -> Any:
    return values / values.norm(dim=-1, keepdim=True)
