"""Draws contact sheets: rows of small images, each row below a title, in one picture.

Tested by `tests/builders/audit/test_main.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

_CELL = 96
_GAP = 6
_LINE = 20
_TEXT = (20, 20, 20)
_PAPER = (255, 255, 255)


def contact_sheet(rows: Sequence[tuple[str, Sequence[Image.Image]]]) -> Image.Image:
    """Draw rows of images, each with its title above.

    Args:
        rows: title and images. Small images are enlarged by a whole factor, which shows their pixels as stored; large
            ones are shrunk.

    Returns:
        One RGB picture.
    """
    columns = max((len(images) for _, images in rows), default=0)
    font = ImageFont.load_default(14)
    titles = max((font.getlength(title) for title, _ in rows), default=0)
    width = max(columns * (_CELL + _GAP), int(titles) + _GAP) + _GAP
    height = len(rows) * (_LINE + _CELL + 2 * _GAP) + _GAP
    sheet = Image.new("RGB", (width, height), _PAPER)
    draw = ImageDraw.Draw(sheet)
    for number, (title, images) in enumerate(rows):
        top = _GAP + number * (_LINE + _CELL + 2 * _GAP)
        draw.text((_GAP, top), title, fill=_TEXT, font=font)
        for column, image in enumerate(images):
            sheet.paste(_fitted(image), (_GAP + column * (_CELL + _GAP), top + _LINE))
    return sheet


def _fitted(image: Image.Image) -> Image.Image:
    factor = _CELL // max(image.size)
    if factor >= 1:
        return image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)
    small = image.copy()
    small.thumbnail((_CELL, _CELL))
    return small
