"""Changes what the footer of a Parquet file claims, and nothing else of the file.

A footer is a `FileMetaData` of parquet.thrift in Thrift's compact protocol (thrift-compact-protocol.md of Apache
Thrift): a struct's fields are a byte each of the distance to the field before and of the type, and then the value.
Numbers are zigzag varints. Whatever the footer points to lies before it, so that it may grow or shrink.
"""

ROWS = (3,)
"""The path to the number of rows of the file: field 3 of `FileMetaData`."""

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12


def rows_of(group):
    """The path to the number of rows of a row group: field 4 of `FileMetaData`, a list, and field 3 of `RowGroup`."""
    return (4, group, 3)


def bytes_of(group):
    """The path to `total_byte_size` of a row group."""
    return (4, group, 2)


def values_of(group, column):
    """The path to the number of values of a column: `columns`, `ColumnChunk.meta_data` and its `num_values`."""
    return (4, group, 1, column, 3, 5)


def size_of(group, column):
    """The path to `total_uncompressed_size` of a column."""
    return (4, group, 1, column, 3, 6)


def nulls_of(group, column):
    """The path to `null_count` of a column's `statistics`."""
    return (4, group, 1, column, 3, 12, 3)


def with_bounds(data, value, other):
    """The file with another value of the same length, as bytes, for one that its statistics name."""
    start, _ = _footer(data)
    assert len(value) == len(other) and value in data[start:]
    return data[:start] + data[start:].replace(value, other)


def claim(data, path):
    """What the footer of a file says at a path of fields and places in lists."""
    return _unzigzag(_varint(data, numbers(data)[path][0])[0])


def with_claims(data, claims):
    """The file with other numbers in its footer, by path."""
    places, end, parts = numbers(data), len(data), []
    for path in sorted(claims, key=places.get, reverse=True):
        start, stop = places[path]
        parts[:0] = [_encoded(claims[path]), data[stop:end]]
        end = start
    changed = data[:end] + b"".join(parts)
    footer = len(changed) - _footer(data)[0] - 8
    return changed[:-8] + footer.to_bytes(4, "little") + changed[-4:]


def _footer(data):
    """Where the footer begins and ends: behind it are its length and the magic bytes."""
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little"), len(data) - 8


def numbers(data):
    """The place of every number in the footer, by its path."""
    start, stop = _footer(data)
    places = {}
    assert _value(data, start, STRUCT, (), places) == stop
    return places


def _value(data, at, kind, path, places):
    """Note the numbers of a value; returns where the next one begins."""
    if kind == STRUCT:
        field = 0
        while (header := data[at]) != 0:
            at += 1
            if header >> 4:
                field += header >> 4
            else:
                encoded, at = _varint(data, at)
                field = _unzigzag(encoded)
            at = _value(data, at, header & 15, (*path, field), places)
        return at + 1
    if kind in (LIST, SET):
        count, inner, at = data[at] >> 4, data[at] & 15, at + 1
        if count == 15:
            count, at = _varint(data, at)
        for number in range(count):
            # A boolean is in the byte of its field, or of a list in a byte of its own.
            at = at + 1 if inner in (TRUE, FALSE) else _value(data, at, inner, (*path, number), places)
        return at
    if kind == BINARY:
        size, at = _varint(data, at)
        return at + size
    if kind in (I16, I32, I64):
        stop = _varint(data, at)[1]
        places[path] = (at, stop)
        return stop
    return at + {TRUE: 0, FALSE: 0, BYTE: 1, DOUBLE: 8}[kind]


def _varint(data, at):
    number = shift = 0
    while True:
        number |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return number, at


def _unzigzag(number):
    return number >> 1 ^ -(number & 1)


def _encoded(number):
    number, encoded = (number << 1) ^ (number >> 63), bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])
