"""BigGAN-deep at 256 x 256: an image of a class from truncated noise, with the weights that a person has.

Brock, Donahue and Simonyan, Large Scale GAN Training for High Fidelity Natural Image Synthesis (ICLR 2019). BROAD
(Guille-Escuret et al., section 2.3) names a package and no settings: biggan-deep-256 and truncation 0.4 are that
package's defaults. The reference below is pytorch-pretrained-biggan, which it calls and nobody maintains any more; the
network is in `builders.generate.synthetic.biggan_network`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from builders.errors import NAMED, BuildError, more, one_line
from builders.executors.base import ONE_CORE, Resources
from builders.generate.contract import Generate, Generated, Generator, SourceImage, Weights
from builders.generate.devices import chosen_device, device_name
from builders.generate.extra import check_installed
from builders.generate.synthetic.biggan_network import Config, Network, Tensor
from builders.generate.synthetic.models import (
    SEED,
    memory_errors_as_build_errors,
    versions,
)
from builders.generate.torch_files import load_tensors
from builders.sources.imagenet_names import class_indices
from builders.storage.regular import read_regular

WEIGHTS, CONFIG = "pytorch_model.bin", "config.json"
"""The files of a folder of weights."""

TRUNCATION = 0.4
_SIDE = 256
_BATCH = 16

_MOST_CONFIG = 1 << 16
"""Bytes of a `config.json` at most (ours); the published one has 715."""

_PACKAGES = ("torch",)

_GIVE = f"Give the folder of biggan-deep-256 that holds {WEIGHTS} and {CONFIG} with --biggan DIR."


def truncated_noise(seed: int, size: int, truncation: float) -> npt.NDArray[np.float32]:
    """Draw noise from the standard normal distribution cut at -2 and 2, times the truncation.

    Ours: the inverse of the cut distribution's function, of uniform numbers from NumPy's legacy `RandomState`, whose
    stream is the same in every version (NEP 19). `scipy.stats.truncnorm.rvs`, which the reference calls, gives the
    same numbers today, and promises them for no other version.

    Args:
        seed: 0 to 2^63 - 1.
        size: how many numbers.
        truncation: above 0, up to 1.
    """
    from scipy.special import ndtr, ndtri  # for which --help should not wait

    uniform = np.random.RandomState([seed & 0xFFFFFFFF, seed >> 32]).random_sample(size)
    low, high = ndtr(-2.0), ndtr(2.0)
    drawn = np.clip(ndtri(low + uniform * (high - low)), -2.0, 2.0)
    noise: npt.NDArray[np.float32] = np.float32(truncation) * drawn.astype(np.float32)
    return noise


def as_pixels(images: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """Turn images in [-1, 1] into 8 bits as the reference does: floor((x + 1) / 2 * 256), clipped.

    Args:
        images: shape (n, 3, height, width).

    Returns:
        Shape (n, height, width, 3).
    """
    return np.ascontiguousarray(np.clip((images.transpose(0, 2, 3, 1) + 1) / 2 * 256, 0, 255), np.uint8)


def read_config(path: Path) -> Config:
    """Read `config.json`.

    Raises:
        BuildError: the file is missing, or does not describe a network that makes images of ImageNet-1k's classes.
    """
    try:
        read = json.loads(read_regular(path, _MOST_CONFIG))
        config = msgspec.convert(_with_layers(read), Config, strict=True)
    except OSError as error:
        raise BuildError(f"Cannot read {path}: {error.strerror}. {_GIVE}") from error
    except (ValueError, RecursionError) as error:
        reason = one_line(error) or "nested too deeply"
        raise BuildError(f"{path} is no configuration of BigGAN-deep ({reason}). {_GIVE}") from error
    if problem := _problem(config):
        raise BuildError(f"{path} describes another network than BROAD's: {problem}. {_GIVE}")
    return config


def _with_layers(read: object) -> object:
    """A configuration's values with names for those of each layer, which the file has as lists of three."""
    names = ("upsamples", "channels_in", "channels_out")
    if not isinstance(read, dict) or not isinstance(read.get("layers"), list):
        raise ValueError("it has no list of layers")
    if any(not isinstance(layer, list) or len(layer) != len(names) for layer in read["layers"]):
        raise ValueError("a layer has other than three values")
    return read | {"layers": [dict(zip(names, layer, strict=True)) for layer in read["layers"]]}


def _problem(config: Config) -> str:
    """What keeps a configuration from being a network for BROAD, in a few words; empty if nothing does."""
    sizes = (config.z_dim, config.class_embed_dim, config.channel_width, config.n_stats - 1, len(config.layers))
    channels = [count for layer in config.layers for count in (layer.channels_in, layer.channels_out)]
    if min(*sizes, *channels) < 1 or max(*sizes, *channels) > 1 << 12:
        return "a size is out of range"
    if not 0 <= config.attention_layer_position < len(config.layers):
        return "the attention stands before no layer"
    if config.num_classes != len(class_indices()):
        return f"it has {config.num_classes:,} classes instead of {len(class_indices()):,}"
    if config.side != config.output_dim:
        return f"its layers make images of {config.side} pixels, and its output_dim is {config.output_dim}"
    if config.side != _SIDE:
        return f"it makes images of {config.side} pixels instead of {_SIDE}"
    try:
        config.row(TRUNCATION)
    except ValueError as error:
        return str(error)
    return ""


def read_tensors(path: Path, config: Config) -> dict[str, Tensor]:
    """Read the weights; names and shapes must be exactly those of the network.

    Raises:
        BuildError: the file is no state dict, or one of another network.
    """
    read = load_tensors(path, "Download the weights again.")
    wanted = config.shapes()
    tensors = _tensors(read)
    found = {name: tuple(value.shape) for name, value in tensors.items()}
    problems = [
        *_listed([name for name in wanted if name not in found], "missing"),
        *_listed([name for name in found if name not in wanted], "unknown"),
        *_listed([name for name in wanted if found.get(name, wanted[name]) != wanted[name]], "of another shape"),
    ]
    if problems:
        raise BuildError(
            f"{path} does not have exactly the {len(wanted):,} tensors that {CONFIG} beside it describes: "
            f"{' and '.join(problems)}. {_GIVE}"
        )
    return {name: value.float() for name, value in tensors.items()}


def _tensors(read: object) -> Mapping[str, Any]:
    import torch

    if not isinstance(read, Mapping):
        return {}
    return {str(name): value for name, value in read.items() if isinstance(value, torch.Tensor)}


def _listed(names: Sequence[str], what: str) -> list[str]:
    return [f"{len(names):,} {what} ({', '.join(map(one_line, names[:NAMED]))}{more(names)})"] if names else []


@dataclass(frozen=True)
class _Start:
    """Loads the weights of a folder onto a device; equal values share what they loaded."""

    folder: str
    device: str

    def __call__(self, generator: Generator) -> Generate:
        import torch

        if self.device == "cpu":
            torch.set_num_threads(1)  # a worker has one core
        path = Path(self.folder, WEIGHTS)
        for weights, name in zip(generator.weights, (WEIGHTS, CONFIG), strict=True):
            weights.verified(Path(self.folder, name))
        config = read_config(Path(self.folder, CONFIG))
        tensors = read_tensors(path, config)
        with memory_errors_as_build_errors():
            return functools.partial(_generate, Network(config, tensors, TRUNCATION, self.device))


def _generate(network: Network, images: Sequence[SourceImage]) -> list[Generated]:
    import torch

    seeds = [image.seed for image in images]
    noise = np.stack([truncated_noise(seed, network.config.z_dim, TRUNCATION) for seed in seeds])
    classes = torch.tensor([class_indices()[image.class_id] for image in images], device=network.device)
    with torch.inference_mode(), memory_errors_as_build_errors():
        made = network(torch.from_numpy(noise).to(network.device), classes)
    return [
        Generated(pixels, {SEED.name: seed}) for pixels, seed in zip(as_pixels(made.cpu().numpy()), seeds, strict=True)
    ]


def _without_weights(_: Generator) -> Generate:
    raise BuildError(f"BigGAN's weights are not given. {_GIVE}")


BIGGAN = Generator(
    name="biggan-deep-256",
    version=1,
    description=f"BigGAN-deep at 256 x 256, truncation {TRUNCATION:g}",
    size=(_SIDE, _SIDE),
    start=_without_weights,
    parameters={"truncation": TRUNCATION, "batch_size": _BATCH},
    columns=(SEED,),
    reproducible="recorded",
    together=_BATCH,
    requires=_PACKAGES,
    needs="--biggan DIR",
)
"""The generator without weights, as a benchmark declares it."""


def with_weights(given: str, device: str) -> Generator:
    """Return the generator with the weights of a folder.

    Args:
        given: the folder, which holds `pytorch_model.bin` and `config.json`.
        device: `auto`, `cpu` or `cuda`.

    Raises:
        BuildError: torch is not installed, there is no such device, or the folder lacks a file.
    """
    check_installed({BIGGAN.name: BIGGAN})
    folder, used = Path(given).absolute(), chosen_device(device)
    for name in (WEIGHTS, CONFIG):
        if not (folder / name).is_file():
            raise BuildError(f"There is no {name} in {folder}. {_GIVE}")
    read_config(folder / CONFIG)  # refused before any work starts
    return replace(
        BIGGAN,
        needs="",
        start=_Start(str(folder), used),
        parameters={**BIGGAN.parameters, "dtype": "float32", "device": device_name(used)} | versions(_PACKAGES),
        weights=tuple(Weights.of(f"biggan/{name}", folder / name, _GIVE) for name in (WEIGHTS, CONFIG)),
        resources=Resources(cpus=1, gpus=1) if used == "cuda" else ONE_CORE,
    )
