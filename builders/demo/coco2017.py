"""The demo's COCO 2017: drawn scenes, and annotations of what is drawn.

Images of CoComageNet's published lists have their real numbers, and objects of the category that a list has them for.
Like the real annotations, these have people beside the objects, crowds as run lengths, an image that is annotated
twice (99844 in COCO), objects without area, and images without annotations.

Tested by `tests/builders/demo/test_coco2017.py`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image, ImageDraw

from builders.demo.images import Drawing, digest
from taxonomy import tables

_SEVERAL, _OF_CATEGORY = 40, 3
_PERSON, _CAT, _BANANA = 1, 17, 52
_COLOURS = 16

# Crowds have numbers of their own in COCO: 900, the category and the image.
_CROWD_IDS = 900_000_000_000

_LICENCES = {
    1: ("http://creativecommons.org/licenses/by-nc-sa/2.0/", "Attribution-NonCommercial-ShareAlike License"),
    3: ("http://creativecommons.org/licenses/by-nc-nd/2.0/", "Attribution-NonCommercial-NoDerivs License"),
    4: ("http://creativecommons.org/licenses/by/2.0/", "Attribution License"),
}

Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class _Shape:
    """An object: its category, and the corners (x0, y0, x1, y1) of the box that holds its polygon or crowd."""

    category: int
    box: Box
    crowd: bool = False

    @property
    def points(self) -> list[tuple[float, float]]:
        """The corners of the shape's polygon: its box, whose first corner is cut off by a category's amount."""
        x0, y0, x1, y1 = map(float, self.box)
        cut = min(x1 - x0, y1 - y0) / 4 * (self.category % 3)
        return [(x0 + cut, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0 + cut)]


@dataclass(frozen=True)
class _Scene:
    """An image of the demo."""

    number: int
    width: int
    height: int
    shapes: tuple[_Shape, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.number:012d}.jpg"


def _scene(number: int, categories: Sequence[int], *, twice: bool = False, crowd: bool = False) -> _Scene:
    """Place objects at random: the first of `categories` is the largest by far, the others shrink."""
    image_digest = digest("coco2017", number)
    width, height = 72 + image_digest[0] % 24, 56 + image_digest[1] % 24
    shapes = []
    for position, category in enumerate(categories):
        shape_digest = digest("coco2017", number, position)
        w, h = (max(4, side * (3 + shape_digest[0] % 4) // (9 + 4 * position)) for side in (width, height))
        x, y = shape_digest[1] % (width - w), shape_digest[2] % (height - h)
        shapes.append(_Shape(category, (x, y, x + w, y + h)))
    if crowd:
        shapes.append(_Shape(categories[-1], (0, 0, width // 2, height // 2), crowd=True))
    return _Scene(number, width, height, tuple(shapes * (2 if twice else 1)))


@functools.cache
def _scenes() -> tuple[_Scene, ...]:
    numbers = {category.name: category.id for category in tables.coco80()}
    numbers_by_category: dict[str, list[int]] = {}
    for image in tables.cocomagenet_images():
        numbers_by_category.setdefault(image.category, []).append(image.image_id)
    several = numbers_by_category.pop("")[:_SEVERAL]
    shared = sorted(numbers[name] for name in numbers_by_category)
    scenes = []
    for position, number in enumerate(several):
        start = digest("pair", number)[0] % len(shared)
        chosen = [shared[(start + step) % len(shared)] for step in (0, 1, 5)[: 2 + position % 2]]
        scenes.append(_scene(number, [*chosen, _PERSON][: len(chosen) + position % 3], crowd=position % 8 == 0))
    for name, images in sorted(numbers_by_category.items()):
        for position, number in enumerate(images[:_OF_CATEGORY]):
            scenes.append(_scene(number, [numbers[name], *[_PERSON] * position], twice=position == 1))
    flat = _scene(200_365, [_BANANA])  # in COCO this image has an object whose box has no height
    x0, y0, x1, _ = flat.shapes[0].box
    scenes += [
        _scene(_unlisted(several, 1), [_CAT, _BANANA]),  # the paper's example of an image of no list
        _scene(_unlisted(several, 2), [_PERSON]),
        _scene(_unlisted(several, 3), []),
        _scene(_unlisted(several, 4), []),
        _Scene(flat.number, flat.width, flat.height, (*flat.shapes, _Shape(_BANANA, (x0, y0, x1, y0)))),
    ]
    return tuple(sorted(scenes, key=lambda scene: scene.number))


def _unlisted(listed: Sequence[int], place: int) -> int:
    """Return a number that is in no list."""
    known = {image.image_id for image in tables.cocomagenet_images()}
    return next(number for number in range(listed[0] + 100 * place, 600_000) if number not in known)


def _draw(scene: _Scene, of_class: bytes, of_image: bytes) -> Image.Image:
    """Draw a plain ground and every shape in its category's colour; the image's digest decides the ground."""
    image = Image.new("RGB", (scene.width, scene.height), tuple(of_image[:3]))
    draw = ImageDraw.Draw(image)
    for shape in scene.shapes:
        colour = digest("category", shape.category)[:3]
        if shape.crowd:
            draw.rectangle(shape.box, fill=tuple(colour), outline=tuple(of_class[:3]))
        elif shape.box[3] > shape.box[1]:
            draw.polygon(shape.points, fill=tuple(colour), outline=tuple(of_class[:3]))
    return image


def images() -> Iterator[Drawing]:
    """Yield the images; each has the class of its largest object."""
    for scene in _scenes():
        kind = str(scene.shapes[0].category) if scene.shapes else ""
        yield Drawing(f"train2017/{scene.name}", f"train2017/{scene.name}", kind, functools.partial(_draw, scene))


def _runs(scene: _Scene, shape: _Shape) -> dict[str, list[int]]:
    """Return the uncompressed run lengths of a crowd's box: column by column, beginning with the zeros."""
    x0, y0, x1, y1 = shape.box
    inside, outside = y1 - y0, scene.height - (y1 - y0)
    counts = [x0 * scene.height + y0, *[inside, outside] * (x1 - x0 - 1), inside]
    after = scene.height * scene.width - sum(counts)
    return {"counts": [*counts, after], "size": [scene.height, scene.width]}


def _annotation(scene: _Scene, shape: _Shape, number: int) -> dict[str, Any]:
    x0, y0, x1, y1 = shape.box
    points = shape.points
    edges = zip(points, [*points[1:], points[0]], strict=True)
    area = abs(sum(x * v - u * y for (x, y), (u, v) in edges)) / 2
    return {
        "segmentation": _runs(scene, shape) if shape.crowd else [[side for point in points for side in point]],
        "area": float((x1 - x0) * (y1 - y0)) if shape.crowd else area,
        "iscrowd": int(shape.crowd),
        "image_id": scene.number,
        "bbox": [x0, y0, x1 - x0, y1 - y0],
        "category_id": shape.category,
        "id": _CROWD_IDS + number if shape.crowd else number,
    }


def lists(_: Sequence[Drawing]) -> dict[str, str]:
    """Return the annotations of the images."""
    objects = [(scene, shape) for scene in _scenes() for shape in scene.shapes]
    content: Mapping[str, Any] = {
        "info": {"description": "COCO 2017 Dataset", "version": "1.0", "year": 2017},
        "licenses": [{"url": url, "id": number, "name": name} for number, (url, name) in _LICENCES.items()],
        "images": [
            {
                "license": sorted(_LICENCES)[scene.number % len(_LICENCES)],
                "file_name": scene.name,
                "coco_url": f"http://images.cocodataset.org/train2017/{scene.name}",
                "height": scene.height,
                "width": scene.width,
                "date_captured": "2013-11-14 00:00:00",
                "flickr_url": f"http://farm1.staticflickr.com/1/{scene.number}_z.jpg",
                "id": scene.number,
            }
            for scene in _scenes()
        ],
        "annotations": [_annotation(scene, shape, number) for number, (scene, shape) in enumerate(objects, start=1)],
        "categories": [{"id": category.id, "name": category.name} for category in tables.coco80()],
    }
    return {"annotations/instances_train2017.json": json.dumps(content)}
