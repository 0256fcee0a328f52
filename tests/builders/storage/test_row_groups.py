"""Row groups whose columns' metadata are damaged are an error, not the end of the process."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.storage.parquet import row_group

ROWS = 5


def written(path, **options):
    table = pa.table({"name": [f"row {number}" for number in range(ROWS)], "size": [float(n) for n in range(ROWS)]})
    pq.write_table(table, path, write_page_index=True, row_group_size=2, **options)
    return path


def test_metadata_of_good_row_groups_are_those_of_pyarrow(tmp_path):
    with pq.ParquetFile(written(tmp_path / "x.parquet")) as opened:
        for group in range(opened.num_row_groups):
            metadata, expected = row_group(opened, group), opened.metadata.row_group(group)
            assert metadata.num_rows == expected.num_rows
            assert [metadata.column(i).path_in_schema for i in range(metadata.num_columns)] == ["name", "size"]
    pq.write_table(pa.table({"name": pa.array([], pa.string())}), tmp_path / "empty.parquet")
    with pq.ParquetFile(tmp_path / "empty.parquet") as opened:
        assert row_group(opened, 0).num_rows == 0


def test_a_column_of_another_type_than_its_metadata_raises(tmp_path):
    path = written(tmp_path / "x.parquet", compression="none", use_dictionary=False)
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[-8:-4], "little")
    footer = len(data) - 8 - length
    # Parquet's Thrift file metadata (parquet.thrift): the schema element of a leaf begins with its type, field 1 of
    # type i32, 0x15, as a zigzag number: BYTE_ARRAY is 6, so 12; DOUBLE is 5, so 10; FLOAT is 4, so 8. Column metadata
    # begin in the same way; only the schema's element is changed, so that both contradict each other.
    place = data.index(b"\x15\x0c", footer)
    data[place + 1] = 8
    path.write_bytes(bytes(data))
    with pq.ParquetFile(path) as opened, pytest.raises((OSError, pa.ArrowException)):
        for group in range(opened.num_row_groups):
            row_group(opened, group).column(0)
