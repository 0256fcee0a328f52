"""Checks the structure of a JPEG without decoding it (ITU-T T.81, annex B: markers, segments and scans)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from builders.release.jpeg_frame import AC, HUFFMAN_TABLES, START_OF_SCAN, Frame

_START = b"\xff\xd8"
_END = b"\xff\xd9"
_APP1 = 0xE1
_FRAMES = frozenset(range(0xC0, 0xD0)) - {HUFFMAN_TABLES, 0xC8, 0xCC}
_SEQUENTIAL = (0xC0, 0xC1)
_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xDA)})

# Bytes that may follow FF in a scan, besides 00 (which makes the FF data): fill bytes and restart markers, after which
# the scan continues, and markers of segments between scans.
_IN_SCAN = frozenset({0xFF, *range(0xD0, 0xD8)})
_BETWEEN_SCANS = frozenset({HUFFMAN_TABLES, START_OF_SCAN, 0xDB, 0xDD, 0xFE, *range(0xE0, 0xF0)})

# Comments and segments of applications, of which libjpeg takes any. Pillow reads the latter, and some only if they are
# well-formed: these always, given their beginning and the least length of their contents.
_PASSED_OVER = frozenset({0xFE, *range(0xE0, 0xF0)})
_PLAIN = {0xE0: (b"JFIF\0", 14), 0xE2: (b"ICC_PROFILE\0", 14), 0xEE: (b"Adobe", 12), 0xFE: (b"", 0)}

_END_OF_BLOCK = 0x00

_ZEROS = 256
"""Length of a run of zero bytes that exceeds any block of coefficients (64 of at most 26 bits)."""


class JpegHeader(NamedTuple):
    """The segments before the first scan.

    `frame` is the frame marker, `sides` the position of height and width behind it, `huffman` the starts and stops of
    the contents of segments with Huffman tables, `components` those of the first scan's list of components and tables,
    `scan` the position of that scan's data, and `blocks` those of APP1 segments including their markers (EXIF or XMP,
    which decoding reads), with `metadata` bytes. `read` is what was read of frame and tables, `is_usual` whether
    libjpeg surely takes all of it, and `is_plain` whether Pillow surely takes the other segments.
    """

    frame: int
    sides: int
    huffman: list[tuple[int, int]]
    components: tuple[int, int]
    scan: int
    blocks: list[tuple[int, int]]
    metadata: int
    read: Frame
    is_usual: bool
    is_plain: bool


_last: list[tuple[bytes, JpegHeader]] = []
"""The bytes before the first scan of the JPEG that was read last, and what they say."""


def read_jpeg_header(data: bytes | memoryview) -> JpegHeader | None:
    """Read the segments before the first scan; None if they are not valid.

    Images that one encoder wrote share these bytes but for their size, so that those of a folder are often read once.
    """
    for before, header in _last:
        start, stop = header.sides, header.sides + 4
        if bytes(data[:start]) == before[:start] and bytes(data[stop : len(before)]) == before[stop:]:
            if data[start:stop] == before[start:stop]:
                return header
            if header.is_usual and (resized := header.read.of_sides(bytes(data[start:stop]))) is not None:
                header = header._replace(read=resized)
                _last[:] = [(bytes(data[: len(before)]), header)]
                return header
    read = _read_segments(data) if data[:2] == _START else None
    if read is not None:
        _last[:] = [(bytes(data[: read.scan]), read)]
    return read


def _read_segments(data: bytes | memoryview) -> JpegHeader | None:
    position, size, frame, sides = 2, len(data), 0, 0
    read, is_usual, is_plain = Frame(), True, True
    blocks: list[tuple[int, int]] = []
    huffman: list[tuple[int, int]] = []
    while position + 4 <= size and data[position] == 0xFF:
        marker = data[position + 1]
        if marker == 0xFF:  # padding before a marker (B.1.1.2)
            position += 1
            continue
        # A segment states its length, of which the two bytes of the length are a part and the marker is none.
        stop = position + 2 + (data[position + 2] << 8 | data[position + 3])
        if marker < 0xC0 or marker in _WITHOUT_LENGTH or stop < position + 4 or stop > size:
            return None
        if marker not in _PASSED_OVER:
            is_usual &= read.reads(marker, bytes(data[position + 4 : stop]))
        elif is_plain:
            beginning, least = _PLAIN.get(marker, (b"", size))
            first = position + 4
            is_plain = stop - first >= least and data[first : first + len(beginning)] == beginning
        if marker == START_OF_SCAN:
            first = position + 5
            components = first, first + 2 * data[position + 4]
            metadata = sum(end - start for start, end in blocks)
            header = JpegHeader(frame, sides, huffman, components, stop, blocks, metadata, read, is_usual, is_plain)
            return header if frame else None
        if marker == HUFFMAN_TABLES:
            huffman.append((position + 4, stop))
        elif marker in _FRAMES:
            frame, sides = marker, position + 5  # behind the marker, the length and the precision
        elif marker == _APP1:
            blocks.append((position, stop))
        position = stop
    return None


def looks_whole(data: memoryview, header: JpegHeader) -> bool:
    """Whether a JPEG, without being decoded, looks complete and decodable by libjpeg.

    This checks frame, tables and scan headers (`Frame`), the byte after every FF in the scans, the position of the end
    marker, which must be last, and long runs of zeros.

    A scan that stops early before a valid end marker, and wrong codes, do not show even when decoding: libjpeg fills
    in the missing part and only warns, which Pillow does not report.
    """
    if not header.is_usual or data[-2:] != _END:
        return False
    return _end_of_scans(data, header) == len(data) - 2 and not has_hole(data, header)


def has_hole(data: bytes | memoryview, header: JpegHeader) -> bool:
    """Whether zero bytes replace a part of a JPEG's image data, as after the loss of a disk block.

    Decoding does not show this, because zero bits are the first code of a Huffman table. Unless that code ends a
    block, a run of zeros means block after block of equal coefficients, which no picture has. If it does end one
    (tables optimized for a flat picture), or if scans refine others (progressive files), zeros may be intended, and
    the result is False. Zeros directly before the end marker are padding.
    """
    # A run of that length has at least two consecutive zeros among these bytes, as a third of all photographs have.
    if np.frombuffer(data, np.uint8)[:: _ZEROS // 2].tobytes().find(b"\0\0") < 0 or header.frame not in _SEQUENTIAL:
        return False
    scan = bytes(data[header.scan :])
    if bytes(_ZEROS) not in scan:
        return False
    first_symbols: dict[int, int] = {}
    for start, stop in header.huffman:
        first_symbols |= _first_symbols(bytes(data[start:stop]))
    # The low half of a component's second byte is the number of its AC table.
    tables = [AC | selectors & 0x0F for selectors in bytes(data[slice(*header.components)])[1::2]]
    if not any(first_symbols.get(table, _END_OF_BLOCK) != _END_OF_BLOCK for table in tables):
        return False
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


def _end_of_scans(data: memoryview, header: JpegHeader) -> int | None:
    """Return the position of the end marker; None if an invalid byte follows FF, or an unusual segment, before it."""
    start, read = header.scan, None
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
            stop = at + 2 + (data[start + at + 2] << 8 | data[start + at + 3])
            if marker not in _PASSED_OVER:
                read = read or header.read.copy()
                if not read.reads(marker, pixels[at + 4 : stop].tobytes()):
                    return None
            at = marks.find(1, stop)
        else:
            return None
    return None
