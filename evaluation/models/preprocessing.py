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
        mean: mean of each channel, subtracted from pixels in [0, 1].
        std: standard deviation of each channel, by which the result is divided.
        description: the same as JSON values, for records and digests.
        size: height and width of the model's input.
        interpolation: how images are resized, by Pillow's names.
    """

    transform: Callable[[Any], Any]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    description: Mapping[str, Any]
    size: tuple[int, int]
    interpolation: str

    def __call__(self, image: Any) -> Any:
        """Convert an image to RGB and transform it."""
        return self.transform(image.convert("RGB"))

    def prepared(self, side: int) -> Preprocessing:
        """Return the preprocessing of images that are prepared for an input of side x side pixels.

        A model with this input gets what is stored: the usual resize and crop (256 and 224) would zoom in, and weaken
        an attack. For another model the whole image is resized to its input, without a crop.
        """
        from torchvision import transforms

        normalize = [transforms.ToTensor(), transforms.Normalize(self.mean, self.std)]
        if self.size == (side, side):
            steps = normalize
        else:
            mode = transforms.InterpolationMode(self.interpolation)
            steps = [transforms.Resize(self.size, mode, antialias=True), *normalize]
        return replace(self, transform=_Prepared(side, transforms.Compose(steps)))

    def describe_prepared(self, side: int) -> str:
        """Say in a few words what `prepared` does to images."""
        stored, (height, width) = f"{side} x {side}", self.size
        if self.size == (side, side):
            return f"{stored} pixels as stored"
        return f"{stored} pixels resized to {width} x {height} ({self.interpolation})"


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
    description = {"from": "timm", **{key: config[key] for key in _TIMM}}
    return _preprocessing(
        timm.data.create_transform(**config, is_training=False), description, config["input_size"][1:]
    )


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
    return _preprocessing(transform, description, (transform.crop_size * 2)[:2])


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
    from torchvision import transforms

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
    mode = transforms.InterpolationMode(interpolation)
    transform = transforms.Compose(
        [
            transforms.Resize(size if resize is None else resize, mode, antialias=True),
            transforms.CenterCrop(size),  # nothing to crop without `resize`
            transforms.ToTensor(),
            transforms.Normalize(mean, std),
        ]
    )
    return _preprocessing(transform, description, size)


def _preprocessing(
    transform: Callable[[Any], Any], description: Mapping[str, Any], size: Sequence[int]
) -> Preprocessing:
    mean, std = (tuple(float(number) for number in description[key]) for key in ("mean", "std"))
    height, width = size
    return Preprocessing(
        transform,
        mean,  # type: ignore[arg-type] # three channels
        std,  # type: ignore[arg-type] # three channels
        description,
        (height, width),
        description["interpolation"],
    )
