"""Files that somebody else wrote: regular ones only, and Parquet of any kind gives a value or one sentence."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.evaluation.refusals import refusal
from tests.sentences import stops
from unknown_detection.evaluation.errors import EvaluationError, first_line, one_line
from unknown_detection.evaluation.files import read_untrusted, require_regular


@pytest.mark.timeout(20)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "a named pipe"), (tmp_path, "a folder")):
        for read in (require_regular, lambda path: read_untrusted(path, str(path))):
            with stops(EvaluationError, path, kind):
                read(path)
    assert "nothing: No such file or directory. Restore it and run again." in refusal(
        require_regular, tmp_path / "nothing"
    )


def test_messages_stay_on_one_short_line():
    assert one_line("a\nb\x1b[2J\udce9") == "a\\nb\\x1b[2J\\udce9"
    assert first_line(ValueError("a\x1b[2J.\nb")) == "a\\x1b[2J"
    assert len(first_line(ValueError("a" * 10**6))) == 303


def test_a_table_is_read_whole_with_its_metadata(tmp_path):
    numbers = list(range(5000))
    table = pa.table({"a": numbers, "b": list(map(str, numbers))}).replace_schema_metadata({"key": "value"})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=999)
    read = read_untrusted(tmp_path / "x.parquet", "it")
    assert read == table
    assert read.schema.metadata == {b"key": b"value"}
    pq.write_table(table.slice(0, 0), tmp_path / "x.parquet")
    assert read_untrusted(tmp_path / "x.parquet", "it") == table.slice(0, 0)


def test_a_table_with_fewer_rows_than_it_claims(tmp_path):
    """Of a column that claims no values, pyarrow's `iter_batches` yields no row, and says nothing."""
    pq.write_table(pa.table({"score": [1.0, 2.0]}), tmp_path / "x.parquet")
    data = bytearray((tmp_path / "x.parquet").read_bytes())
    # In a footer, the name of a column is followed by its codec and its number of values, of one byte each here.
    named = b"\x19\x18\x05score\x15"
    data[data.rindex(named) + len(named) + 2] = 0
    (tmp_path / "x.parquet").write_bytes(data)
    with stops(EvaluationError):
        read_untrusted(tmp_path / "x.parquet", "it")


@pytest.mark.parametrize(
    "make",
    [
        lambda: pa.Table.from_arrays([pa.array([1])] * 2, ["a", "a"]),
        lambda: pa.table({"a": pa.array(["x" * 100_000]).take([0] * 700)}),
    ],
    ids=["columns of one name", "70 MB of text"],
)
def test_tables_that_cannot_be_used(tmp_path, make):
    pq.write_table(make(), tmp_path / "x.parquet", compression="zstd")
    with stops(EvaluationError, "it as Parquet"):
        read_untrusted(tmp_path / "x.parquet", "it")
