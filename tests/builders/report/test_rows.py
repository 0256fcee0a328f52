from collections import Counter

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.errors import BuildError
from builders.release.layout import Layout
from builders.release.manifest import file_entry, read_manifest
from builders.report.pictures import FIRST, read_split_rows

KEY = "imagenet/near_ood"


def test_rows_are_counted_by_class_and_the_first_are_found(imagenet_release, manifest):
    split = manifest.by_key()[KEY]
    index = pq.read_table(imagenet_release / split.index.path).to_pylist()
    read = read_split_rows(imagenet_release, KEY, split, {"imagenet"})
    assert {row.class_id: row.rows for row in read.classes} == Counter(row["class_id"] for row in index)
    assert {row.role for row in read.classes} == {"near_ood"}
    assert {role: rows.tolist() for role, rows in read.first.items()} == {"near_ood": list(range(FIRST))}


def test_rows_of_sources_that_are_not_shown_are_passed_over(imagenet_release, manifest):
    assert read_split_rows(imagenet_release, KEY, manifest.by_key()[KEY], {"food101"}).first == {}


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("role", 99, "roles that no release has"),
        ("class_id", None, "without a value"),
        ("source", "other", r"\(other\)"),
    ],
)
def test_an_index_that_contradicts_the_manifest_is_refused(small, column, value, reason):
    manifest = read_manifest(small)
    split = manifest.by_key()["bench/test"]
    path = small / split.index.path
    table = pq.read_table(path)
    place = table.schema.get_field_index(column)
    changed = pa.array([value] * table.num_rows, table.schema.field(column).type)
    pq.write_table(table.set_column(place, table.schema.field(column), changed), path)
    split = msgspec.structs.replace(split, index=file_entry(Layout(small), path))
    with pytest.raises(BuildError, match=reason) as refused:
        read_split_rows(small, "bench/test", split, set())
    assert "hf_scripts.verify" in str(refused.value)
