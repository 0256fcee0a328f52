"""Generates images of a class by BigGAN-deep at 256 x 256 from truncated noise, with a person's copy of the weights.

Brock, Donahue and Simonyan, Large Scale GAN Training for High Fidelity Natural Image Synthesis (ICLR 2019). BROAD
(Guille-Escuret et al., section 2.3) names a package and no settings: biggan-deep-256 and truncation 0.4 are that
package's defaults. The reference below is pytorch-pretrained-biggan, which it calls and nobody maintains any more; the
network is in `builders.generate.synthetic.biggan_network`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from builders.errors import BuildError
from builders.generate.contract import NOT_FINITE, Generate, Generated, Generator, SourceImage, check_installed
from builders.generate.flags import SEED, memory_errors_as_build_errors, set_up_device, with_files
from builders.generate.torch_files import read_state_dict, require_tensors
from builders.sources.datasets.imagenet import class_indices

if TYPE_CHECKING:
    from builders.generate.synthetic.biggan_network import BigGANNetwork

SIDE = 256
"""Width and height of an image."""

WEIGHTS = "pytorch_model.bin"
"""The file of a folder of weights."""

TRUNCATION = 0.4
_BATCH = 16

_ADVICE = f"Give the folder of biggan-deep-256 that holds {WEIGHTS} with --biggan DIR."


def truncated_noise(seed: int, size: int, truncation: float) -> npt.NDArray[np.float32]:
    """Draw noise from the standard normal distribution cut at -2 and 2, times the truncation.

    Ours: the inverse of the cut distribution's function, of uniform numbers from NumPy's legacy `RandomState`, whose
    stream is the same in every version (NEP 19). `scipy.stats.truncnorm.rvs`, which the reference calls, gives the
    same numbers today, and promises them for no other version.
    """
    from scipy.special import ndtr, ndtri  # for which --help should not wait

    uniform = np.random.RandomState([seed & 0xFFFFFFFF, seed >> 32]).random_sample(size)
    low, high = ndtr(-2.0), ndtr(2.0)
    drawn = np.clip(ndtri(low + uniform * (high - low)), -2.0, 2.0)
    noise: npt.NDArray[np.float32] = np.float32(truncation) * drawn.astype(np.float32)
    return noise


def as_pixels(images: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """Turn images in [-1, 1] into 8 bits as the reference does: floor((x + 1) / 2 * 256), clipped.

    Shape (n, 3, height, width) becomes (n, height, width, 3).
    """
    return np.ascontiguousarray(np.clip((images.transpose(0, 2, 3, 1) + 1) / 2 * 256, 0, 255), np.uint8)


def _start(generator: Generator) -> Generate:
    from builders.generate.synthetic.biggan_network import BigGANNetwork, Sizes

    device = set_up_device(generator)
    path = generator.weights[0].path
    tensors = read_state_dict(path, "Download the weights again.")
    expected = BigGANNetwork(Sizes.of(tensors)).state_dict()
    require_tensors(path, tensors, expected, "biggan-deep-256", _ADVICE)
    with memory_errors_as_build_errors():
        return functools.partial(_generate, BigGANNetwork.of(tensors, TRUNCATION, device))


def _generate(network: BigGANNetwork, images: Sequence[SourceImage]) -> list[Generated]:
    import torch

    seeds = [image.seed for image in images]
    noise = np.stack([truncated_noise(seed, network.sizes.noise, TRUNCATION) for seed in seeds])
    device = network.embeddings.weight.device
    classes = torch.tensor([class_indices()[image.class_id] for image in images], device=device)
    with torch.inference_mode(), memory_errors_as_build_errors():
        outputs = network(torch.from_numpy(noise).to(device), classes).cpu().numpy()
    return [
        Generated(as_pixels(output[None])[0], {SEED.name: seed})
        if np.isfinite(output).all()
        else Generated(None, reason=NOT_FINITE)
        for output, seed in zip(outputs, seeds, strict=True)
    ]


BIGGAN = Generator(
    name="biggan-deep-256",
    version=1,
    description=f"BigGAN-deep at 256 x 256, truncation {TRUNCATION:g}",
    size=(SIDE, SIDE),
    start=_start,
    parameters={"truncation": TRUNCATION, "batch_size": _BATCH},
    columns=(SEED,),
    reproducible="recorded",
    together=_BATCH,
    requires=("torch",),
    needs="--biggan DIR",
)
"""The generator without weights, as a benchmark declares it."""


def with_weights(location: str, device: str) -> Generator:
    """Return the generator with the weights in a folder; `BuildError` if they cannot be used."""
    check_installed({BIGGAN.name: BIGGAN})
    file = Path(location).absolute() / WEIGHTS
    if not file.is_file():
        raise BuildError(f"There is no {WEIGHTS} in {file.parent}. {_ADVICE}")
    return with_files(BIGGAN, {f"biggan/{WEIGHTS}": file}, device=device, advice=_ADVICE)
