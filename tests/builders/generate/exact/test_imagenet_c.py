"""Frost and elastic transform against the published formulas, whose numbers the library changed."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from builders.generate.exact.corruptions import corruption
from tests.builders.generate.exact.test_corruptions import assert_truncated, corrupted, drawn, photograph, unit


def from_the_photograph(draws, number):
    """The 224 x 224 of one of the photographs of frost, at its own size."""
    folder = Path(importlib.util.find_spec("imagecorruptions").submodule_search_locations[0]) / "frost"
    frost = np.asarray(Image.open(folder / f"frost{number + 1}.{'png' if number < 3 else 'jpg'}").convert("RGB"))
    top, left = (draws.randint(0, side - 224) for side in frost.shape[:2])
    return frost[top : top + 224, left : left + 224]


@pytest.mark.parametrize("severity", [1, 5])
def test_frost_is_cut_from_the_first_five_photographs_at_their_size(severity):
    # make_imagenet_c.py: `np.random.randint(5)`, and no resize; the library draws from six, enlarged by a tenth.
    own, layer = {1: (1, 0.4), 5: (0.6, 0.75)}[severity]
    seen = set()
    for row in range(12):
        row_id = f"imagenet/val/{row}.JPEG#frost-{severity}"
        draws = drawn(row_id)
        number = draws.randint(5)
        exact = own * unit(photograph()) + layer * from_the_photograph(draws, number) / 255
        assert_truncated(corrupted("frost", severity, photograph(), row_id), exact, 1e-9)
        seen.add(number)
    assert len(seen) >= 3


def between(pixels, rows, columns, folded):
    """Pixels between others, linearly; `folded` gives the whole number within the image for one beyond."""
    top, left = np.floor(rows).astype(int), np.floor(columns).astype(int)
    down, across = (rows - top)[..., None], (columns - left)[..., None]
    upper, lower, near, far = (folded(index) for index in (top, top + 1, left, left + 1))
    above = pixels[upper, near] * (1 - across) + pixels[upper, far] * across
    return above * (1 - down) + (pixels[lower, near] * (1 - across) + pixels[lower, far] * across) * down


def about_the_last(index):
    """OpenCV's BORDER_REFLECT_101: gfedcb|abcdefgh|gfedcba."""
    index = np.abs(index) % 446
    return np.minimum(index, 446 - index)


def about_the_edge(index):
    """SciPy's `reflect`: dcba|abcdefgh|hgfedcba."""
    index = index % 448
    return np.minimum(index, 447 - index)


@pytest.mark.parametrize("severity", [1, 2, 5])
def test_elastic_transform_moves_corners_and_then_pixels(severity):
    # make_imagenet_c.py, with a bilinear interpolation by hand; the library has no affine part.
    strength, smoothness, most = {1: (488, 170.8, 24.4), 2: (488, 19.52, 48.8), 5: (29.28, 2.44, 4.88)}[severity]
    draws, grid = drawn(), np.mgrid[:224, :224].astype(float)
    corners = np.float32([(186, 186), (186, 38), (38, 38)])
    moved = corners + draws.uniform(-most, most, (3, 2)).astype(np.float32)
    onto = np.linalg.solve(np.c_[moved, np.ones(3)].astype(float), corners)  # (x, y, 1) of the result times it
    columns, rows = np.moveaxis(np.stack([grid[1], grid[0], np.ones((224, 224))], -1) @ onto, -1, 0)
    pixels = between(unit(photograph()), rows, columns, about_the_last)
    across, down = (
        ndimage.gaussian_filter(draws.uniform(-1, 1, (224, 224)), smoothness, truncate=3) * strength for _ in range(2)
    )
    exact = between(pixels, grid[0] + down, grid[1] + across, about_the_edge)
    # In single precision.
    assert_truncated(corrupted("elastic_transform", severity, photograph()), exact, 0.02)


def test_what_changed_is_another_version_and_says_so():
    assert {name: corruption(name, 1).version for name in ("frost", "elastic_transform", "snow")} == {
        "frost": 2,
        "elastic_transform": 2,
        "snow": 1,
    }
    assert "by its published formula" in corruption("frost", 3).description
    assert "ImageMagick's is rounded" in corruption("motion_blur", 3).description
