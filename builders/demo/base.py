"""The types of a source's demo: files to draw, or a function that writes its containers.

Class names are the real ones, file names are fixed, and only the pixels depend on the seed.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from builders.demo.images import ENCODERS, digest, draw_image


@dataclass(frozen=True)
class Drawing:
    """An image to draw: its path in the source's folder, its stable id, its class, and how it is drawn and stored.

    `draw` takes digests of the class and of the image. `kind` is a key of `builders.demo.images.ENCODERS`.
    """

    path: str
    source_id: str
    class_id: str
    draw: Callable[[bytes, bytes], Image.Image] = draw_image
    kind: str = "jpeg"


@dataclass(frozen=True)
class DemoFiles:
    """The demo of a source that keeps each image in a file of its own.

    `lists` gives the source's lists as {path: text}, from its images. `troubles` are images that are stored otherwise
    than the rest, as some of the real ones are: the key of `builders.demo.images.ENCODERS`, by path. `strays` are
    files that are no images of the source, and empty folders (with a slash at the end).
    """

    images: Callable[[], Iterator[Drawing]]
    lists: Callable[[Sequence[Drawing]], dict[str, str]] = lambda _: {}
    troubles: Mapping[str, str] = field(default_factory=dict, hash=False)
    strays: tuple[str, ...] = ()

    def encoded(self, key: str, image: Drawing, seed: int) -> bytes:
        """Return the bytes of an image's file, given the source's key."""
        pixels = image.draw(digest(seed, key, image.class_id), digest(seed, key, image.source_id))
        return ENCODERS[self.troubles.get(image.path, image.kind)](pixels)


@dataclass(frozen=True)
class DemoContainers:
    """The demo of a source that keeps many images in a file: `write` takes an existing folder and a seed."""

    write: Callable[[Path, int], None]
    strays: tuple[str, ...] = ()


def numbers(class_id: str, count: int, limit: int, fixed: Sequence[int] = ()) -> list[int]:
    """Return distinct numbers below a limit for a class's file names, as irregular as real ones; `fixed` included."""
    distinct = dict.fromkeys(fixed)
    counter = 0
    while len(distinct) < count:
        distinct[int.from_bytes(digest("number", class_id, counter)[:4], "big") % limit] = None
        counter += 1
    return sorted(distinct)


def lines(items: Iterable[str]) -> str:
    """Return the text of a list, one item a line."""
    return "".join(f"{item}\n" for item in items)
