"""The authors' own images of BROAD: four adversarial sets and two synthetic ones, from PartialBROAD.

`--adopt-partial-broad` adds them to the benchmark, and makes `broad-reference/test` exactly the adversarial images'
originals. The adversarial images are deciphered with a person's ImageNet files, the synthetic ones are stored as they
are.

Tested by `tests/builders/broad/test_adopted.py`.
"""

from __future__ import annotations

import functools

from builders.broad.originals import ALL_KNOWN, LABELS
from builders.declare.benchmark import AllImages, Config, Originals, PaperCount, Split
from builders.generate.exact.deciphered import partial_broad
from builders.sources.imagenet import IMAGENET
from builders.sources.partial_broad import ADVERSARIAL, PARTIAL_BROAD

_IMAGES = 5_000
"""Images of each adversarial set, and originals if the sets share them. Nobody has said whether they do."""

ORIGINALS = Originals(_IMAGES, PARTIAL_BROAD, ADVERSARIAL)
"""The images that the adversarial ones are made of."""

_attacked = functools.partial(
    Split,
    role="adversarial",
    source=IMAGENET,
    partitions=("val",),
    classes=ALL_KNOWN,
    paper=PaperCount(_IMAGES),
    ranked_as="broad-reference/test",
)
_generated = functools.partial(
    Split, role="synthetic", source=PARTIAL_BROAD, classes=ALL_KNOWN, quota=AllImages(), paper=PaperCount(25_000)
)


def _of(partition: str) -> Originals:
    return Originals(_IMAGES, PARTIAL_BROAD, (partition,))


ADOPTED = (
    Config(
        name="broad-adversarial",
        labels=LABELS,
        description="The authors' own adversarial images, made of ImageNet's validation images: L-infinity attacks of "
        "epsilon 0.05 on a ResNet-50 (224 pixels) and a ViT-B/16 (384 pixels).",
        splits=(
            _attacked(
                "pgd_resnet50",
                quota=_of("adversarial_pgd_resnet"),
                generator=partial_broad("pgd", "resnet50", 224),
            ),
            _attacked(
                "autoattack_resnet50",
                quota=_of("adversarial_autoattack_resnet"),
                generator=partial_broad("autoattack", "resnet50", 224),
            ),
            _attacked("pgd_vit", quota=_of("adversarial_pgd_vit"), generator=partial_broad("pgd", "vit", 384)),
            _attacked(
                "autoattack_vit",
                quota=_of("adversarial_autoattack_vit"),
                generator=partial_broad("autoattack", "vit", 384),
            ),
        ),
    ),
    Config(
        name="broad-synthetic",
        labels=LABELS,
        description="The authors' own synthetic images of ImageNet's classes, 25 a class, by BigGAN-deep and by "
        "Stable Diffusion 2.",
        splits=(
            _generated("biggan", partitions=("synthetic_gan",)),
            _generated("stable_diffusion", partitions=("synthetic_diffusion",)),
        ),
    ),
)
