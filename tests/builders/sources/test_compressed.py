import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.sources import compressed
from builders.sources.base import PartitionIndex, SourceIndex, partition_table
from builders.sources.compressed import CompressedTable, repeated_text


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(compressed, "BLOCK", 4)


def table_of(texts, numbers=None):
    classes = pa.array([text[:1] for text in texts]).dictionary_encode()
    return pa.table(
        {
            "class_id": classes,
            "source_id": pa.array(texts, pa.string()),
            "file": pa.array(texts, pa.string()),
            "offset": pa.array(range(len(texts)) if numbers is None else numbers, pa.int64()),
        }
    )


texts = st.lists(st.text(max_size=3), max_size=14)


@settings(deadline=None)
@given(texts, st.data())
def test_reads_and_takes_as_a_table_does(names, data):
    table = table_of(names)
    kept = CompressedTable(table)
    assert kept.num_rows == len(names)
    assert kept.read().to_pylist() == table.to_pylist()
    assert kept["file"].to_pylist() == names
    rows = np.array(data.draw(st.lists(st.integers(0, len(names) - 1), max_size=9)) if names else [], np.int64)
    columns = data.draw(st.permutations(table.column_names))[:2]
    assert kept.take(columns, rows).to_pylist() == table.select(columns).take(pa.array(rows)).to_pylist()
    ascending = np.unique(rows)
    found = {}
    for place, block in kept.blocks(["source_id"], ascending):
        assert block.num_rows <= compressed.BLOCK
        found |= zip(ascending[place].tolist(), block["source_id"].to_pylist(), strict=True)
    assert found == {row: names[row] for row in ascending.tolist()}


def test_chunks_with_dictionaries_of_their_own_are_one_column():
    table = pa.concat_tables([table_of(["b1", "a1"]), table_of(["a2", "c1", "c2"])])
    assert CompressedTable(table)["class_id"].to_pylist() == ["b", "a", "a", "c", "c"]


def test_equal_columns_of_text_take_their_bytes_once(monkeypatch):
    monkeypatch.setattr(compressed, "BLOCK", 1 << 16)
    names = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(2_000)]
    table = table_of(names)
    other = table.set_column(2, "file", pa.array([name[::-1] for name in names]))
    assert CompressedTable(other).nbytes > 1.7 * CompressedTable(table).nbytes
    assert CompressedTable(other)["file"].to_pylist() == [name[::-1] for name in names]


@settings(deadline=None)
@given(st.lists(texts, max_size=4), st.booleans())
def test_repeated_text_is_what_a_loop_finds(columns, ascending):
    if ascending:
        columns = [sorted(set(names)) for names in columns]
    every = [name for names in columns for name in names]
    twice = [name for name in every if every.count(name) > 1]
    assert repeated_text([CompressedTable(table_of(names)) for names in columns], "source_id") == min(
        twice, default=None
    )


def test_a_range_around_two_others_is_compared_with_both():
    columns = [["a", "z"], ["b", "c"], ["m", "z"]]
    assert repeated_text([CompressedTable(table_of(names)) for names in columns], "source_id") == "z"


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 99), max_size=9), min_size=1, max_size=3), st.data())
def test_rows_of_an_index_count_through_its_partitions(numbers, data):
    pieces = []
    for place, some in enumerate(numbers):
        ids = pa.array([f"{place}/{n}/{i}" for i, n in enumerate(some)], pa.string())
        column = pa.DictionaryArray.from_arrays(pa.array([n % 3 for n in some], pa.int32()), pa.array(["a", "b", "c"]))
        table = partition_table(column, ids, ids, pa.array(some, pa.int64()), pa.array(some, pa.int64()))
        pieces.append(PartitionIndex(f"p{place}", "made up", ("file", "span", "mat")[place], table))
    index = SourceIndex(None, None, tuple(pieces))
    whole = index.table
    assert index.num_rows == whole.num_rows == sum(map(len, numbers))
    rows = np.array(data.draw(st.lists(st.integers(0, index.num_rows - 1), max_size=9)) if index.num_rows else [], int)
    names = ["how", "source_id", "partition", "class_id", "size"]
    assert index.take(names, rows).to_pylist() == whole.select(names).take(pa.array(rows, pa.int64())).to_pylist()
    assert [f"p{piece}" for piece in index.piece_of(rows)] == index.take(["partition"], rows)["partition"].to_pylist()
    ids = whole["source_id"].take(pa.array(rows, pa.int64()))
    assert index.find(pa.concat_arrays([*ids.chunks, pa.array(["none"])])).to_pylist() == [*rows.tolist(), None]
    inside = [row for row in range(index.num_rows) if whole["partition"][row].as_py() == "p0"]
    assert index.rows_of(["p0"]).tolist() == inside
