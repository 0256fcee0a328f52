"""Files of sealed residuals: what a reader finds in them, and what none of them may be."""

import os
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.errors import BuildError
from builders.storage import sealed_files
from builders.storage.sealed_files import (
    HEADER_BYTES,
    SealedHeader,
    SealedWriter,
    check_size,
    published_residuals,
    read_residuals,
    read_sealed_header,
)

SIDE = 8


def residual(number, side=SIDE):
    """What looks like a residual without its key."""
    cipher = bytes([number % 256]) * (40 + number % 7)
    return SealedHeader(side, side, len(cipher), bytes(8), bytes(32)).encode() + cipher


def ids(first, count):
    return [f"source/{number}" for number in range(first, first + count)]


def write(path, first, count, metadata=None):
    with SealedWriter(path, metadata) as writer:
        for number, name in enumerate(ids(first, count), start=first):
            writer.add(name, residual(number))
    return path


def test_rows_come_back_in_order_from_several_files(tmp_path):
    # More rows than are read at a time, and a file that ends inside a batch.
    paths = [write(tmp_path / "a", 0, 70), write(tmp_path / "b", 70, 30)]
    batches = published_residuals(paths, pa.chunked_array([ids(0, 33), ids(33, 67)]), SIDE)
    assert [sealed for batch in batches for sealed in batch] == [residual(number) for number in range(100)]
    assert list(read_residuals(paths[1])) == [(f"source/{n}", residual(n)) for n in range(70, 100)]


def test_a_file_can_be_read_in_parts_and_says_what_it_was_given(tmp_path, monkeypatch):
    monkeypatch.setattr(sealed_files, "_GROUP_BYTES", 1000)
    path = write(tmp_path / "a", 0, 50, {"key": "value"})
    parquet = pq.ParquetFile(path)
    # 57 bytes of header and 40 to 46 of cipher are a thousand after 10 or 11.
    assert parquet.num_row_groups == 5
    assert parquet.metadata.row_group(0).column(1).has_offset_index
    assert parquet.schema_arrow.metadata[b"key"] == b"value"
    assert parquet.metadata.row_group(0).column(1).compression == "UNCOMPRESSED"


def test_a_writer_that_fails_writes_no_further_row(tmp_path):
    with pytest.raises(ValueError, match="midway"), SealedWriter(tmp_path / "a") as writer:
        writer.add("a", residual(0))
        raise ValueError("midway")
    assert pq.read_table(tmp_path / "a").num_rows == 0


def test_a_header_has_the_places_that_are_written_down():
    header = SealedHeader(1, 2, 3, b"checkchk", b"d" * 32)
    expected = b"UDSR" + b"\2" + struct.pack("<III", 1, 2, 3) + b"checkchk" + b"d" * 32
    assert header.encode() == expected
    assert len(expected) == HEADER_BYTES == 57
    assert read_sealed_header(expected + b"abc", "x") == header


@pytest.mark.parametrize("name", ["a\x1b[2Jb", "a\nb", "x" * 10_000])
def test_what_a_message_repeats_of_a_name_is_one_short_line(name):
    for call in (
        lambda: read_sealed_header(b"", name),
        lambda: check_size(read_sealed_header(residual(0), "y"), name, 9),
    ):
        with pytest.raises(BuildError) as caught:
            call()
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 600


def wrong(tmp_path, *paths, names=None):
    with pytest.raises(BuildError) as caught:
        list(published_residuals(paths, pa.chunked_array([ids(0, 5) if names is None else names]), SIDE))
    message = str(caught.value)
    assert message.isprintable()
    assert ". " in message and ".." not in message
    return message.replace(str(tmp_path), "")


def test_what_is_no_such_file_is_named(tmp_path):
    good = write(tmp_path / "whole", 0, 5)
    with SealedWriter(tmp_path / "large") as writer:
        writer.add("source/0", residual(0, side=9))
    (tmp_path / "text").write_text("no Parquet")
    pq.write_table(pa.table({"id": ids(0, 5)}), tmp_path / "columns")
    pq.write_table(pa.table([ids(0, 5), [None] * 5], schema=sealed_files.SCHEMA), tmp_path / "null")
    broken = pa.StringArray.from_buffers(1, pa.py_buffer(struct.pack("<ii", 0, 1)), pa.py_buffer(b"\xff"))
    pq.write_table(pa.table([broken, pa.array([b""])], schema=sealed_files.SCHEMA), tmp_path / "utf8")
    for path, names, sentence in (
        ("text", None, "Cannot read the sealed residuals /text: "),
        ("columns", None, "/columns: its columns are not id and sealed"),
        ("null", None, "/null: a cell has no value"),
        ("utf8", None, "/utf8: "),
        ("large", ids(0, 1), "The residual of source/0 is of 9 x 9 pixels, and its split has images of 8 x 8"),
        ("whole", ids(0, 6), "/whole: the split has 6 rows, and residuals of the first 5"),
        ("whole", ids(0, 4), "/whole: its rows are not those of the split's index"),
        ("whole", ids(1, 5), "/whole: its rows are not those of the split's index"),
    ):
        assert sentence in wrong(tmp_path, tmp_path / path, names=names), path
    assert "its rows are not those" in wrong(tmp_path, good, good)
    assert "Cannot read /none" in wrong(tmp_path, tmp_path / "none")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_named_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "is a named pipe" in wrong(tmp_path, tmp_path / "pipe")
