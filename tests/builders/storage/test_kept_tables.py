"""Tables of a build's state: any change to a file is found, and another's table is not taken."""

import random
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.errors import BuildError
from builders.storage.kept_tables import find_kept, read_kept, write_kept

TABLE = pa.table(
    {
        "id": [f"source/{number}" for number in range(50)],
        "label": pa.array(range(50), pa.int32()),
        "score": pa.array([number / 7 if number % 3 else None for number in range(50)], pa.float64()),
        "success": [number % 2 == 0 for number in range(50)],
    },
    metadata={b"said": b'{"rows": 50}'},
)


@pytest.fixture
def written(tmp_path):
    write_kept(tmp_path / "a.parquet", TABLE)
    return tmp_path / "a.parquet"


def test_a_table_is_read_as_it_was_written(written):
    assert read_kept(written).equals(TABLE)
    assert read_kept(written).schema.metadata[b"said"] == b'{"rows": 50}'


def test_no_flipped_bit_and_no_cut_gives_another_table(written):
    """2,000 bits at random places: what is read is the table, with its metadata, or nothing."""
    good, draw = written.read_bytes(), random.Random(0)
    for trial in range(2_000):
        data = bytearray(good)
        data[draw.randrange(len(good))] ^= 1 << draw.randrange(8)
        written.write_bytes(data if trial % 10 else good[: draw.randrange(len(good))])
        found = find_kept(written)
        assert found is None or (found.equals(TABLE) and found.schema.metadata[b"said"] == b'{"rows": 50}')


def test_swapped_rows_another_name_and_a_missing_file_are_no_table(written):
    shutil.copy(written, other := written.with_name("b.parquet"))
    assert find_kept(other) is None
    table = pq.read_table(written)
    pq.write_table(table.take([1, 0, *range(2, 50)]), written)
    assert find_kept(written) is None
    assert find_kept(written.with_name("c.parquet")) is None
    with pytest.raises(BuildError, match="was changed while the build ran"):
        read_kept(written)


def test_a_table_without_a_seal_is_none(tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet")
    assert find_kept(tmp_path / "a.parquet") is None
