import tempfile

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from builders.sources.base import PartitionIndex, SourceIndex, partition_table
from builders.sources.opening import repeated_text
from builders.storage import parquet
from builders.storage.parquet import spilled

texts = st.lists(st.text(max_size=3), max_size=14)


def columns_of(columns):
    return [pa.chunked_array([names], pa.string()) for names in columns]


def test_a_large_table_lies_in_a_file_without_a_name(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    parts = [
        pa.table({"id": pa.array(list("ab")), "class_id": pa.array([name, "z"]).dictionary_encode()}) for name in "xy"
    ]
    table = pa.concat_tables(parts)
    monkeypatch.setattr(parquet, "BLOCK", 3)
    spilled_table = spilled([table.unify_dictionaries()], 1)
    assert spilled_table.to_pylist() == table.to_pylist()
    assert {column.num_chunks for column in spilled_table.columns} == {2}
    assert not list(tmp_path.iterdir())


@given(st.lists(texts, max_size=4), st.booleans())
def test_repeated_text_is_what_a_loop_finds(columns, ascending):
    if ascending:
        columns = [sorted(set(names)) for names in columns]
    all_names = [name for names in columns for name in names]
    repeated = [name for name in all_names if all_names.count(name) > 1]
    assert repeated_text(columns_of(columns)) == min(repeated, default=None)


def test_a_range_around_two_others_is_compared_with_both():
    columns = [["a", "z"], ["b", "c"], ["m", "z"]]
    assert repeated_text(columns_of(columns)) == "z"


@given(st.lists(st.lists(st.integers(0, 99), max_size=9), min_size=1, max_size=3), st.data())
def test_rows_of_an_index_count_through_its_partitions(numbers, data):
    partitions = []
    for place, some in enumerate(numbers):
        ids = pa.array([f"{place}/{n}/{i}" for i, n in enumerate(some)], pa.string())
        codes, places = np.array(some, int) % 3, pa.array(some, pa.int64())
        piece_table = partition_table(["a", "b", "c"], codes, ids, ids, places, places)
        partitions.append(PartitionIndex(f"p{place}", "made up", ("file", "span", "mat")[place], piece_table))
    index = SourceIndex(None, None, tuple(partitions))
    table = index.table
    assert index.num_rows == table.num_rows == sum(map(len, numbers))
    rows = np.array(data.draw(st.lists(st.integers(0, index.num_rows - 1), max_size=9)) if index.num_rows else [], int)
    names = ["how", "source_id", "partition", "class_id", "size"]
    assert index.take(names, rows).to_pylist() == table.select(names).take(pa.array(rows, pa.int64())).to_pylist()
    names = index.take(["partition"], rows)["partition"].to_pylist()
    assert [f"p{number}" for number in index.partition_of(rows)] == names
    ids = table["source_id"].take(pa.array(rows, pa.int64()))
    assert index.find(pa.concat_arrays([*ids.chunks, pa.array(["none"])])).to_pylist() == [*rows.tolist(), None]
    inside = [row for row in range(index.num_rows) if table["partition"][row].as_py() == "p0"]
    assert index.rows_of(["p0"]).tolist() == inside
