"""Pictures of images: pixels as stored, texts inside the picture, and lines that fit."""

import numpy as np
import pytest
from PIL import Image, ImageFont

from builders.card.grid import CELL, COLUMNS, GridImage, Stack, Strip, fitted, grid, wrapped_lines
from builders.card.words import ROLE_MEANINGS, ROLE_NAMES
from builders.release.schema import ROLES, UNKNOWN_ROLES

LONG = "a title of a split with a very long name and many, many images of unknown classes, 1,234 of 567,890"


def noise(width, height, seed=0):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8))


@pytest.mark.parametrize("size", [(32, 32), (20, 45), (64, 1)])
def test_small_images_are_enlarged_by_whole_pixels(size):
    image = noise(*size)
    factor = CELL // max(size)
    assert np.array_equal(np.asarray(fitted(image, CELL)), np.kron(np.asarray(image), np.ones((factor, factor, 1))))


def test_large_images_are_shrunk_into_their_cell():
    assert fitted(noise(500, 375), CELL).size == (CELL, CELL * 375 // 500)


def ink(picture):
    """The box of all that is not paper."""
    rows, columns = np.nonzero((np.asarray(picture) != 255).any(axis=2))
    return columns.min(), rows.min(), columns.max(), rows.max()


@pytest.mark.parametrize("count", [0, 1, COLUMNS, COLUMNS + 1])
def test_nothing_leaves_the_picture(count):
    """Text that is cut off would have ink on the edge."""
    columns = tuple(Stack((GridImage(noise(32, 32), LONG, True),) * 2, "W" * 40) for _ in range(count))
    picture = grid([Strip(LONG, columns), Strip("W" * 300, columns)], LONG * 3)
    left, top, right, bottom = ink(picture)
    assert left > 0 and top > 0 and right < picture.width - 1 and bottom < picture.height - 1


def test_a_row_of_many_images_goes_on_below():
    full, more = (grid([Strip("", (Stack((GridImage(noise(32, 32)),)),) * count)]) for count in (COLUMNS, COLUMNS + 1))
    assert more.width == full.width and more.height >= full.height + CELL


def test_lines_fit_and_keep_every_letter():
    length = ImageFont.load_default(12).getlength
    lines = wrapped_lines(LONG, 90, 99, length)
    assert all(length(line) <= 90 for line in lines)
    assert "".join("".join(lines).split()) == "".join(LONG.split())
    assert wrapped_lines("far_ood_caltech45/some", 9, 9, len) == ["far_ood_", "caltech45", "/some"]
    assert wrapped_lines("abcdefgh", 3, 9, len) == ["abc", "def", "gh"]
    assert wrapped_lines("one two three", 5, 2, len) == ["one", "two\u2026"]
    assert wrapped_lines("  ", 5, 2, len) == []


def test_every_role_is_explained():
    assert set(ROLE_NAMES) == set(ROLE_MEANINGS) == set(ROLES)
    assert {role for role, text in ROLE_MEANINGS.items() if text.startswith("unknown: ")} == set(UNKNOWN_ROLES)
