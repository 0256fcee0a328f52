"""Tasks that measure simple numbers of an image, such as its size, encoding, colours and smoothness."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image

from builders.card.pictures import first_rows
from builders.errors import BuildError
from builders.executors.base import ONE_CORE, Executor, Meter, Progress, Resources
from builders.release import images
from builders.release.entries import Manifest
from builders.release.reader import RowGroup, Rows, read_index, row_groups
from builders.release.schema import KNOWN_ROLE

HEADER_NUMBERS = ("width", "height", "aspect", "bytes_per_pixel", "jpeg", "jpeg_quality")
"""Read from the header alone. `jpeg` is 1 for a JPEG and 0 for other formats, which have no `jpeg_quality`."""

_COLOURS = ("red", "green", "blue")
PIXEL_NUMBERS = (*(f"{kind}_{colour}" for kind in ("mean", "variance") for colour in _COLOURS), "total_variation")
"""Computed from decoded pixels: levels are from 0 to 255, and the variance is that of an image's pixels."""

NUMBERS = (*HEADER_NUMBERS, *PIXEL_NUMBERS)

Float64 = npt.NDArray[np.float64]

_LUMINANCE = np.array(
    [
        *(16, 11, 10, 16, 24, 40, 51, 61),
        *(12, 12, 14, 19, 26, 58, 60, 55),
        *(14, 13, 16, 24, 40, 57, 69, 56),
        *(14, 17, 22, 29, 51, 87, 80, 62),
        *(18, 22, 37, 56, 68, 109, 103, 77),
        *(24, 35, 55, 64, 81, 104, 113, 92),
        *(49, 64, 78, 87, 103, 121, 120, 101),
        *(72, 92, 95, 98, 112, 100, 103, 99),
    ],
    dtype=np.int64,
)
"""ITU-T T.81, annex K, table K.1: quantisation of luminance, row by row."""


_SCALES = np.array([5000 // quality if quality < 50 else 200 - 2 * quality for quality in range(1, 101)])
_TABLES = np.clip((_SCALES[:, np.newaxis] * _LUMINANCE + 50) // 100, 1, 255)
"""libjpeg's luminance tables by quality (jcparam.c, `jpeg_quality_scaling`, `jpeg_add_quant_table`)."""

_LEVELS = np.arange(256, dtype=np.float64)
_TURNED = frozenset({5, 6, 7, 8})
"""EXIF orientations that exchange width and height (TIFF 6.0, tag 274)."""


def estimated_quality(table: Sequence[int]) -> int:
    """Return the quality, 1 to 100, whose luminance table in libjpeg is nearest to the given one.

    The table has 64 steps, row by row, as Pillow's `quantization`. Exact for what libjpeg encoded with its standard
    tables, and so for most files. For others (Photoshop, cameras) it is the libjpeg quality that quantises most alike,
    by the sum of absolute differences (ours).
    """
    return int(np.abs(_TABLES - np.asarray(table, np.int64)).sum(axis=1).argmin()) + 1


def header_numbers(data: bytes) -> list[float]:
    """Return `HEADER_NUMBERS` of an encoded image without decoding its pixels; NaN for a number that it lacks.

    Width and height are those of the upright image, which `datasets` gives.
    """
    image = Image.open(io.BytesIO(data))
    width, height = image.size
    if image.getexif().get(ExifTags.Base.Orientation) in _TURNED:
        width, height = height, width
    tables = getattr(image, "quantization", None)
    is_jpeg = image.format in ("JPEG", "MPO")
    quality = float(estimated_quality(tables[min(tables)])) if is_jpeg and tables else math.nan
    return [width, height, width / height, len(data) / (width * height), float(is_jpeg), quality]


def pixel_numbers(image: Image.Image) -> list[float]:
    """Return `PIXEL_NUMBERS` of a decoded image, after conversion to RGB."""
    rgb = image.convert("RGB")
    # Sums over a histogram of levels are exact, and faster than sums over pixels.
    counts = np.array(rgb.histogram(), np.float64).reshape(3, 256) / (rgb.width * rgb.height)
    means = counts @ _LEVELS
    variances = [float(count @ np.square(_LEVELS - mean)) for count, mean in zip(counts, means, strict=True)]
    return [*means.tolist(), *variances, total_variation(np.asarray(rgb))]


def total_variation(image: npt.NDArray[np.uint8]) -> float:
    """Return the mean distance between a pixel of an image (height, width, 3) and its right or lower neighbour.

    It is from 0 to sqrt(3). Kim et al., section 3.1: the distances between each pixel and its surrounding pixels,
    summed over the image. They name neither the distance nor how far the surroundings reach. Ours are the Euclidean
    distance, over the channels scaled to [0, 1], and the pixels to the left and right, above and below. Both change
    which of two images has more: squared distances would weigh a few sharp edges more than much faint texture. To
    count each pair of neighbours once instead of twice, and to divide by the number of pairs, which makes images of
    different sizes comparable, changes no order of images of one size.
    """
    pixels = image.astype(np.float64) / 255
    down, right = (np.sqrt(np.square(np.diff(pixels, axis=axis)).sum(axis=2)) for axis in (0, 1))
    pairs = down.size + right.size
    return float((down.sum() + right.sum()) / pairs) if pairs else 0.0


def mann_whitney_auroc(known: Float64, unknown: Float64) -> float:
    """Return the probability that an unknown image scores above a known one (Mann-Whitney; ties count half)."""
    from scipy.stats import mannwhitneyu  # half a second, for which --help should not wait

    return float(mannwhitneyu(unknown, known, method="asymptotic").statistic / (len(known) * len(unknown)))


class RoleRows(NamedTuple):
    """The rows of one role in a split (`config/split`)."""

    split: str
    role: str


@dataclass(frozen=True)
class MeasureTask:
    """A `builders.executors.base.Task` that measures the images of one row group: an array (rows, `NUMBERS`)."""

    group: RowGroup
    resources: ClassVar[Resources] = ONE_CORE

    def run(self, progress: Progress) -> Float64:
        """Read and measure the images."""
        measured = []
        for size, numbers in self.group.each(
            lambda data: (len(data), [*header_numbers(data), *pixel_numbers(images.decode(data))])
        ):
            measured.append(numbers)
            progress(1, size)
        return np.array(measured, np.float64).reshape(-1, len(NUMBERS))


def has_known_test(manifest: Manifest, config: str) -> bool:
    """Whether a config's split `test` has in-distribution images."""
    test = manifest.configs[config].splits.get("test")
    return test is not None and KNOWN_ROLE in test.roles


def sampled(root: Path, manifest: Manifest, keys: Sequence[str], sample: int | None) -> dict[RoleRows, Rows]:
    """Choose the first `sample` rows of each role of some splits (`config/split`), a random sample by keyed rank.

    Their numbers ascend: `sample` of them, or all if there are fewer or it is None.
    """
    entries = manifest.by_key()
    return {
        RoleRows(key, role): numbers
        for key in keys
        for role, numbers in first_rows(read_index(root, entries[key], ["role"]), sample).items()
    }


def measure_rows(
    root: Path, manifest: Manifest, chosen: Mapping[RoleRows, Rows], executor: Executor, meter: Meter
) -> dict[RoleRows, Float64]:
    """Measure the images of some rows, given by ascending numbers: an array (n, `NUMBERS`) for each set of rows."""
    entries = manifest.by_key()
    groups = [
        (rows, group)
        for rows, numbers in chosen.items()
        for group in row_groups(root, rows.split, entries[rows.split], numbers)
    ]
    with meter.step("measuring", sum(len(numbers) for numbers in chosen.values())) as advance:
        results = executor.run([MeasureTask(group) for _, group in groups], advance)
    measured = {rows: np.zeros((len(numbers), len(NUMBERS))) for rows, numbers in chosen.items()}
    for (rows, group), values in zip(groups, results, strict=True):
        measured[rows][group.first : group.first + len(values)] = values
    return measured


def known_rows(measured: Mapping[RoleRows, Float64], split: str) -> Float64:
    """Return the measured numbers of a split's known images; `BuildError` if it has none."""
    if (known := measured.get(RoleRows(split, KNOWN_ROLE))) is None:
        raise BuildError(
            f"{split} has no rows of the role in_distribution to compare others with. Check the release with python "
            "-m hf_scripts.verify."
        )
    return known
