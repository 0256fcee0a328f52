"""Measures what the way of resizing does to smoothness: the same originals, resized in three ways, side by side.

Tack et al. and Kim et al. (section 3.1) say of the resized LSUN images in circulation that smoothness alone gives them
away. Whoever has the originals of a split can see how much of that is the resize.

Tested by `tests/builders/commands/test_audit.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from PIL import Image

from builders.audit.row_groups import read_index, rgb_images
from builders.audit.smoothness import DISTANCES, Float64, auroc, smoothness_score, total_variation
from builders.errors import BuildError
from builders.generate.arrays import SIDE
from builders.generate.exact.resize import fixed_resize, lsun_fix
from builders.release import images
from builders.release.entries import Manifest
from builders.release.schema import ROLES
from builders.release.split_entries import SplitEntry
from builders.sources.base import SourceIndex, open_source
from builders.sources.registry import SOURCES
from builders.sources.sizes import image_sizes

Pixels = npt.NDArray[np.uint8]


def aliased(image: Image.Image) -> Image.Image:
    """Shrink an image to 32 x 32 without a filter: each pixel is interpolated between the four nearest of the source.

    So the bilinear resizes of torch tensors and of OpenCV work unless told otherwise (pixel centres at halves). All
    other pixels are ignored, which aliases fine detail. How the images in circulation were made is not published.

    Args:
        image: any mode and size.

    Returns:
        32 x 32, mode RGB, rounded to whole levels.
    """
    pixels = np.asarray(image.convert("RGB"), np.float64)
    for axis in (0, 1):
        length = pixels.shape[axis]
        places = np.clip((np.arange(SIDE) + 0.5) * length / SIDE - 0.5, 0, length - 1)
        first = np.floor(places).astype(np.int64)
        share = np.expand_dims(places - first, (1, 2) if axis == 0 else (0, 2))
        second = np.minimum(first + 1, length - 1)
        pixels = pixels.take(first, axis) * (1 - share) + pixels.take(second, axis) * share
    return Image.fromarray(np.rint(pixels).astype(np.uint8))


WAYS: Mapping[str, Callable[[Image.Image], Image.Image]] = {
    "lsun-fix-32 (shorter side, centre crop)": lsun_fix,
    "fixed-resize-32 (the whole image squeezed)": fixed_resize,
    "aliased (no filter)": aliased,
}
"""The ways of resizing by what the table calls them: of LSUN-FIX, of the other splits, and as one should not."""


@dataclass(frozen=True)
class Smoothness:
    """How well smoothness separates images from the known test images.

    Attributes:
        name: the way of resizing.
        images: their number.
        variation: their mean total variation, by the distance of `DISTANCES`.
        auroc: 0.5 for a chance result, by the same.
    """

    name: str
    images: int
    variation: Mapping[str, float]
    auroc: Mapping[str, float]


def compare(release: Path, manifest: Manifest, key: str, root: Path, most: int) -> list[Smoothness]:
    """Resize the originals of a split in each of `WAYS`, and compare them with the known test images of its config.

    Args:
        release: the release folder, with the pixels of the config's known images.
        manifest: its manifest.
        key: the split, as `config/split`.
        root: the folder of the split's source.
        most: number of images, the first ones of the split; its rows are sorted by a keyed hash.

    Raises:
        BuildError: the release has no such split or no known test images, or the source lacks an original.
    """
    config, _, name = key.partition("/")
    splits = manifest.configs[config].splits
    if name not in splits or "test" not in splits or "in_distribution" not in splits["test"].roles:
        raise BuildError(
            f"{config} in {release} needs the split {name or '(none was named)'} and an in-distribution split test "
            f"(splits: {', '.join(sorted(splits))}). Name one as CONFIG/SPLIT, or build both."
        )
    resized = list(_resized(release, key, splits[name], root, most))
    if not resized:
        raise BuildError(f"None of the originals of {key} in {root} can be resized. Name another split.")
    known = [np.asarray(image) for image in _known(release, f"{config}/test", splits["test"])]
    # The mean comes from other known images than those of the test split, if there are any.
    others = splits.get("validation")
    of_mean = [np.asarray(image) for image in _known(release, f"{config}/validation", others)] if others else []
    found = []
    for number, way in enumerate(WAYS):
        variation, area = {}, {}
        for distance in DISTANCES:
            mean = float(_variations(of_mean or known, distance).mean())
            values = _variations([ways[number] for ways in resized], distance)
            variation[distance] = float(values.mean())
            scores = (smoothness_score(side, mean) for side in (_variations(known, distance), values))
            area[distance] = auroc(*scores)
        found.append(Smoothness(way, len(resized), variation, area))
    return found


def _variations(pictures: Sequence[Pixels], distance: str) -> Float64:
    return np.array([total_variation(picture, distance) for picture in pictures])


def _known(release: Path, key: str, split: SplitEntry) -> Iterator[Image.Image]:
    roles = read_index(release, split, ["role"])["role"].to_numpy()
    return rgb_images(release, key, split, np.flatnonzero(roles == ROLES.index("in_distribution")))


def _resized(release: Path, key: str, split: SplitEntry, root: Path, most: int) -> Iterator[tuple[Pixels, ...]]:
    """Resize the originals of a split's first images in each of `WAYS`; those too narrow for a crop are left out."""
    pieces = split.pieces()
    source = SOURCES.get(pieces[0].source)
    if len(pieces) > 1 or source is None or not source.on_disk or source.arrays:
        raise BuildError(
            f"{key} has no originals that a resize could shrink. Name a split of one source of photographs."
        )
    if not root.is_dir():
        raise BuildError(f"There is no folder {root}. Give the folder of {source.title} with --originals.")
    index = open_source(source, root, pieces[0].partitions)
    ids = read_index(release, split, ["source_id"]).column(0).slice(0, most)
    _, read = image_sizes(index, _places(key, index, ids))
    for row in range(len(ids)):
        try:
            image = images.decode_or_mend(read(row))[0]
            yield tuple(np.asarray(resize(image)) for resize in WAYS.values())
        except images.TooNarrowError:
            continue
        except images.UnreadableImageError as error:
            raise BuildError(
                f"{source.title} in {root}: {ids[row]} does not decode ({error}). Replace it with a good copy."
            ) from error


def _places(key: str, index: SourceIndex, ids: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    places = index.find(ids)
    if places.null_count:
        raise BuildError(
            f"{index.source.title} in {index.root} lacks {places.null_count:,} of the originals of {key}. Give the "
            "copy that the release was built from."
        )
    return np.asarray(places.to_numpy(), np.int64)
