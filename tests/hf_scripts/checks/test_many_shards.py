"""A split of many shards: its index is read once a task, and the shards are compared with it as one shard is."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_scripts.checks import index_walk
from hf_scripts.checks.index_walk import IndexWalk
from tests.hf_scripts.tampering import (
    TEST_SHARD,
    built,
    check,
    copy,
    entry_of,
    manifest_of,
    problems,
    rewrite,
    save_manifest,
    with_cells,
)

__all__ = ["built", "check", "copy", "problems"]

ROWS = 100


@pytest.fixture
def index(tmp_path):
    """An index of three row groups, and its rows."""
    rows = pa.table({"id": [f"row {number}" for number in range(ROWS)], "label": range(ROWS)})
    pq.write_table(rows, tmp_path / "index.parquet", row_group_size=40)
    return tmp_path / "index.parquet", rows


@pytest.fixture
def readings(monkeypatch):
    """The rows from which indexes were read."""
    firsts, read = [], index_walk._read

    def counted(path, schema, first):
        firsts.append(first)
        return read(path, schema, first)

    monkeypatch.setattr(index_walk, "_read", counted)
    return firsts


@pytest.mark.parametrize("size", [1, 3, 7, 40, 8192])
@pytest.mark.parametrize(
    ("asked", "from_rows"),
    [
        ([(0, 2), (2, 5), (7, 60), (67, 33)], [0]),
        ([(5, 5), (45, 10), (99, 1)], [5]),
        ([(90, 20), (110, 5)], [90]),
        ([(200, 1)], [200]),
        ([(50, 10), (0, 10), (10, 3)], [50, 0]),
        ([(40, 1), (80, 20), (79, 1)], [40, 79]),
    ],
    ids=["all", "with gaps", "over the end", "behind the end", "back", "one back"],
)
def test_rows_of_an_index_are_those_of_the_table(index, readings, monkeypatch, size, asked, from_rows):
    monkeypatch.setattr(index_walk, "_BATCH_ROWS", size)
    path, rows = index
    with IndexWalk() as walk:
        for first, count in asked:
            assert walk.rows(path, rows.schema, first, count) == rows.slice(first, count)
    assert readings == from_rows


def test_an_index_that_cannot_be_read_has_no_known_rows(index, tmp_path, monkeypatch):
    monkeypatch.setattr(index_walk, "_BATCH_ROWS", 10)
    path, rows = index
    data = bytearray(path.read_bytes())
    start = pq.read_metadata(path).row_group(2).column(0).data_page_offset
    data[start : start + 8] = bytes(8)
    path.write_bytes(data)
    with IndexWalk() as walk:
        assert walk.rows(path, rows.schema, 10, 5) == rows.slice(10, 5)
        assert walk.rows(path, rows.schema, 79, 5) is None
        assert walk.rows(path, rows.schema, 84, 5) is None
        assert walk.rows(path, rows.schema.remove(0), 0, 5) is None
        assert walk.rows(tmp_path / "none.parquet", rows.schema, 0, 5) is None


def in_shards(root, key, rows):
    """Cut the images of a split into shards of so many rows."""
    config, split = key.split("/")
    manifest = manifest_of(root)
    entry = manifest["configs"][config]["splits"][split]
    tables = [pq.read_table(root / file["path"]) for file in entry["data"]]
    for file in entry["data"]:
        (root / file["path"]).unlink()
    table, entry["data"] = pa.concat_tables(tables), []
    starts = range(0, table.num_rows, rows)
    for number, start in enumerate(starts):
        path = f"data/{config}/{split}-{number:05d}-of-{len(starts):05d}.parquet"
        pq.write_table(table.slice(start, rows), root / path, write_page_index=True)
        entry["data"].append(entry_of(root, path))
    save_manifest(root, manifest)
    return [file["path"] for file in entry["data"]]


def test_the_index_is_read_once_a_task_however_many_shards_there_are(copy, check, readings):
    assert len(in_shards(copy, "imagenet/test", 1)) == 200
    assert check("--splits", "imagenet/test")[0] == 0
    # Eight tasks of the one worker, of which each reads the index from its own first row on.
    assert 0 in readings and len(set(readings)) == len(readings) <= 9


def test_rows_of_many_shards_are_compared_with_their_own_rows_of_the_index(copy, check, problems):
    shards = in_shards(copy, "imagenet/test", 3)
    wrong = {0: 0, 25: 2, len(shards) - 1: 1}
    manifest = manifest_of(copy)
    entry = manifest["configs"]["imagenet"]["splits"]["test"]
    sentences = []
    for number, row in wrong.items():
        table = pq.read_table(copy / shards[number])
        (copy / shards[number]).unlink()
        pq.write_table(with_cells(table, row, class_name="another"), copy / shards[number], write_page_index=True)
        entry["data"][number] = entry_of(copy, shards[number])
        listed = f"and {table['class_name'][row]} in index/imagenet/test.parquet"
        sentences.append(f"{shards[number]} row {row}: class_name is another, {listed}")
    save_manifest(copy, manifest)
    assert problems() == sentences
    assert check("--workers", "2")[1] == check()[1]


def test_a_shard_without_a_known_place_ends_the_comparison(copy, problems):
    """Which rows those behind a damaged shard are of is not known."""
    shards = in_shards(copy, "imagenet/test", 20)
    rewrite(copy, "imagenet/test", lambda table: with_cells(table, 70, label=777), index=False)
    manifest = manifest_of(copy)
    (copy / shards[2]).write_bytes(b"PAR1")
    manifest["configs"]["imagenet"]["splits"]["test"]["data"][2] = entry_of(copy, shards[2])
    save_manifest(copy, manifest)
    assert TEST_SHARD not in shards and not [sentence for sentence in problems() if shards[3] in sentence]
