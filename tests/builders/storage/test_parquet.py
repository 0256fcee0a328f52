import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.storage.files import atomic_path
from builders.storage.parquet import (
    arrow_rows,
    image_batch_rows,
    open_parquet,
    read_array,
    read_parquet,
    read_row_count,
    read_schema,
    write_arrow,
)
from builders.storage.paths import as_path
from tests.store.fixtures import forget_clients

IMAGES = np.random.default_rng(0).integers(0, 256, (40, 100_000), dtype=np.uint8)
TABLE = pa.table({"image": [row.tobytes() for row in IMAGES], "id": [f"id{n}" for n in range(40)], "n": range(40)})


@pytest.fixture(params=["here", "s3"])
def folder(request, store, tmp_path):
    return tmp_path if request.param == "here" else as_path(f"s3://{store.bucket()}/a")


def written(path):
    with atomic_path(path) as temporary:
        pq.write_table(TABLE, temporary, row_group_size=20, compression="none", use_dictionary=False)
    return path


def test_parquet_files_are_read_alike_wherever_they_lie(folder):
    path = written(folder / "x.parquet")
    with open_parquet(path, buffer_size=1 << 20, pre_buffer=False) as opened:
        assert opened.num_row_groups == 2
        assert opened.read() == TABLE
        assert pa.Table.from_batches(opened.iter_batches(batch_size=7)) == TABLE
        assert opened.read_row_group(1, ["id"])["id"].to_pylist() == TABLE["id"].to_pylist()[20:]
    assert read_parquet(path, ["n"]) == TABLE.select(["n"])
    assert read_schema(path).names == TABLE.schema.names
    assert read_row_count(path) == 40


@pytest.mark.parametrize(
    ("names", "written", "sentence"),
    [(["id", "id"], b"", "several columns named id"), (["spam", "id"], b"sp\xffm", "column is not UTF-8 text")],
    ids=["two of one name", "a name that is no text"],
)
def test_columns_that_cannot_be_named_are_refused(names, written, sentence, folder):
    table = pa.table([pa.array([1]), pa.array([2])], names=names)
    encoded = io.BytesIO()
    pq.write_table(table, encoded, store_schema=False)
    path = folder / "x.parquet"
    with atomic_path(path) as temporary:
        temporary.write_bytes(encoded.getvalue().replace(b"spam", written))
    for read in (open_parquet, read_parquet):
        with pytest.raises(pa.ArrowInvalid, match=sentence):
            read(path)


def test_arrow_files_and_arrays_are_read_alike_wherever_they_lie(folder):
    rows = pa.table({"a": pa.chunked_array([range(30_000), range(30_000, 70_000)])})
    write_arrow(folder / "plan/rows.arrow", rows)
    for start, stop in ((0, 70_000), (16_384, 16_385), (16_383, 40_000), (69_999, 70_000), (5, 5)):
        with arrow_rows(folder / "plan/rows.arrow", start, stop) as part:
            assert part["a"].to_pylist() == list(range(start, stop))
    with atomic_path(folder / "a.npy") as temporary, temporary.open("wb") as opened:
        np.save(opened, IMAGES)
    assert (read_array(folder / "a.npy") == IMAGES).all()


def test_an_arrow_file_may_be_written_of_chunks_that_have_dictionaries_of_their_own(folder):
    """Which Arrow's file format does not take: it has one dictionary of a column for all batches."""
    names = [[f"a{n % 3}" for n in range(20_000)], [f"b{n % 5}" for n in range(20_000)]]
    chunks = [pa.table({"class": pa.array(part).dictionary_encode()}) for part in names]
    write_arrow(folder / "rows.arrow", pa.concat_tables(chunks))
    with arrow_rows(folder / "rows.arrow", 19_998, 20_003) as part:
        assert part["class"].to_pylist() == ["a0", "a1", "b0", "b1", "b2"]


def test_a_row_group_is_one_range(store, proxy):
    forget_clients()
    path = written(as_path(f"s3://{store.bucket()}/x.parquet"))
    proxy.requests.clear()
    with open_parquet(path) as opened:
        for _ in opened.iter_batches():
            pass
    # Its size, its end, and the images of each of two groups with what lies behind them.
    assert proxy.kinds() == {"HeadObject": 1, "GetObject": 3}
    assert sum(request.received for request in proxy.requests) <= path.stat().st_size + (64 << 10)


@pytest.mark.parametrize(("size", "rows"), [(1_000, 256), (100_000, 41), (5_000_000, 1)])
def test_images_are_read_some_megabytes_at_a_time(size, rows, tmp_path):
    """4 MiB hold 41 images of 100,000 bytes with their headers in the file."""
    images = pa.table({"image": [bytes(size)] * min(512, 60_000_000 // size)})
    pq.write_table(images, tmp_path / "images.parquet", compression="none", use_dictionary=False)
    with pq.ParquetFile(tmp_path / "images.parquet") as opened:
        assert image_batch_rows(opened, 0) == rows
