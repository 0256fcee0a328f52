"""Draws tables whose cells are coloured by their values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

_SIZE = 14
_LINE = 24
_PADDING = 8
_TEXT = (20, 20, 20)
_PAPER = (255, 255, 255)
_GRID = (205, 205, 205)
_HOT = (226, 74, 51)
_MARK = (120, 0, 0)


class HeatCell(NamedTuple):
    """A cell: its text, its heat from 0 (white) to 1 (red), None for no colour, and whether it has a frame."""

    text: str
    heat: float | None = None
    marked: bool = False


def heat_table(
    title: str, columns: Sequence[str], lines: Sequence[tuple[str, Sequence[HeatCell]]], note: str
) -> Image.Image:
    """Draw a table as one RGB picture, wide enough for every text, with a title above and a note below it.

    `columns` follow the first, which has the lines' names; a line has a cell for each.
    """
    font = ImageFont.load_default(_SIZE)
    cells = [[HeatCell(""), *map(HeatCell, columns)], *([HeatCell(name), *values] for name, values in lines)]
    widths = [
        math.ceil(max(font.getlength(cell.text) for cell in column)) + 2 * _PADDING
        for column in zip(*cells, strict=True)
    ]
    text_width = math.ceil(max(font.getlength(title), font.getlength(note)))
    width = max(sum(widths), text_width) + 2 * _PADDING
    picture = Image.new("RGB", (width, (len(cells) + 2) * _LINE + 2 * _PADDING), _PAPER)
    draw = ImageDraw.Draw(picture)
    draw.text((_PADDING, _PADDING), title, fill=_TEXT, font=font)
    for row, line in enumerate(cells):
        left, top = _PADDING, _PADDING + (row + 1) * _LINE
        for cell, wide in zip(line, widths, strict=True):
            fill = _PAPER if cell.heat is None else colour(cell.heat)
            draw.rectangle((left, top, left + wide, top + _LINE), fill=fill, outline=_GRID)
            if cell.marked:
                draw.rectangle((left + 1, top + 1, left + wide - 1, top + _LINE - 1), outline=_MARK, width=2)
            draw.text((left + _PADDING, top + 3), cell.text, fill=_TEXT, font=font)
            left += wide
    draw.text((_PADDING, _PADDING + (len(cells) + 1) * _LINE + 4), note, fill=_TEXT, font=font)
    return picture


def colour(heat: float) -> tuple[int, int, int]:
    """Return the colour of a heat from 0 to 1, between white and red; values outside are clipped."""
    share = min(1.0, max(0.0, heat))
    red, green, blue = (round(paper + share * (hot - paper)) for paper, hot in zip(_PAPER, _HOT, strict=True))
    return red, green, blue
