"""Checks the structure of a JPEG without decoding it (ITU-T T.81, annex B: markers, segments and scans)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_START = b"\xff\xd8"
_END = b"\xff\xd9"
_APP1 = 0xE1
_HUFFMAN_TABLES = 0xC4
_START_OF_SCAN = 0xDA
_FRAMES = frozenset(range(0xC0, 0xD0)) - {_HUFFMAN_TABLES, 0xC8, 0xCC}
_SEQUENTIAL = (0xC0, 0xC1)
_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xDA)})

# Bytes that may follow FF in a scan, besides 00 (which makes the FF data): fill bytes and restart markers, after which
# the scan continues, and markers of segments between scans.
_IN_SCAN = frozenset({0xFF, *range(0xD0, 0xD8)})
_BETWEEN_SCANS = frozenset({_HUFFMAN_TABLES, 0xCC, _START_OF_SCAN, 0xDB, 0xDC, 0xDD, 0xFE, *range(0xE0, 0xF0)})

_AC = 0x10
_END_OF_BLOCK = 0x00

_ZEROS = 256
"""Length of a run of zero bytes that exceeds any block of coefficients (64 of at most 26 bits)."""


class JpegHeader(NamedTuple):
    """The segments before the first scan.

    `frame` is the frame marker, `huffman` the starts and stops of the contents of segments with Huffman tables,
    `components` those of the first scan's list of components and tables, `scan` the position of that scan's data, and
    `blocks` those of APP1 segments including their markers (EXIF or XMP, which decoding reads).
    """

    frame: int
    huffman: list[tuple[int, int]]
    components: tuple[int, int]
    scan: int
    blocks: list[tuple[int, int]]


def read_jpeg_header(data: bytes | memoryview) -> JpegHeader | None:
    """Read the segments before the first scan; None if they are not valid."""
    if data[:2] != _START:
        return None
    position, size, frame = 2, len(data), 0
    blocks: list[tuple[int, int]] = []
    huffman: list[tuple[int, int]] = []
    while position + 4 <= size and data[position] == 0xFF:
        marker = data[position + 1]
        if marker == 0xFF:  # padding before a marker (B.1.1.2)
            position += 1
            continue
        stop = position + 2 + _length(data, position)
        if marker < 0xC0 or marker in _WITHOUT_LENGTH or stop < position + 4 or stop > size:
            return None
        if marker == _START_OF_SCAN:
            first = position + 5
            components = first, first + 2 * data[position + 4]
            return JpegHeader(frame, huffman, components, stop, blocks) if frame else None
        if marker == _HUFFMAN_TABLES:
            huffman.append((position + 4, stop))
        elif marker in _FRAMES:
            frame = marker
        elif marker == _APP1:
            blocks.append((position, stop))
        position = stop
    return None


def looks_whole(data: memoryview, header: JpegHeader) -> bool:
    """Whether a JPEG looks complete without being decoded.

    Besides the segments before the first scan (`read_jpeg_header`), this checks the byte after every FF in the scans,
    the position of the end marker, which must be last, and long runs of zeros.

    Damage inside tables and most wrong codes show only when decoding. A scan that stops early before a valid end
    marker, and bytes that happen to be valid codes, do not show even then: libjpeg fills in the missing part and only
    warns, which Pillow does not report.
    """
    return data[-2:] == _END and _end_of_scans(data, header.scan) == len(data) - 2 and not has_hole(data, header)


def has_hole(data: bytes | memoryview, header: JpegHeader) -> bool:
    """Whether zero bytes have replaced a part of a JPEG's image data, as after the loss of a disk block.

    Decoding does not show this, because zero bits are the first code of a Huffman table. Unless that code ends a
    block, a run of zeros means block after block of equal coefficients, which no picture has. If it does end one
    (tables optimized for a flat picture), or if scans refine others (progressive files), zeros may be intended, and
    the result is False. Zeros directly before the end marker are padding.
    """
    # A run of that length has at least two consecutive zeros among these bytes.
    if np.frombuffer(data, np.uint8)[:: _ZEROS // 2].tobytes().find(b"\0\0") < 0 or header.frame not in _SEQUENTIAL:
        return False
    first_symbols: dict[int, int] = {}
    for start, stop in header.huffman:
        first_symbols |= _first_symbols(bytes(data[start:stop]))
    # The low half of a component's second byte is the number of its AC table.
    tables = [_AC | selectors & 0x0F for selectors in bytes(data[slice(*header.components)])[1::2]]
    if not any(first_symbols.get(table, _END_OF_BLOCK) != _END_OF_BLOCK for table in tables):
        return False
    scan = bytes(data[header.scan :])
    scan = scan[: scan.rfind(_END) if _END in scan else None].rstrip(b"\0")
    # Only the tables of the first scan were checked, so a file with several scans is not judged.
    return bytes(_ZEROS) in scan and b"\xff\xda" not in scan


def _first_symbols(tables: bytes) -> dict[int, int]:
    """Return the first symbol of each table of a segment (B.2.4.2): its number, 16 counts, and symbols by code."""
    first_symbols = {}
    position = 0
    while position + 17 < len(tables):
        first_symbols[tables[position]] = tables[position + 17]
        position += 17 + sum(tables[position + 1 : position + 17])
    return first_symbols


def _end_of_scans(data: memoryview, start: int) -> int | None:
    """Return the position of the end marker; None if an invalid byte follows FF before it."""
    pixels = np.frombuffer(data, np.uint8)[start:]
    # Three vectorized passes take a third of the time of a loop over the FFs.
    followed = pixels[:-1] == 0xFF
    followed &= pixels[1:].astype(bool)
    marks = followed.tobytes()
    at = marks.find(1)
    while at >= 0:
        marker = int(pixels[at + 1])
        if marker == _END[1]:
            return start + int(at)
        if marker in _IN_SCAN:
            at = marks.find(1, at + 1)
        elif marker in _BETWEEN_SCANS and start + at + 4 <= len(data):
            at = marks.find(1, at + 2 + _length(data, start + at))
        else:
            return None
    return None


def _length(data: bytes | memoryview, position: int) -> int:
    """Return the length that a segment states: with the length field, without the marker."""
    return data[position + 2] << 8 | data[position + 3]
