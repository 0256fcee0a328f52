"""A footer's claims on rows are compared with each other and with what is read."""

import io
from inspect import signature

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.storage.files import atomic_path
from builders.storage.parquet import (
    open_parquet,
    open_streamed,
    read_parquet,
    read_row_count,
    read_schema,
    row_batches,
    row_group,
)
from builders.storage.paths import as_path
from tests.parquet_footers import (
    ROWS,
    bytes_of,
    claim,
    nulls_of,
    rows_of,
    size_of,
    values_of,
    with_bounds,
    with_claims,
)

TABLE = pa.table({"id": [f"id{n}" for n in range(7)], "n": range(7), "tags": [["a"] * n for n in range(7)]})
CLAIMS = [
    {ROWS: 8},
    {ROWS: 6},
    {ROWS: 0},
    {ROWS: 10**15},
    {rows_of(1): 4},
    {rows_of(0): 2},
    {rows_of(0): -4, ROWS: -1},
]


def encoded():
    out = io.BytesIO()
    pq.write_table(TABLE, out, row_group_size=4, write_page_index=True)
    return out.getvalue()


@pytest.fixture
def put(folder):
    def write(claims):
        with atomic_path(folder / "x.parquet") as temporary:
            temporary.write_bytes(with_claims(encoded(), claims))
        return folder / "x.parquet"

    return write


@pytest.fixture(params=["here", "s3"])
def folder(request, store, tmp_path):
    return tmp_path if request.param == "here" else as_path(f"s3://{store.bucket()}/a")


def test_claims_are_found_where_pyarrow_finds_them():
    data = encoded()
    metadata = pq.read_metadata(pa.BufferReader(data))
    assert claim(data, ROWS) == metadata.num_rows == 7
    for group in range(2):
        expected = metadata.row_group(group)
        assert claim(data, rows_of(group)) == expected.num_rows == (4, 3)[group]
        assert claim(data, bytes_of(group)) == expected.total_byte_size
        for column in range(3):
            assert claim(data, values_of(group, column)) == expected.column(column).num_values
            assert claim(data, size_of(group, column)) == expected.column(column).total_uncompressed_size
    assert with_claims(data, {ROWS: 7, rows_of(1): 3}) == data
    changed = pq.read_metadata(pa.BufferReader(with_claims(data, {ROWS: 10**15, rows_of(0): -4})))
    assert (changed.num_rows, changed.row_group(0).num_rows) == (10**15, -4)


@pytest.mark.parametrize("claims", CLAIMS, ids=str)
def test_a_footer_whose_rows_are_not_those_of_its_groups_is_refused(put, claims):
    """pyarrow opens and reads such a file, without a word: the rows of its pages."""
    path = put(claims)
    for read in (open_parquet, open_streamed, read_parquet, read_schema, read_row_count):
        with pytest.raises(pa.ArrowInvalid, match=r"its footer claims [-\d,]+ rows, and its row groups [-\d,]+"):
            read(path)


@pytest.mark.parametrize("column", ["id", "n"])
def test_a_column_of_fewer_values_than_rows_is_refused(put, column):
    """Of such a column alone, pyarrow returns fewer rows than of others."""
    path = put({values_of(0, TABLE.column_names.index(column)): 0})
    with open_parquet(path) as opened:
        assert opened.read([column]).num_rows == 3
        with pytest.raises(pa.ArrowInvalid, match="lacks 4 of the rows"):
            list(row_batches(opened, 10, [column]))
        with pytest.raises(pa.ArrowInvalid, match=f"claims 0 values of {column} in 4 rows"):
            row_group(opened, 0)
    with pytest.raises(pa.ArrowInvalid, match="lacks 4 of the rows"):
        read_parquet(path, [column])


def test_a_column_of_more_values_than_rows_is_refused(put):
    """Whoever goes by the number of values, as other readers than pyarrow do, would read other rows."""
    with (
        open_parquet(put({values_of(1, 0): 4})) as opened,
        pytest.raises(pa.ArrowInvalid, match="4 values of id in 3"),
    ):
        row_group(opened, 1)


def test_lists_have_any_number_of_values(put):
    with open_parquet(put({})) as opened:
        assert [row_group(opened, group).column(2).num_values for group in range(2)] == [7, 15]
        assert pa.Table.from_batches(row_batches(opened, 10)) == TABLE


def test_fewer_rows_than_pages_have_are_consistent_only_where_columns_say_so_too(put):
    """A group of three rows whose columns have four is refused; pyarrow reads three."""
    with open_parquet(put({rows_of(0): 3, ROWS: 6})) as opened:
        assert sum(batch.num_rows for batch in opened.iter_batches()) == 6
        with pytest.raises(pa.ArrowInvalid, match="4 values of id in 3 rows"):
            row_group(opened, 0)


def test_statistics_that_values_contradict_are_refused(folder):
    """Of texts, of lists and of numbers, by their bounds (numbers are eight bytes) or by the count of empty cells."""
    number = [value.to_bytes(8, "little") for value in range(7)]
    for wrong in (
        with_bounds(encoded(), b"id3", b"id2"),
        with_bounds(encoded(), b"id4", b"id5"),
        with_bounds(encoded(), number[6], number[5]),
        with_claims(encoded(), {nulls_of(1, 1): 1}),
    ):
        with atomic_path(folder / "x.parquet") as temporary:
            temporary.write_bytes(wrong)
        with (
            open_parquet(folder / "x.parquet") as opened,
            pytest.raises(pa.ArrowInvalid, match=r"statistics of (id|n)"),
        ):
            [row_group(opened, group) for group in range(2)]


def test_statistics_may_be_wider_than_values_and_of_any_type():
    """Of long texts others state a beginning; NaN has no place, and types of no release are left to who knows them."""
    column = {"text": ["x" * 5000, "a"], "number": [float("nan"), 1.0], "none": pa.nulls(2), "code": ["a", "b"]}
    table = pa.table(column | {"list": [[{"a": 1}], None], "deep": [{"a": [None]}, None]})
    table = table.set_column(3, "code", table["code"].dictionary_encode())
    out = io.BytesIO()
    pq.write_table(table, out)
    assert row_group(pq.ParquetFile(pa.BufferReader(out.getvalue())), 0).num_rows == 2
    wider = with_bounds(encoded(), b"id3", b"iz3")
    assert row_group(pq.ParquetFile(pa.BufferReader(wider)), 0).num_rows == 4


@pytest.mark.skipif("bloom_filter_options" not in signature(pq.write_table).parameters, reason="pyarrow writes none")
def test_a_bloom_filter_is_refused():
    """By which other readers leave out row groups, and which pyarrow does not read."""
    out = io.BytesIO()
    pq.write_table(TABLE, out, bloom_filter_options={"id": True})
    with pytest.raises(pa.ArrowInvalid, match="Bloom filter of id"):
        row_group(pq.ParquetFile(pa.BufferReader(out.getvalue())), 0)
