"""Images that generative models make of ImageNet-1k's classes: lists of ids, 25 a class, without files.

Two sources and not one, because the images' licences differ. `builders.generate.synthetic` makes the images.

Tested by `tests/builders/generate/synthetic/test_release.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from builders.sources.base import Expected, Licence, PartitionIndex, Source, partition_table
from builders.sources.imagenet_names import classes
from builders.sources.readers.folders import class_column
from builders.sources.readers.layouts import CopyLayout, Search

PARTITION = "images"
IMAGES_PER_CLASS = 25
"""Guille-Escuret et al., section 2.3: 25 images a class of each model."""


@functools.cache
def expected() -> Mapping[str, Expected]:
    """Return the size of the only partition."""
    return {PARTITION: Expected(IMAGES_PER_CLASS * len(classes()), dict.fromkeys(classes(), IMAGES_PER_CLASS))}


def _piece(root: Path, home: Path) -> PartitionIndex:
    """Return the index, with ids such as `n01440764/07`; nothing is read from disk."""
    ids = pa.array([f"{wnid}/{number:02d}" for wnid in classes() for number in range(IMAGES_PER_CLASS)])
    column = class_column(tuple(classes()), np.repeat(np.arange(len(classes()), dtype=np.int32), IMAGES_PER_CLASS))
    sizes = pa.repeat(pa.scalar(0, pa.int64()), len(ids))
    table = partition_table(column, ids, pa.repeat("", len(ids)), sizes=sizes)
    return PartitionIndex(PARTITION, "made from each row's class", "made", table, form="none")


_of_a_model = functools.partial(
    Source,
    obtain=None,
    classes=classes,
    expected=expected,
    search=Search((CopyLayout(PARTITION, "nothing is needed", _piece),)),
)

BIGGAN_IMAGES = _of_a_model(
    key="biggan",
    title="BigGAN-deep images",
    edition="made by this project with the weights of biggan-deep-256",
    licence=Licence(
        name="not stated",
        url="https://github.com/tensorflow/tfhub.dev/blob/master/assets/docs/deepmind/models/biggan-deep-256/1.md",
        statement="DeepMind's page of the module names no licence of the weights or of their images; its authors "
        "released the generator to allow their work to be verified. The package that converted the weights has the "
        "MIT licence.",
        publish="gated",
    ),
    citation="""@inproceedings{brock2019large,
  title = {Large Scale {GAN} Training for High Fidelity Natural Image Synthesis},
  author = {Brock, Andrew and Donahue, Jeff and Simonyan, Karen},
  booktitle = {International Conference on Learning Representations},
  year = {2019}
}""",
)

STABLE_DIFFUSION_IMAGES = _of_a_model(
    key="stable_diffusion",
    title="Stable Diffusion 2 images",
    edition="made by this project with the weights of Stable Diffusion 2",
    licence=Licence(
        name="CreativeML Open RAIL++-M (November 24, 2022)",
        url="https://github.com/Stability-AI/stablediffusion/blob/main/LICENSE-MODEL",
        statement="The licensor claims no rights in the output (paragraph 6). Whoever generates it is accountable for "
        "it and its uses, which must not contravene the licence (use restrictions: attachment A).",
        publish="open",
    ),
    citation="""@inproceedings{rombach2022high,
  title = {High-Resolution Image Synthesis With Latent Diffusion Models},
  author = {Rombach, Robin and Blattmann, Andreas and Lorenz, Dominik and Esser, Patrick and Ommer, Bj{\\"o}rn},
  booktitle = {IEEE/CVF Conference on Computer Vision and Pattern Recognition},
  year = {2022}
}""",
)
