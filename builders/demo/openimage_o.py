"""The demo's OpenImage-O, in OpenOOD's tree with its two lists.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from builders.demo.base import DemoFiles, Drawing, lines
from builders.demo.images import digest

_PER_CLASS = (54, 6)
"""Images of the test and the validation list."""

_FOLDER = "images_largescale/openimage_o/images"
_LISTS = "benchmark_imglist/imagenet"

# Four images of the test list and one of the validation list that show an object of ImageNet-1k, as examined by
# NINCO's authors; the other names are made up.
_EXAMINED = (
    ("11e9b2ed1207bae6.jpg", "1d98391ba7944ca8.jpg", "275ff5948ca1ca2c.jpg", "f961aa4b0623afcf.jpg"),
    ("09a685735975c277.jpg",),
)

_TROUBLES = {f"{_FOLDER}/1d98391ba7944ca8.jpg": "cmyk", f"{_FOLDER}/275ff5948ca1ca2c.jpg": "exif-text-for-number"}


def _names() -> tuple[list[str], list[str]]:
    """Return the file names of the two lists, in an order as irregular as that of the real ones."""
    first, second = (size - len(examined) for size, examined in zip(_PER_CLASS, _EXAMINED, strict=True))
    other_names = [f"{digest('openimage_o', number).hex()[:16]}.jpg" for number in range(first + second)]
    return [*_EXAMINED[0], *other_names[:first]], [*_EXAMINED[1], *other_names[first:]]


def _images() -> Iterator[Drawing]:
    for name in sorted(name for names in _names() for name in names):
        # No two show one thing, as the set has no classes.
        yield Drawing(f"{_FOLDER}/{name}", name, name)


def _lists(_: Sequence[Drawing]) -> dict[str, str]:
    return {
        f"{_LISTS}/{partition}_openimage_o.txt": lines(f"openimage_o/images/{name} -1" for name in names)
        for partition, names in zip(("test", "val"), _names(), strict=True)
    }


DEMO = DemoFiles(_PER_CLASS, _images, _lists, _TROUBLES, strays=(f"{_FOLDER}/._11e9b2ed1207bae6.jpg",))
