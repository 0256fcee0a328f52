"""From an image of a release to what a model takes: the transform that belongs to the model, and a record of it.

Tested by `tests/evaluation/models/test_models.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evaluation.errors import EvaluationError, unknown_name

INTERPOLATIONS = ("bicubic", "bilinear", "nearest")
"""What a declared preprocessing may shrink or enlarge images with, by Pillow's names; the default is bilinear."""


_TIMM = ("input_size", "interpolation", "crop_pct", "crop_mode", "mean", "std")
"""What of timm's data config makes the transform for evaluating."""


@dataclass(frozen=True)
class Preprocessing:
    """How an image becomes a model's input.

    Attributes:
        transform: from an RGB image of Pillow to a float32 tensor of shape (3, H, W).
        mean: of each channel, subtracted after pixels are brought to [0, 1].
        std: of each channel, divided by afterwards.
        about: the same in words and numbers that JSON has, for records and digests.
    """

    transform: Callable[[Any], Any]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    about: Mapping[str, Any]

    def __call__(self, image: Any) -> Any:
        """Transform an image of any mode."""
        return self.transform(image.convert("RGB"))


def of_timm(module: Any) -> Preprocessing:
    """What timm's data config of a model says, for evaluating."""
    import timm

    config = timm.data.resolve_model_data_config(module)
    about = {"from": "timm", **{key: config[key] for key in _TIMM}}
    return _preprocessing(timm.data.create_transform(**config, is_training=False), about)


def of_torchvision(weights: Any) -> Preprocessing:
    """What torchvision's entry of weights says; the weights themselves are not fetched."""
    transform = weights.transforms()
    about = {
        "from": f"torchvision {weights}",
        "resize_size": list(transform.resize_size),
        "crop_size": list(transform.crop_size),
        "interpolation": transform.interpolation.value,
        "antialias": bool(transform.antialias),
        "mean": list(transform.mean),
        "std": list(transform.std),
    }
    return _preprocessing(transform, about)


def declared(values: Any, name: str) -> Preprocessing:
    """What the attribute `preprocessing` of a model from a file says.

    Args:
        values: a mapping with `size` (pixels, one number or height and width: an image of another size is resized to
            it, whatever its shape), `mean` and `std` (three numbers each, for pixels in [0, 1]), and if wanted
            `interpolation`.
        name: what to call the model in messages.

    Raises:
        EvaluationError: it is something else.
    """
    from torchvision import transforms

    wanted = {"size", "mean", "std"}
    if not isinstance(values, Mapping) or not wanted <= values.keys() <= wanted | {"interpolation"}:
        found = ", ".join(sorted(map(str, values))) if isinstance(values, Mapping) else f"a {type(values).__name__}"
        raise EvaluationError(
            f"expected an attribute `preprocessing` of {name} with size, mean, std and if wanted interpolation, found "
            f"{found if values is not None else 'none'}; set it on the model or on the function."
        )
    size = [values["size"]] * 2 if isinstance(values["size"], int) else list(values["size"])
    mean, std = ([float(number) for number in values[key]] for key in ("mean", "std"))
    if len(size) != 2 or len(mean) != 3 or len(std) != 3 or min(std) <= 0:
        raise EvaluationError(
            f"expected a size of two numbers, and a mean and positive std of three, in `preprocessing` of {name}, "
            f"found size {size}, mean {mean}, std {std}; a model of grey images takes them as RGB and averages."
        )
    interpolation = values.get("interpolation", "bilinear")
    if interpolation not in INTERPOLATIONS:
        raise unknown_name("interpolation", str(interpolation), INTERPOLATIONS)
    about = {"from": "declared", "size": size, "interpolation": interpolation, "mean": mean, "std": std}
    transform = transforms.Compose(
        [
            transforms.Resize(size, transforms.InterpolationMode(interpolation), antialias=True),
            transforms.ToTensor(),
            transforms.Normalize(mean, std),
        ]
    )
    return _preprocessing(transform, about)


def _preprocessing(transform: Callable[[Any], Any], about: Mapping[str, Any]) -> Preprocessing:
    mean, std = (tuple(float(number) for number in about[key]) for key in ("mean", "std"))
    return Preprocessing(transform, mean, std, about)  # type: ignore[arg-type] # three channels each
