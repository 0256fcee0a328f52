"""Draws images in rows with titles and captions, for contact sheets and for the card's samples.

Nothing is cut off: the picture is wide enough for its cells, and titles, captions and the note are wrapped to fit.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw, ImageFont

CELL = 128
"""Width and height in pixels of the place for an image: four times those of CIFAR's images."""

COLUMNS = 12
"""Most images side by side; 12 at 150 dots per inch are as wide as a page."""

_GAP = 12
_FEWEST_COLUMNS = 5  # room for titles
_FRAME = 3
_TITLE, _CAPTION = 16, 12
_CAPTION_LINES = 2
_TEXT, _SOFT, _PAPER = (20, 20, 20), (90, 90, 90), (255, 255, 255)
UNKNOWN_COLOUR = (213, 94, 0)
"""Frame of unknown images: vermilion of the palette of Okabe and Ito, which is told apart by colour-blind readers."""

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


@dataclass(frozen=True)
class GridImage:
    """An image with the caption below it; an `unknown` image is framed."""

    image: Image.Image
    caption: str = ""
    unknown: bool = False


@dataclass(frozen=True)
class Stack:
    """A column of images, usually one, with a text above them."""

    images: tuple[GridImage, ...]
    above: str = ""


@dataclass(frozen=True)
class Strip:
    """A title and the columns of images below it; more than `COLUMNS` of them take further lines."""

    title: str
    columns: tuple[Stack, ...]


def grid(rows: Sequence[Strip], note: str = "") -> Image.Image:
    """Draw strips of images from top to bottom, and a note below them, as one RGB picture.

    Small images are enlarged by a whole factor without smoothing, which shows their pixels as stored; large ones are
    shrunk.
    """
    widest = max((min(len(row.columns), COLUMNS) for row in rows), default=0)
    width = max(widest, _FEWEST_COLUMNS) * (CELL + _GAP) + _GAP
    blank = _Canvas(Image.new("RGB", (1, 1)), width)
    blank.draw_all(rows, note)  # only measures: what lies outside of a picture is not drawn
    canvas = _Canvas(Image.new("RGB", (width, blank.top), _PAPER), width)
    canvas.draw_all(rows, note)
    return canvas.picture


class _Canvas:
    """Draws from the top down; `top` is where the next thing goes."""

    def __init__(self, picture: Image.Image, width: int) -> None:
        self.picture, self.width, self.top = picture, width, _GAP
        self._draw = ImageDraw.Draw(picture)
        self._title, self._caption = ImageFont.load_default(_TITLE), ImageFont.load_default(_CAPTION)

    def draw_all(self, rows: Sequence[Strip], note: str) -> None:
        for row in rows:
            self._text(row.title, self._title, _TEXT)
            for first in range(0, len(row.columns), COLUMNS):
                self._columns(row.columns[first : first + COLUMNS])
        if note:
            self._text(note, self._caption, _SOFT)

    def _text(self, text: str, font: Font, colour: tuple[int, int, int]) -> None:
        for line in wrapped_lines(text, self.width - 2 * _GAP, len(text), font.getlength):
            self._draw.text((_GAP, self.top), line, fill=colour, font=font)
            self.top += _line_height(font)
        self.top += _GAP // 2

    def _columns(self, columns: Sequence[Stack]) -> None:
        self._captions([column.above for column in columns], 1)
        for level in itertools.zip_longest(*(column.images for column in columns)):
            self.top += _FRAME
            for column_number, image in enumerate(level):
                if image is not None:
                    self._image(image, _GAP + column_number * (CELL + _GAP))
            self.top += CELL + _FRAME + 2
            self._captions([image.caption if image is not None else "" for image in level], _CAPTION_LINES)
        self.top += _GAP

    def _image(self, shown: GridImage, left: int) -> None:
        small = fitted(shown.image, CELL)
        left, top = left + (CELL - small.width) // 2, self.top + CELL - small.height  # beside the caption
        if shown.unknown:
            box = (left - _FRAME, top - _FRAME, left + small.width + _FRAME - 1, top + small.height + _FRAME - 1)
            self._draw.rectangle(box, outline=UNKNOWN_COLOUR, width=_FRAME)
        self.picture.paste(small, (left, top))

    def _captions(self, texts: Sequence[str], most: int) -> None:
        """Draw texts side by side, each centred in the width of a cell, in as many lines as the longest needs."""
        font, height = self._caption, _line_height(self._caption)
        all_lines = [wrapped_lines(text, CELL + _GAP - 4, most, font.getlength) for text in texts]
        for column, lines in enumerate(all_lines):
            for number, line in enumerate(lines):
                left = _GAP + column * (CELL + _GAP) + (CELL - font.getlength(line)) / 2
                self._draw.text((left, self.top + number * height), line, fill=_TEXT, font=font)
        self.top += max(map(len, all_lines)) * height


def fitted(image: Image.Image, side: int) -> Image.Image:
    """Fit an image into a square: enlarge it by the greatest whole factor possible, or shrink it."""
    factor = side // max(image.size)
    if factor >= 1:
        return image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)
    small = image.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    return small


def _line_height(font: Font) -> int:
    box = font.getbbox("Ag|")
    return math.ceil(box[3]) + 3


_BREAKS = re.compile(r"[^\s/_,.-]*[/_,.-]*|\s+")


def wrapped_lines(text: str, width: float, lines: int, length: Callable[[str], float]) -> list[str]:
    """Break a text into lines that fit a width, at spaces and after `/`, `_`, `,`, `.` and `-`.

    `length` gives the width of a text. Runs of spaces count as one; a text of more than `lines` ends in an ellipsis.
    """
    wrapped, line = [], ""
    for piece in filter(None, _BREAKS.findall(" ".join(text.split()))):
        if length((line + piece).rstrip()) <= width:
            line += piece if line or not piece.isspace() else ""
            continue
        if line.strip():
            wrapped.append(line.rstrip())
        line = piece.lstrip()
        while length(line) > width and len(line) > 1:  # a word longer than a line
            end = next(end for end in range(len(line) - 1, 0, -1) if end == 1 or length(line[:end]) <= width)
            wrapped.append(line[:end])
            line = line[end:]
    if line.strip():
        wrapped.append(line.rstrip())
    if len(wrapped) > lines:
        last = wrapped[lines - 1]
        while last and length(f"{last}\u2026") > width:
            last = last[:-1]
        wrapped = [*wrapped[: lines - 1], f"{last.rstrip()}\u2026"]
    return wrapped
