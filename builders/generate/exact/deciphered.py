"""Deciphers the adversarial images that BROAD's authors publish enciphered with ImageNet's files (PartialBROAD).

Tested by `tests/builders/test_broad_adopted.py`.
"""

from __future__ import annotations

import functools
import io
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from builders.generate.contract import EachImage, Generate, Generated, Generator, SourceImage
from builders.release.images import DECODE_ERRORS
from builders.release.schema import Column, Value
from builders.storage.file_cipher import deciphered, file_hash

_NO_HASH = "none"

_NOISE, _NOISE_TOLERANCE = (256**2 - 1) / (3 * 256), 2.0
"""The mean difference of two independent samples that are any of 0 to 255, which is what a wrong key leaves: 85.33;
and a tolerance, ours: ten standard errors of the mean over 224 x 224 pixels. In 1,000 pictures of ImageNet, with 12
levels added to or taken from each sample, neighbours differed by 9 to 32.
"""

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
    return EachImage(functools.partial(decipher, generator)).make_all


def decipher(generator: Generator, image: SourceImage) -> Generated:
    """Decipher the cipher that belongs to an original's file, or say why it gives no image."""
    companion = image.companion
    if companion is None:
        raise ValueError(f"{image.id} has no cipher")
    if not image.data:
        return Generated(None, reason="its file is empty, and deciphers nothing")
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
        if (cipher.mode, cipher.size) != ("RGB", generator.size):
            return Generated(
                None,
                reason=f"its cipher in PartialBROAD has {cipher.width} x {cipher.height} pixels of mode "
                f"{cipher.mode} instead of {generator.size[0]} x {generator.size[1]} of mode RGB",
            )
        samples = np.asarray(cipher)
    except DECODE_ERRORS as error:
        # Pillow's message for unknown bytes ends with the address of a buffer.
        reason = f"its cipher in PartialBROAD is not a whole PNG ({str(error).split(' <_io')[0]})"
        return Generated(None, reason=reason)
    pixels = deciphered(samples, image.data)
    if published == _NO_HASH and is_noise(pixels):
        reason = "it is not the file that the authors of BROAD had: they published no hash, and it deciphers to noise"
        return Generated(None, reason=reason)
    found: dict[str, Value] = {ORIGINAL_HASH.name: digest, HASH_PUBLISHED.name: published != _NO_HASH}
    return Generated(pixels, {**generator.parameters, **found})


def is_noise(pixels: npt.NDArray[np.uint8]) -> bool:
    """Whether neighbouring pixels, (height, width, 3), differ as independent samples do, down as well as across."""
    signed = pixels.astype(np.int16)
    differences = (np.abs(np.diff(signed, axis=axis)).mean() for axis in (0, 1))
    return all(abs(difference - _NOISE) < _NOISE_TOLERANCE for difference in differences)
