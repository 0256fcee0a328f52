"""The demo's LSUN-FIX: the first images of each scene, 32 x 32.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from PIL import Image

from builders.demo.base import DemoFiles, Drawing
from builders.demo.images import draw_image

_PER_CLASS = (12, 0)
_SCENES, _OF_A_SCENE = 10, 1_000


def _draw(of_class: bytes, of_image: bytes) -> Image.Image:
    return draw_image(of_class, of_image).resize((32, 32), Image.Resampling.BOX)


def _images() -> Iterator[Drawing]:
    for scene in range(_SCENES):
        for number in range(sum(_PER_CLASS)):
            name = f"correct_resize_{scene * _OF_A_SCENE + number}.png"
            yield Drawing(f"LSUN_fix/{name}", name, str(scene), _draw, "png")


DEMO = DemoFiles(_PER_CLASS, _images, strays=("LSUN_fix/Thumbs.db",))
