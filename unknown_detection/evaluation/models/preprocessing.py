"""Turns a release's images into a model's input, and loads batches of it.

Tested by `tests/evaluation/models/test_models.py`.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any

import numpy as np
from PIL import Image

from builders.release.images import DECODE_ERRORS
from builders.release.remarks import collect_remarks
from unknown_detection.evaluation.errors import EvaluationError, a_kind, first_line
from unknown_detection.evaluation.images import SplitImages
from unknown_detection.terminal.interrupts import left_to_the_parent

_CALLS, _DRAWING_CALLS = 8, 256
"""How often a callable is tried on one picture, the latter if it draws random numbers; ours: what then happens to one
image in fifty is missed once in 180 times."""

_LARGER = 3
"""How much larger than the input a second picture is, at least: a smaller one does not show how a resize shrinks."""


ImageSize = Callable[[], tuple[int, int]]
"""Returns the width and height of a release's images, of which the first one is opened when it is asked."""


@dataclass(frozen=True)
class Preprocessing:
    """Turns an image into a model's input.

    Attributes:
        transform: maps an RGB Pillow image to a float32 tensor of shape (3, H, W).
        description: what it does as JSON values, for records and digests. It has `mean` and `std`, unless a callable
            does something else than to normalize channels by constants.
        size: height and width of the model's input.
        side: width and height that images have to have, being prepared for an input of this size; 0 for any.
        images: width and height that all images have to have, which a callable leaves as they are; None for any.
    """

    transform: Callable[[Any], Any]
    description: Mapping[str, Any]
    size: tuple[int, int]
    side: int = 0
    images: tuple[int, int] | None = None

    def of_channels(self, name: str) -> tuple[float, ...]:
        """Return `mean` or `std` per channel, for pixels in [0, 1]; `EvaluationError` if a callable states none."""
        if name not in self.description:
            raise EvaluationError(
                f"The preprocessing {self.description['from']} does not normalize channels by a mean and a standard "
                "deviation, which ODIN and images prepared for a model's input need. Normalize so, or leave them out."
            )
        return tuple(map(float, self.description[name]))

    def __call__(self, image: Any) -> Any:
        """Convert an image to RGB and transform it."""
        if self.side and image.size != (self.side, self.side):
            raise EvaluationError(
                f"it has {image.width} x {image.height} pixels, but the manifest says that its split is prepared for "
                f"{self.side} x {self.side}"
            )
        tensor = self.transform(image.convert("RGB"))
        if tuple(tensor.shape) != (3, *self.size):
            raise EvaluationError(
                f"it becomes a tensor of shape {tuple(tensor.shape)}, not {(3, *self.size)} as others"
            )
        return tensor

    def probe(self) -> Any:
        """Return what becomes of a grey image."""
        return self(Image.new("RGB", self.images or (64, 64), (128, 128, 128)))

    def prepared(self, side: int) -> Preprocessing:
        """Return the preprocessing for images that a release stores prepared for an input of side x side pixels.

        A model with this input gets what is stored: the usual resize and crop (256 and 224) would zoom in, and weaken
        an attack. For another model the whole image is resized to its input, without a crop.
        """
        from torchvision import transforms

        mode = transforms.InterpolationMode(self._interpolation)
        steps = [] if self.size == (side, side) else [transforms.Resize(self.size, mode, antialias=True)]
        steps += [transforms.ToTensor(), transforms.Normalize(self.of_channels("mean"), self.of_channels("std"))]
        return replace(self, transform=transforms.Compose(steps), side=side)

    def describe_prepared(self, side: int) -> str:
        """Say in a few words what `prepared` does to images."""
        if self.size == (side, side):
            return f"{side} x {side} pixels as stored"
        height, width = self.size
        return f"{side} x {side} pixels resized to {width} x {height} ({self._interpolation})"

    @property
    def _interpolation(self) -> str:
        return str(self.description.get("interpolation", "bilinear"))


def of_timm(module: Any) -> Preprocessing:
    """Build the evaluation preprocessing from timm's data config of a model."""
    import timm

    config = timm.data.resolve_model_data_config(module)
    transform = timm.data.create_transform(**config, is_training=False)
    keys = ("input_size", "interpolation", "crop_pct", "crop_mode", "mean", "std")
    return Preprocessing(transform, {"from": "timm", **{key: config[key] for key in keys}}, config["input_size"][1:])


def of_torchvision(transform: Any, name: Any = "ImageClassification") -> Preprocessing:
    """Build the preprocessing from a classification transform of torchvision; `name` says of which model."""
    description = {
        "from": f"torchvision {name}",
        "resize_size": list(transform.resize_size),
        "crop_size": list(transform.crop_size),
        "interpolation": transform.interpolation.value,
        "antialias": bool(transform.antialias),
        "mean": list(transform.mean),
        "std": list(transform.std),
    }
    return Preprocessing(transform, description, tuple((transform.crop_size * 2)[:2]))


def of_declaration(values: Any, name: str, images: ImageSize | None = None) -> Preprocessing:
    """Build the preprocessing that a user declares for the model `name`, as in its attribute `preprocessing`.

    It is a callable that maps an RGB Pillow image to a float32 tensor of shape (3, H, W); or one of torchvision's
    weights, such as `ResNet50_Weights.DEFAULT`, for theirs. One that leaves the size of images as it is, such as
    `ToTensor()` alone, is for those of the size that `images` returns.
    """
    from torchvision.transforms._presets import ImageClassification

    if isinstance(values, Enum) and hasattr(values, "transforms"):
        return of_torchvision(values.transforms(), values)
    if type(values) is ImageClassification:  # what `ResNet50_Weights.DEFAULT.transforms()` returns
        return of_torchvision(values)
    if callable(values):
        return _of_callable(values, name, images)
    found = "" if values is None else f" ({a_kind(values)} is none)"
    raise EvaluationError(
        f"{name} does not say how images become its input. Give preprocessing=, a function from a PIL image to a "
        f"tensor{found}, or set the attribute `preprocessing`; for torchvision's models that of their weights, "
        "such as ResNet50_Weights.DEFAULT.transforms()."
    )


def _of_callable(transform: Callable[[Any], Any], name: str, images: ImageSize | None) -> Preprocessing:
    """Build the preprocessing of a callable; its size, mean and standard deviation are seen from uniform images.

    The text of a callable, such as `<lambda>`, may stand for several. So it is also identified by what it makes of two
    pictures, one of which it has to shrink, to 3 digits.
    """
    import torch

    # Of two shapes, which it has to bring to one size.
    probes = ((0, (40, 30)), (255, (30, 50)), (51, (40, 30)))
    pictures = [Image.new("RGB", size, (level,) * 3) for level, size in probes]
    pictures += [_picture()] * _CALLS
    before = _drawn()
    tensors = [transform(picture) for picture in pictures]
    draws = _drawn() != before
    keeps = all(
        torch.is_tensor(made) and made.shape[-2:] == picture.size[::-1]
        for made, picture in zip(tensors, pictures, strict=True)
    )
    size = images() if keeps and images is not None else None
    if size is not None:
        tensors[:3] = [transform(picture.resize(size)) for picture in pictures[:3]]
    first, kinds = tensors[0], dict.fromkeys(map(_kind, tensors[:3] if size is not None else tensors))
    if len(kinds) > 1 or not torch.is_tensor(first) or first.dtype != torch.float32 or first.shape[:-2] != (3,):
        raise EvaluationError(
            f"`preprocessing` of {name} must turn every RGB image into a float32 tensor of one shape (3, height, "
            f"width), but makes {' and '.join(kinds)}. Convert, resize and crop in it."
        )
    more = (transform(_picture()) for _ in range(_DRAWING_CALLS if draws else 0))
    if any(not torch.equal(tensors[3], tensor) for tensor in itertools.chain(tensors[4:], more)):
        raise EvaluationError(
            f"`preprocessing` of {name} makes another tensor of an image at every call. Give the one for evaluation, "
            "without random crops or flips."
        )
    # The text of an object may end in its place in memory.
    text = getattr(transform, "__qualname__", " ".join(re.sub(r" at 0x\w+", "", repr(transform)).split()))
    height, width = first.shape[1:]
    large = transform(_picture((_LARGER * width + 7, _LARGER * height + 5)))
    seen = hashlib.sha256()
    for tensor in (tensors[3], large):
        seen.update((tensor.double() * 1000).round().long().numpy().tobytes())
    description: dict[str, Any] = {"from": text, "size": [height, width], "seen": seen.hexdigest()[:16]}
    black, white, fifth = (tensor.double().mean((1, 2)) for tensor in tensors[:3])
    scale = white - black  # 1 / std
    # Constants bring 51 to a fifth of the way from 0 to 255; each image's own mean and deviation do not.
    if scale.min() > 0 and torch.allclose(fifth, black + scale / 5, atol=1e-4):
        description["mean"], description["std"] = (
            tensor.numpy().round(6).tolist() for tensor in (-black / scale, 1 / scale)
        )
    return Preprocessing(transform, description, (height, width), images=size)


def _kind(value: Any) -> str:
    """Name what a callable made of an image, for a message."""
    import torch

    return f"a {value.dtype} tensor of shape {tuple(value.shape)}" if torch.is_tensor(value) else a_kind(value)


def _drawn() -> tuple[Any, ...]:
    """Return the states of the generators that random transforms draw from; another one if numbers were drawn."""
    import torch

    numpy: Any = np.random.get_state()
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), numpy[1].tobytes(), numpy[2:]


def _picture(size: tuple[int, int] = (50, 40)) -> Image.Image:
    """Return a picture with three gradients, so that no two channels can be exchanged."""
    slope = Image.linear_gradient("L").resize(size)
    turned = Image.linear_gradient("L").transpose(Image.Transpose.ROTATE_90).resize(size)
    return Image.merge("RGB", (slope, turned, Image.radial_gradient("L").resize(size)))


class _Images:
    """A map-style dataset for torch's DataLoader: a preprocessed image, or the error of one that cannot be used."""

    def __init__(self, images: SplitImages, preprocessing: Preprocessing) -> None:
        self._images = images
        self._preprocessing = preprocessing

    def __getitem__(self, number: int) -> Any:
        # Errors are returned and not raised, because a worker's exception arrives with its traceback as text.
        try:
            with collect_remarks():
                image = self._images.image(number)
        except EvaluationError as error:
            return error
        try:
            return self._preprocessing(image)
        except (EvaluationError, *DECODE_ERRORS) as error:
            id_, reason = self._images.rows["id"][number], first_line(error)
            return EvaluationError(
                f"The image of row {id_} cannot be used: {reason}. Mend the preprocessing, or get the release again."
            )


def load_batches(
    images: SplitImages,
    preprocessing: Preprocessing,
    row_ranges: Sequence[Sequence[int]],
    *,
    batch_size: int,
    workers: int,
    pinned: bool = False,
) -> Iterator[tuple[Sequence[int], Any]]:
    """Load images of some row ranges of a split in batches, none of which spans two ranges.

    A range's last batch is padded with its last image, because the algorithm of a convolution may depend on the batch
    size: so a row's features do not depend on where its range ends. `workers` processes decode, at most one for every
    two batches; 0 decodes in the main process. A CUDA device copies `pinned` batches while it computes.

    Yields row numbers, and a float32 tensor of shape (batch_size, 3, H, W) that begins with their images; raises
    `EvaluationError` if one cannot be decoded, or is not of the size that it is prepared for.
    """
    from torch.utils.data import DataLoader

    pieces = [part[first : first + batch_size] for part in row_ranges for first in range(0, len(part), batch_size)]
    count = min(workers, len(pieces) // 2)  # starting one takes longer than decoding a single batch
    loader = DataLoader(
        _Images(images, preprocessing),
        batch_sampler=[list(piece) for piece in pieces],
        num_workers=count,
        multiprocessing_context="fork" if count and sys.platform == "linux" else None,
        collate_fn=partial(_collate, batch_size),
        pin_memory=pinned,
    )
    with left_to_the_parent():
        loaded = iter(loader)  # starts the workers
    for piece, batch in zip(pieces, loaded, strict=True):
        if isinstance(batch, EvaluationError):
            # A new one: that of a variable refers to itself by its traceback, and the workers, which only the garbage
            # collector would end then, take five seconds each.
            raise EvaluationError(str(batch))
        yield piece, batch


def _collate(size: int, images: list[Any]) -> Any:
    """Collate images to one tensor of a fixed batch size; the first error if there is one.

    A worker makes the tensor in memory that it shares with the main process, not to copy it there.
    """
    from torch.utils.data import default_collate

    errors = [image for image in images if isinstance(image, EvaluationError)]
    return errors[0] if errors else default_collate(images + images[-1:] * (size - len(images)))
