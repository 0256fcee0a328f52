"""Checks the frame header, tables and scan headers of a JPEG: whether libjpeg decodes what they describe.

The rules are those by which libjpeg-turbo (3.1: jdmarker.c, jdinput.c, jdsample.c, jdhuff.c, jdphuff.c) ends with an
error, and by which Pillow (13: JpegImagePlugin.py) knows the mode. They are narrow: what is rare and may decode
(arithmetic coding, the absent Huffman tables of Motion JPEG) counts as unusual, too, and is left to a decoder.

Tested by `tests/builders/release/test_jpeg_frame.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import mul

HUFFMAN_TABLES = 0xC4
START_OF_SCAN = 0xDA

_PROGRESSIVE = 0xC2
_DCT_FRAMES = (0xC0, 0xC1, _PROGRESSIVE)
"""Markers of the frames with Huffman codes that libjpeg decodes to 8 bits (T.81, table B.1)."""

_QUANTIZATION_TABLES = 0xDB
_RESTART_INTERVAL = 0xDD

_PRECISION = 8
_LAYERS = (1, 3, 4)
"""Numbers of components for which Pillow has a mode: L, RGB, CMYK."""

_TABLES_KEPT = 1024
"""Segments of tables whose verdict is kept (ours): most encoders write the same standard tables into every file."""

_LONGEST_SIDE = 65_500
"""`JPEG_MAX_DIMENSION` of libjpeg."""

_MOST_SAMPLING = 4
_MOST_BLOCKS = 10
"""Blocks of all components in a unit of an interleaved scan (T.81, B.2.3)."""

_TABLES = frozenset(range(4))
"""Numbers of tables of a kind."""

_COEFFICIENTS = 64
AC = 0x10
"""What is added to the number of a Huffman table of AC coefficients (T.81, B.2.4.2)."""

_LARGEST_DC = 15
"""The longest difference of DC coefficients, in bits, that libjpeg takes."""

_SHARES = tuple(1 << 16 - bits for bits in range(1, 17))
"""How many words of 16 bits begin with a Huffman code of 1, 2, ... 16 bits. No code has ones alone (annex C), so those
of all codes of a table are less than 2^16."""

_MOST_SHIFT = 13
"""The most bits by which a scan of a progressive frame may shift coefficients."""


@dataclass
class Frame:
    """What the segments of a JPEG read so far define: its frame and its tables.

    `components` maps each component's id to the blocks that a unit has of it and the number of its quantization table.
    `quantization` and `huffman` are the numbers of tables; those for AC coefficients have 16 added. It `is_complete`
    if a scan of a sequential frame had all components. `size` is its width and height.
    """

    marker: int = 0
    pixels: int = 0
    components: dict[int, tuple[int, int]] = field(default_factory=dict)
    quantization: set[int] = field(default_factory=set)
    huffman: set[int] = field(default_factory=set)
    is_complete: bool = False
    size: tuple[int, int] = (0, 0)

    def copy(self) -> Frame:
        """Return an independent copy, which can read on alone."""
        tables = set(self.quantization), set(self.huffman)
        return Frame(self.marker, self.pixels, self.components, *tables, self.is_complete)

    def of_sides(self, sides: bytes) -> Frame | None:
        """Return the same of another height and width (four bytes, as in a frame header); None if they are unusual."""
        height, width = sides[0] << 8 | sides[1], sides[2] << 8 | sides[3]
        if not (0 < height <= _LONGEST_SIDE and 0 < width <= _LONGEST_SIDE):
            return None
        return replace(self, pixels=width * height, size=(width, height))

    def reads(self, marker: int, content: bytes) -> bool:
        """Read a segment with tables, a frame or a scan; returns whether libjpeg surely accepts it."""
        if marker == HUFFMAN_TABLES:
            numbers = _huffman_tables(content)
            self.huffman |= numbers
            return bool(numbers)
        if marker == _QUANTIZATION_TABLES:
            numbers = _quantization_tables(content)
            self.quantization |= numbers
            return bool(numbers)
        if marker == START_OF_SCAN:
            return self._reads_scan(content)
        if marker in _DCT_FRAMES:
            return self._reads_frame(marker, content)
        return marker == _RESTART_INTERVAL and len(content) == 2

    def _reads_frame(self, marker: int, content: bytes) -> bool:
        """Read a frame header (B.2.2): precision, height, width, and of each component id, sampling and table."""
        if self.marker or len(content) < 6 or len(content) != 6 + 3 * content[5]:
            return False
        height, width = content[1] << 8 | content[2], content[3] << 8 | content[4]
        factors = [(value >> 4, value & 15) for value in content[7::3]]
        self.marker, self.pixels, self.size = marker, width * height, (width, height)
        self.components = {
            component: (across * down, table)
            for component, (across, down), table in zip(content[6::3], factors, content[8::3], strict=True)
        }
        return (
            content[0] == _PRECISION
            and 0 < height <= _LONGEST_SIDE
            and 0 < width <= _LONGEST_SIDE
            and content[5] in _LAYERS
            and len(self.components) == content[5]
            and all(_are_whole_steps(of_side) for of_side in zip(*factors, strict=True))
        )

    def _reads_scan(self, content: bytes) -> bool:
        """Read a scan header (B.2.3): the components with their Huffman tables, and the range of coefficients."""
        if self.is_complete or not content or len(content) != 4 + 2 * content[0]:
            return False
        chosen, tables, (first, last, shifts) = content[1:-3:2], content[2:-3:2], content[-3:]
        if not 0 < len(chosen) == len(self.components.keys() & set(chosen)):
            return False
        blocks, numbers = zip(*(self.components[component] for component in chosen), strict=True)
        if (len(chosen) > 1 and sum(blocks) > _MOST_BLOCKS) or not self.quantization.issuperset(numbers):
            return False
        dc, ac = {table >> 4 for table in tables}, {AC | table & 15 for table in tables}
        if self.marker != _PROGRESSIVE:
            self.is_complete = len(chosen) == len(self.components)
            return self.huffman >= dc | ac
        earlier, shift = divmod(shifts, 16)
        if shift > _MOST_SHIFT or (earlier and earlier != shift + 1):
            return False
        if first == 0:
            return last == 0 and (earlier > 0 or self.huffman >= dc)
        return len(chosen) == 1 and first <= last < _COEFFICIENTS and self.huffman >= ac


@lru_cache(_TABLES_KEPT)
def _are_whole_steps(factors: tuple[int, ...]) -> bool:
    """Whether sampling factors are legal and the greatest is a multiple of each, as libjpeg enlarges components."""
    greatest = max(factors)
    return greatest <= _MOST_SAMPLING and all(factor and greatest % factor == 0 for factor in factors)


@lru_cache(_TABLES_KEPT)
def _quantization_tables(content: bytes) -> frozenset[int]:
    """Return the numbers of a segment's quantization tables (B.2.4.1); none if libjpeg refuses one of them."""
    numbers: set[int] = set()
    position = 0
    while position < len(content):
        precision, number = content[position] >> 4, content[position] & 15
        numbers.add(number)
        position += 1 + _COEFFICIENTS * (2 if precision else 1)
    return frozenset(numbers if position == len(content) and numbers <= _TABLES else ())


@lru_cache(_TABLES_KEPT)
def _huffman_tables(content: bytes) -> frozenset[int]:
    """Return the numbers of a segment's Huffman tables (B.2.4.2); none if libjpeg refuses one of them."""
    numbers: set[int] = set()
    position, size = 0, len(content)
    while position + 17 <= size:
        number, counts = content[position], content[position + 1 : position + 17]
        start, position = position + 17, position + 17 + sum(counts)
        if number & ~AC not in _TABLES or position - start > 256 or sum(map(mul, counts, _SHARES)) >= 1 << 16:
            return frozenset()
        if number < AC and max(content[start:position], default=0) > _LARGEST_DC:
            return frozenset()
        numbers.add(number)
    return frozenset(numbers if position == size else ())
