"""Deciphers the adversarial images that the authors of BROAD publish as ciphers of ImageNet's files (PartialBROAD).

Tested by `tests/builders/broad/test_adopted.py`.
"""

from __future__ import annotations

import io
from typing import Literal

import numpy as np
from PIL import Image

from builders.generate.contract import EachImage, Generate, Generated, Generator, SourceImage
from builders.release.images import DECODE_ERRORS
from builders.release.schema import Column
from builders.storage.file_cipher import deciphered, file_hash

_NO_HASH = "none"

ATTACK = Column("attack", "string", "the attack on the image")
MODEL = Column("model", "string", "the model that was attacked")
ORIGINAL_HASH = Column(
    "original_hash",
    "string",
    "the first 64 hex digits of the SHA-512 of the original's file, as the authors published it or else as found",
)
HASH_PUBLISHED = Column(
    "hash_published",
    "bool",
    "whether the authors published that hash; without it nothing says that the file is theirs",
)


def decipher(image: SourceImage, size: tuple[int, int]) -> Generated:
    """Decipher the cipher that accompanies an original's file, or say why it gives no image of this size."""
    companion = image.companion
    if companion is None:
        raise ValueError(f"{image.id} has no cipher")
    digest, published = file_hash(image.data), str(companion.values[ORIGINAL_HASH.name])
    if published not in (digest, _NO_HASH):
        return Generated(
            None,
            reason=f"it is not the file that the authors of BROAD had, as a copy that was encoded again is not (its "
            f"hash is {digest[:12]}, not {published[:12]})",
        )
    try:
        # Any lossy format would give a cipher of other samples.
        cipher = Image.open(io.BytesIO(companion.data), formats=("PNG",))
        if (cipher.mode, cipher.size) != ("RGB", size):
            return Generated(
                None,
                reason=f"its cipher in PartialBROAD has {cipher.width} x {cipher.height} pixels of mode "
                f"{cipher.mode} instead of {size[0]} x {size[1]} of mode RGB",
            )
        samples = np.asarray(cipher)
    except DECODE_ERRORS as error:
        # Pillow's message for unknown bytes ends with the address of a buffer.
        return Generated(
            None, reason=f"its cipher in PartialBROAD is not a whole PNG ({str(error).split(' <_io')[0]})"
        )
    pixels = deciphered(samples, image.data)
    return Generated(pixels, {ORIGINAL_HASH.name: digest, HASH_PUBLISHED.name: published != _NO_HASH})


def partial_broad(attack: Literal["pgd", "autoattack"], model: Literal["resnet50", "vit"], side: int) -> Generator:
    """Return the generator of one of the four adversarial sets."""
    return Generator(
        name=f"partial-broad-{attack}-{model}",
        version=1,
        description="the authors' own adversarial images, deciphered with the original's file",
        size=(side, side),
        start=_start,
        parameters={"attack": attack, "model": model},
        columns=(ATTACK, MODEL, ORIGINAL_HASH, HASH_PUBLISHED),
        companions=True,
        stored="adopted",
        prepared=side,
    )


def _start(generator: Generator) -> Generate:
    declared = {ATTACK.name: generator.parameters["attack"], MODEL.name: generator.parameters["model"]}

    def make(image: SourceImage) -> Generated:
        generated = decipher(image, generator.size)
        return generated if generated.pixels is None else Generated(generated.pixels, {**declared, **generated.values})

    return EachImage(make)(generator)
