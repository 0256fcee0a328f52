"""Parquet's footers and page headers, read from Thrift's compact protocol into values that a test changes.

A struct is {field: (type, value)}, a list is (type of its items, items). Types have the numbers of the protocol's
specification (https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md).
"""

BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, STRUCT = 3, 4, 5, 6, 7, 8, 9, 10, 12
TRUE, FALSE = 1, 2


def _varint(data, place):
    value = shift = 0
    while True:
        value |= (data[place] & 127) << shift
        shift += 7
        place += 1
        if data[place - 1] < 128:
            return value, place


def parse(data, place, kind=STRUCT):
    """Read a value; returns it with the place after it."""
    if kind in (TRUE, FALSE):
        return kind == TRUE, place
    if kind == BYTE:
        return data[place], place + 1
    if kind in (I16, I32, I64):
        value, place = _varint(data, place)
        return (value >> 1) ^ -(value & 1), place
    if kind == DOUBLE:
        return data[place : place + 8], place + 8
    if kind == BINARY:
        size, place = _varint(data, place)
        return data[place : place + size], place + size
    return _parse_items(data, place) if kind in (LIST, SET) else _parse_struct(data, place)


def _parse_items(data, place):
    size, kind = data[place] >> 4, data[place] & 15
    place += 1
    if size == 15:
        size, place = _varint(data, place)
    items = []
    for _ in range(size):
        value, place = (data[place] == TRUE, place + 1) if kind in (TRUE, FALSE) else parse(data, place, kind)
        items.append(value)
    return (kind, items), place


def _parse_struct(data, place):
    fields, last = {}, 0
    while data[place]:
        step, kind = data[place] >> 4, data[place] & 15
        place += 1
        if step:
            last += step
        else:
            value, place = _varint(data, place)
            last = (value >> 1) ^ -(value & 1)
        value, place = parse(data, place, kind)
        fields[last] = (kind, value)
    return fields, place + 1


def _varint_of(value):
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes([*written, value])


def _zigzag(value):
    return _varint_of(value << 1 if value >= 0 else ((-value) << 1) - 1)


def dump(value, kind=STRUCT):
    """Write a value."""
    if kind == BYTE:
        return bytes([value])
    if kind in (I16, I32, I64):
        return _zigzag(value)
    if kind == DOUBLE:
        return value
    if kind == BINARY:
        return _varint_of(len(value)) + value
    if kind in (LIST, SET):
        of, items = value
        head = bytes([len(items) << 4 | of]) if len(items) < 15 else bytes([0xF0 | of]) + _varint_of(len(items))
        return head + b"".join(bytes([TRUE if x else FALSE]) if of in (TRUE, FALSE) else dump(x, of) for x in items)
    written, last = b"", 0
    for field, (of, inner) in sorted(value.items()):
        of = (TRUE if inner else FALSE) if of in (TRUE, FALSE) else of
        step = field - last
        written += bytes([step << 4 | of]) if 0 < step < 16 else bytes([of]) + _zigzag(field)
        written += b"" if of in (TRUE, FALSE) else dump(inner, of)
        last = field
    return written + b"\0"


def footer(data):
    """The footer of a Parquet file (`FileMetaData`)."""
    size = int.from_bytes(data[-8:-4], "little")
    return parse(data, len(data) - 8 - size)[0]


def with_footer(data, fields):
    """The same file with another footer."""
    size, written = int.from_bytes(data[-8:-4], "little"), dump(fields)
    return data[: len(data) - 8 - size] + written + len(written).to_bytes(4, "little") + b"PAR1"
