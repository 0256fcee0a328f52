"""Texts and CSV files of others: whatever they hold, lines and rows come out, or one sentence."""

import csv
import os

import pytest

from builders.errors import BuildError
from builders.storage.text_files import read_csv, read_text_lines
from tests.sentences import stops


def write(folder, content):
    path = folder / "list"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"], ids=["", "byte order mark"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_system_writes_the_same_lines(tmp_path, start, end):
    path = write(tmp_path, start + end.join([b"a", "é\u2028 b".encode(), b"", b"\tc"]))
    assert read_text_lines(path, "Mend it.") == ["a", "é\u2028 b", "", "\tc"]
    path = write(tmp_path, start + end.join([b"b,a,c", b'1,"x, ""y""",3', b"", b"4,5,6", b"7", b""]))
    assert list(read_csv(path, ("a", "b"), "Mend it.")) == [
        (2, {"a": 'x, "y"', "b": "1"}),
        (4, {"a": "5", "b": "4"}),
        (5, {"a": "", "b": "7"}),
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a\nb\0\n", "Line 2 of {path} has the control character \\x00"),
        (b"a\n\x1b[2J\n", "Line 2 of {path} has the control character \\x1b"),
        (b"a\n\n\xff", "Line 3 of {path} is not UTF-8 (invalid start byte)"),
        ("é".encode()[:1], "Line 1 of {path} is not UTF-8 (unexpected end of data)"),
        ("a".encode("utf-16"), "Line 1 of {path} is not UTF-8"),
        (b"a\n" + b"x" * 10**7, "Line 2 of {path} has 10,000,000 characters"),
    ],
    ids=["NUL", "escape", "Latin-1", "cut", "UTF-16", "10 MB"],
)
def test_what_is_no_list(tmp_path, content, words):
    path = write(tmp_path, content)
    with pytest.raises(BuildError) as caught:
        read_text_lines(path, "Mend it.")
    assert str(caught.value).startswith(words.format(path=path))
    assert str(caught.value).endswith(" Mend it.")


def test_a_file_that_is_too_large_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr("builders.storage.text_files._LARGEST", 1 << 20)
    path = tmp_path / "list"
    with path.open("wb") as file:
        file.truncate(2**40)  # a hole: no byte of it is on disk
    with stops(BuildError, "1,048,576"):
        read_text_lines(path, "Mend it.")


@pytest.mark.timeout(20)
def test_a_named_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "list")
    with stops(BuildError):
        read_text_lines(tmp_path / "list", "Mend it.")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "lacks the columns a and b (found in line 1: nothing)"),
        (b"a,c\n", "lacks the columns a and b (found in line 1: a, c)"),
        (b"a,b,a\n1,2,3\n", "lacks the columns a and b (found in line 1: a, b, a)"),
        (b'a,b\n"1,2\n3,4', "Line 3 of {path} is not CSV (unexpected end of data)"),
        (b'a,b\n"1"x,2\n', "Line 2 of {path} is not CSV ("),
        (b"a,b\n1,2,3\n", "Line 2 of {path} ends a row that is not one of line 1"),
        (b'a,b\n1,"2\n3"\n', "Line 3 of {path} ends a row that is not one of line 1"),
    ],
)
def test_what_is_no_csv(tmp_path, content, words):
    path = write(tmp_path, content)
    with pytest.raises(BuildError) as caught:
        list(read_csv(path, ("a", "b"), "Mend it."))
    assert words.format(path=path) in str(caught.value)
    assert str(caught.value).endswith(" Mend it.")


def test_cells_beyond_the_limit_of_csv(tmp_path):
    cell = b"x" * 100 + b"\n"  # a quoted cell of short lines
    path = write(tmp_path, b'a,b\n1,"' + cell * (csv.field_size_limit() // 100) + b'"\n')
    with stops(BuildError, "CSV"):
        list(read_csv(path, ("a", "b"), "Mend it."))
