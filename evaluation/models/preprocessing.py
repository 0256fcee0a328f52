"""Preprocessing: from a release's image to a model's input.

Tested by `tests/evaluation/models/test_models.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evaluation.errors import EvaluationError, unknown_name

INTERPOLATIONS = ("bicubic", "bilinear", "nearest")
"""Interpolations for a declared preprocessing, by Pillow's names; the default is bilinear."""

_TIMM = ("input_size", "interpolation", "crop_pct", "crop_mode", "mean", "std")
"""Keys of timm's data config that define the evaluation transform."""


@dataclass(frozen=True)
class Preprocessing:
    """Turns an image into a model's input.

    Attributes:
        transform: maps an RGB Pillow image to a float32 tensor of shape (3, H, W).
        description: what it does as JSON values, for records and digests; has `mean`, `std` and `interpolation`.
        size: height and width of the model's input.
    """

    transform: Callable[[Any], Any]
    description: Mapping[str, Any]
    size: tuple[int, int]

    @property
    def mean(self) -> tuple[float, ...]:
        """Mean of each channel, subtracted from pixels in [0, 1]."""
        return tuple(map(float, self.description["mean"]))

    @property
    def std(self) -> tuple[float, ...]:
        """Standard deviation of each channel, by which the result is divided."""
        return tuple(map(float, self.description["std"]))

    def __call__(self, image: Any) -> Any:
        """Convert an image to RGB and transform it."""
        return self.transform(image.convert("RGB"))

    def prepared(self, side: int) -> Preprocessing:
        """Return the preprocessing of images that are prepared for an input of side x side pixels.

        A model with this input gets what is stored: the usual resize and crop (256 and 224) would zoom in, and weaken
        an attack. For another model the whole image is resized to its input, without a crop.
        """
        size = None if self.size == (side, side) else self.size
        transform = _composed(size, self.description["interpolation"], self.mean, self.std)
        return replace(self, transform=_Prepared(side, transform))

    def describe_prepared(self, side: int) -> str:
        """Say in a few words what `prepared` does to images."""
        if self.size == (side, side):
            return f"{side} x {side} pixels as stored"
        height, width = self.size
        return f"{side} x {side} pixels resized to {width} x {height} ({self.description['interpolation']})"


@dataclass(frozen=True)
class _Prepared:
    """The transform of images that are prepared for an input; a class, so that it can be pickled for workers."""

    side: int
    transform: Callable[[Any], Any]

    def __call__(self, image: Any) -> Any:
        if image.size != (self.side, self.side):
            raise EvaluationError(
                f"it has {image.width} x {image.height} pixels, but the manifest says that its split is prepared for "
                f"{self.side} x {self.side}"
            )
        return self.transform(image)


def of_timm(module: Any) -> Preprocessing:
    """Build the evaluation preprocessing from timm's data config of a model."""
    import timm

    config = timm.data.resolve_model_data_config(module)
    transform = timm.data.create_transform(**config, is_training=False)
    return Preprocessing(transform, {"from": "timm", **{key: config[key] for key in _TIMM}}, config["input_size"][1:])


def of_torchvision(weights: Any) -> Preprocessing:
    """Build the preprocessing of a torchvision weights entry; the weights are not downloaded."""
    transform = weights.transforms()
    description = {
        "from": f"torchvision {weights}",
        "resize_size": list(transform.resize_size),
        "crop_size": list(transform.crop_size),
        "interpolation": transform.interpolation.value,
        "antialias": bool(transform.antialias),
        "mean": list(transform.mean),
        "std": list(transform.std),
    }
    return Preprocessing(transform, description, tuple((transform.crop_size * 2)[:2]))


def declared(values: Any, name: str) -> Preprocessing:
    """Build the preprocessing that a model file declares in the attribute `preprocessing`.

    Args:
        values: a mapping with `size` (pixels, one number or height and width; images of another size are resized to it
            without regard to their aspect ratio), `mean` and `std` (three numbers each, for pixels in [0, 1]), and
            optionally `interpolation` and `resize`: pixels of the shorter side, to which images are resized before
            `size` is cropped from their middle.
        name: the model's name, for messages.

    Raises:
        EvaluationError: the declaration is missing or invalid.
    """
    wanted = {"size", "mean", "std"}
    if not isinstance(values, Mapping) or not wanted <= values.keys() <= wanted | {"interpolation", "resize"}:
        found = ", ".join(sorted(map(str, values))) if isinstance(values, Mapping) else f"a {type(values).__name__}"
        raise EvaluationError(
            f"{name} needs an attribute `preprocessing` with size, mean, std and optionally interpolation and resize "
            f"(found: {found if values is not None else 'none'}). Set it on the model or on the function."
        )
    size = [values["size"]] * 2 if isinstance(values["size"], int) else list(values["size"])
    mean, std = ([float(number) for number in values[key]] for key in ("mean", "std"))
    if len(size) != 2 or len(mean) != 3 or len(std) != 3 or min(std) <= 0:
        raise EvaluationError(
            f"`preprocessing` of {name} needs a size of two numbers, and a mean and a positive std of three, found "
            f"size {size}, mean {mean}, std {std}. A model of grey images receives them as RGB and averages the "
            "channels itself."
        )
    interpolation = values.get("interpolation", "bilinear")
    if interpolation not in INTERPOLATIONS:
        raise unknown_name("interpolation", str(interpolation), INTERPOLATIONS)
    resize = values.get("resize")
    if resize is not None and (type(resize) is not int or resize < max(size)):
        raise EvaluationError(
            f"`resize` in `preprocessing` of {name} must be a number of pixels of at least {max(size)}, found "
            f"{resize!r}. Give the shorter side before the crop, or leave it out."
        )
    description = {"from": "declared", "size": size, "interpolation": interpolation, "mean": mean, "std": std}
    description |= {} if resize is None else {"resize": resize}
    transform = _composed(size if resize is None else resize, interpolation, mean, std, crop=size)
    return Preprocessing(transform, description, (size[0], size[1]))


def _composed(
    size: Sequence[int] | int | None,
    interpolation: str,
    mean: Sequence[float],
    std: Sequence[float],
    crop: Sequence[int] | None = None,
) -> Callable[[Any], Any]:
    """Compose a transform that resizes (not for None), crops from the middle and normalizes."""
    from torchvision import transforms

    mode = transforms.InterpolationMode(interpolation)
    steps = [] if size is None else [transforms.Resize(size, mode, antialias=True)]
    steps += [] if crop is None else [transforms.CenterCrop(crop)]
    composed: Callable[[Any], Any] = transforms.Compose(
        [*steps, transforms.ToTensor(), transforms.Normalize(mean, std)]
    )
    return composed
