"""What a Parquet footer claims is not believed: rows that are read are counted, in every table of a release."""

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.errors import BuildError
from builders.release.duplicates import read_pairs, schema
from builders.release.layout import Layout
from builders.release.manifest import read_manifest
from builders.release.reader import read_index
from hf_scripts.checks import rows as check_rows
from hf_scripts.exports.rows import read_image_rows
from tests.hf_scripts.folder_mutations import Folder
from tests.hf_scripts.law import SHARD, TEST, code_of
from tests.hf_scripts.law_fixtures import folder, quiet, says, tiny
from tests.hf_scripts.samples import change_files, make_release
from tests.hf_scripts.tampering import replace, rewrite, write_shard
from tests.parquet_footers import ROWS, claim, nulls_of, rows_of, size_of, values_of, with_bounds, with_claims
from tests.sentences import stops

__all__ = ["folder", "quiet", "says", "tiny"]

INDEX, PAIRS = "index/bench/test.parquet", "duplicates/pairs.parquet"


@pytest.fixture
def halves(tmp_path):
    """A release of two shards a split without a table of duplicates, which would compare images, too."""
    return Folder(make_release(tmp_path / "halves", {TEST: range(8)}, shards=2), 0)


def lie(folder, path, claims):
    """Other numbers in the footer of a file, by path; a function gives them from the true ones."""
    data = (folder.root / path).read_bytes()
    replace(folder.root / path, with_claims(data, {place: to(claim(data, place)) for place, to in claims.items()}))


def more(number):
    return number + 1


def less(number):
    return number - 1


def test_a_row_that_is_there_twice_and_one_that_is_not_behind_a_count_of_fewer_rows(halves, says, tmp_path):
    """The first shard claims three rows, so its fourth was also looked for in the second; nobody missed the last."""
    table = pa.concat_tables([pq.read_table(halves.root / SHARD.format(number)) for number in range(2)])
    write_shard(halves.root / SHARD.format(1), table.slice(3, 4))
    lie(halves, SHARD.format(0), {ROWS: less})
    lie(halves, SHARD.format(1), {ROWS: more})
    halves.render()
    loaded = datasets.load_dataset(str(halves.root), "bench", split="test", cache_dir=str(tmp_path / "cache"))
    assert [row["id"].rpartition("/")[2][0] for row in loaded] == [*"01233456"]
    reason = "cannot be read as Parquet: its footer claims"
    assert says(halves, "--check", "fast") == [
        f"{SHARD.format(0)}: {reason} 3 rows, and its row groups 4",
        f"{SHARD.format(1)}: {reason} 5 rows, and its row groups 4",
    ]


@pytest.mark.parametrize("change", [more, less])
@pytest.mark.parametrize("path", [SHARD.format(0), SHARD.format(1), INDEX, PAIRS])
def test_a_footer_that_claims_another_number_of_rows(folder, says, path, change):
    lie(folder, path, {ROWS: change})
    folder.render()
    (line,) = says(folder, "--check", "fast")
    assert line.startswith(f"{path}: ") and "its footer claims " in line


@pytest.mark.parametrize("path", [SHARD.format(0), INDEX, PAIRS])
def test_a_column_and_a_row_group_that_claim_another_number_of_rows(folder, says, path):
    """Both counts of rows agree, of one row less than the columns have, or of one more."""
    before = (folder.root / path).read_bytes()
    for claims in ({values_of(0, 3): more}, {ROWS: less, rows_of(0): less}, {ROWS: more, rows_of(0): more}):
        lie(folder, path, claims)
        folder.render()
        assert any(line.startswith(f"{path}: ") and "claims" in line for line in says(folder, "--check", "fast"))
        replace(folder.root / path, before)


def test_every_reader_of_a_release_refuses_it(folder):
    layout, split = Layout(folder.root), read_manifest(folder.root).by_key()[TEST]
    for path in (SHARD.format(0), INDEX, PAIRS):
        lie(folder, path, {ROWS: more})
    with stops(BuildError):
        read_pairs(layout.duplicates)
    with stops(BuildError):
        read_index(folder.root, split, ["id"])
    with stops(BuildError):
        list(read_image_rows(folder.root, TEST, split))


@pytest.mark.parametrize("before", [1, 3])
def test_pairs_whose_first_row_group_is_empty(folder, says, tmp_path, before):
    """`datasets` (5.2) takes the first row group's number of rows for that of a batch, and fails at 0."""
    table = pq.read_table(folder.root / PAIRS)
    (folder.root / PAIRS).unlink()
    with pq.ParquetWriter(folder.root / PAIRS, schema(), compression="zstd", write_page_index=True) as writer:
        for part in (*[table.slice(0, 0)] * before, table):
            writer.write_table(part)
    folder.render()
    with pytest.raises(pa.ArrowInvalid, match="greater than 0"):
        list(datasets.load_dataset(str(folder.root), "duplicates", split="pairs", streaming=True))
    assert says(folder) == [
        f"{PAIRS}: is not a table of duplicates: it has a row group without rows, which datasets cannot read"
    ]


@pytest.mark.parametrize("path", [SHARD.format(1), INDEX])
def test_an_empty_row_group_is_named_once(folder, says, path):
    table = pq.read_table(folder.root / path)
    (folder.root / path).unlink()
    with pq.ParquetWriter(folder.root / path, table.schema, write_page_index=True) as writer:
        writer.write_table(table.slice(0, 0))
        writer.write_table(table)
    folder.render()
    assert says(folder, "--check", "fast") == [f"{path} row group 0: has no rows, which datasets cannot read"]


def test_the_bytes_of_a_row_group_are_those_that_it_has(halves, says, monkeypatch):
    """And not those that its footer claims."""
    images = pq.read_table(halves.root / SHARD.format(0))["image"]
    size = sum(len(image["bytes"].as_py()) for image in images)
    monkeypatch.setattr(check_rows, "ROW_GROUP_BYTES", size - 1)
    lie(halves, SHARD.format(0), {size_of(0, 0): lambda _: 1})
    halves.render()
    assert f"{SHARD.format(0)} row group 0: {size:,} image bytes, more than the limit of {size - 1:,}" in says(halves)


def test_statistics_by_which_a_filter_leaves_rows_out(halves, says, tmp_path):
    """The greatest id of the first shard is not within its bounds, and `load_dataset` does not find it."""
    path, ids = halves.root / SHARD.format(0), pq.read_table(halves.root / SHARD.format(0))["id"].to_pylist()
    replace(path, with_bounds(path.read_bytes(), max(ids).encode(), min(ids).encode()))
    halves.render()
    asked = {"filters": [("id", "==", max(ids))], "streaming": True}
    assert not list(datasets.load_dataset(str(halves.root), "bench", split="test", **asked))
    sentence = "cannot be read as Parquet: its statistics of id are not those of its values"
    assert says(halves, "--check", "fast") == [f"{SHARD.format(0)}: {sentence}"]


@pytest.mark.parametrize("path", [SHARD.format(1), INDEX, PAIRS])
def test_a_count_of_empty_cells_by_which_a_filter_leaves_rows_out(folder, says, path):
    lie(folder, path, {nulls_of(0, 4): more})
    folder.render()
    (line,) = says(folder, "--check", "fast")
    assert line.startswith(f"{path}: ") and "its statistics of " in line


# The index


def test_rows_of_the_index_that_no_shard_has(halves, says):
    rewrite(halves.root, TEST, lambda table: table.slice(0, 6), index=False)
    halves.render()
    assert says(halves, "--check", "fast") == [
        f"{TEST}: its shards have 6 rows, not 8",
        f"{INDEX}: rows 6 to 7 are in none of the shards",
    ]
    rewrite(halves.root, TEST, lambda table: table.slice(0, 5), index=False)
    halves.render()
    assert f"{INDEX}: rows 5 to 7 are in none of the shards" in says(halves, "--check", "fast")


@pytest.mark.parametrize("change", ["fewer columns", "another type"])
def test_an_index_of_other_columns_is_named_alone(halves, says, change):
    """And no row of a shard is said to lack in it."""

    def changed(table):
        if change == "fewer columns":
            return table.drop_columns(["class_name"])
        place = table.schema.get_field_index("label")
        return table.set_column(place, "label", table["label"].cast(pa.int32()))

    change_files(halves.root, TEST, changed, files=["index"])
    lines = says(halves, "--check", "fast")
    assert len(lines) == 1 and lines[0].startswith(f"{INDEX}: wrong columns: expected ")


def test_an_index_that_is_damaged_is_named_alone(halves, says):
    """Its pages: a byte of a compressed one."""
    data = bytearray((halves.root / INDEX).read_bytes())
    data[40:60] = bytes(20)
    replace(halves.root / INDEX, bytes(data))
    halves.render()
    (line,) = says(halves, "--check", "fast")
    assert line.startswith(f"{INDEX}: cannot be read as Parquet: ")


def test_a_release_as_it_is_made_claims_what_it_has(halves):
    assert code_of(halves.root) == 0
