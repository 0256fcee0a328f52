"""Sources whose images this project makes: lists of ids and classes, without files.

`builders.generate.exact.noise` and `builders.generate.synthetic` make the images. Those of the two generative models
are two sources, because their licences differ.

Tested by `tests/builders/generate/synthetic/test_release.py` and `tests/builders/test_cifar_benchmark.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from builders.sources.base import CopyLayout, Expected, Home, Licence, PartitionIndex, Source, partition_table
from builders.sources.datasets.imagenet import classes

PARTITION = "images"


def _made(
    key: str,
    title: str,
    edition: str,
    licence: Licence,
    citation: str,
    classes: Callable[[], Mapping[str, str]],
    id_form: str,
    per_class: int,
) -> Source:
    """Declare a source whose ids have a class (`wnid`) and a number in it, in a form such as `{wnid}/{number:02d}`."""

    def index(home: Home) -> PartitionIndex:
        """Return the index; nothing is read from disk."""
        ids = pa.array([id_form.format(wnid=name, number=n) for name in classes() for n in range(per_class)])
        codes = np.repeat(np.arange(len(classes()), dtype=np.int32), per_class)
        sizes = pa.repeat(pa.scalar(0, pa.int64()), len(ids))
        table = partition_table(tuple(classes()), codes, ids, pa.repeat("", len(ids)), sizes=sizes)
        return PartitionIndex(home.partition, "made from each row's id", "made", table, form="none")

    return Source(
        key=key,
        title=title,
        edition=edition,
        licence=licence,
        citation=citation,
        obtain=None,
        classes=classes,
        expected=lambda: {PARTITION: Expected.each(classes(), per_class)},
        accepted=(CopyLayout("nothing is needed", index),),
    )


NOISE = _made(
    key="noise",
    title="Gaussian noise",
    edition="made by this project",
    licence=Licence(
        name="CC0 1.0",
        url="https://creativecommons.org/publicdomain/zero/1.0/",
        statement="Numbers drawn by a program of this project, which claims no right in them.",
        publish="open",
    ),
    citation="""@article{matsumoto1998mersenne,
  title = {{Mersenne Twister}: A 623-Dimensionally Equidistributed Uniform Pseudo-Random Number Generator},
  author = {Matsumoto, Makoto and Nishimura, Takuji},
  journal = {ACM Transactions on Modeling and Computer Simulation},
  volume = {8},
  number = {1},
  pages = {3--30},
  year = {1998}
}""",
    classes=lambda: {"gaussian": "Gaussian noise"},
    id_form="{number:05d}",
    per_class=10_000,  # Kim et al., table 2
)

# Guille-Escuret et al., section 2.3: 25 images a class of each model.
_of_a_model = functools.partial(_made, classes=classes, id_form="{wnid}/{number:02d}", per_class=25)

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

MADE = {source.key: source for source in (NOISE, BIGGAN_IMAGES, STABLE_DIFFUSION_IMAGES)}
"""These sources by their keys."""
