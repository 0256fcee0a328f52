import csv
import hashlib

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.release.digests import rows_digest
from builders.release.schema import ROLES, arrow_schema, is_demo_schema
from builders.release.tables import Exclusion, read_excluded, write_excluded

STRINGS = ["class_id", "class_name", "source", "source_id", "id", "content_sha256", "stored"]


@pytest.mark.parametrize("image", [True, False])
def test_schema_is_the_one_that_datasets_would_write(image):
    columns = {"image": datasets.Image()} if image else {}
    columns |= {"label": datasets.ClassLabel(names=["a", "b"]), "role": datasets.ClassLabel(names=list(ROLES))}
    columns |= {name: datasets.Value("string") for name in STRINGS}
    expected = datasets.Features(columns)
    schema = arrow_schema(["a", "b"], image=image)
    assert schema.remove_metadata() == expected.arrow_schema.remove_metadata()
    assert datasets.Features.from_arrow_schema(schema) == expected


def table(rows):
    return pa.table(
        dict(zip(["id", "label", "role", "content_sha256"], map(list, zip(*rows, strict=True)), strict=True))
    )


def test_digest_of_two_rows_written_out_by_hand():
    rows = [("s/a", 3, 0, "00ff"), ("s/雷", -1, 2, "11ee")]
    text = "s/a\t3\t0\t00ff\ns/雷\t-1\t2\t11ee\n"
    assert rows_digest(table(rows)) == hashlib.sha256(text.encode()).hexdigest()


def test_digest_sees_order_and_every_field():
    first = [("a", 0, 0, "x"), ("b", 1, 0, "y")]
    changed = [first[::-1], [("a", 1, 0, "x"), first[1]], [("a", 0, 1, "x"), first[1]], [("a", 0, 0, "z"), first[1]]]
    assert len({rows_digest(table(rows)) for rows in [first, *changed]}) == 5


def test_digest_does_not_depend_on_chunks():
    rows = table([(str(i), i, 0, "x") for i in range(100)])
    pieces = pa.concat_tables([rows.slice(0, 33), rows.slice(33)])
    assert rows_digest(rows) == rows_digest(pieces)


def exclusion(split, class_id="c", rule="i"):
    return Exclusion(split, "source", "val", class_id, "name, with comma", "", 3, rule, 'says "so"')


def test_exclusions_of_other_splits_stay_and_ones_own_are_replaced(tmp_path):
    path = tmp_path / "excluded.csv"
    write_excluded(path, [exclusion("x/a"), exclusion("x/b")], ["x/a", "x/b"])
    write_excluded(path, [exclusion("x/b", rule="ii")], ["x/b"])
    assert read_excluded(path) == [exclusion("x/a"), exclusion("x/b", rule="ii")]


@pytest.mark.parametrize("name", ["=1+1", "+x", "-x", "@x", "'=x", "a\rb"])
def test_a_class_named_like_a_formula_is_text_in_the_table_and_comes_back(name, tmp_path):
    path = tmp_path / "excluded.csv"
    write_excluded(path, [exclusion("x/a", class_id=name)], ["x/a"])
    with path.open(encoding="utf-8", newline="") as opened:
        (line,) = csv.DictReader(opened)
    assert line["class_id"] == (name if name == "a\rb" else f"'{name}")
    assert line["images"] == "3"
    assert read_excluded(path) == [exclusion("x/a", class_id=name)]


def test_files_of_demo_rows_are_marked_in_their_metadata(imagenet_release):
    """Every shard and index, since a manifest can be edited; the mark is no feature, and other files have none."""
    marked, plain = arrow_schema(["a"], demo=True), arrow_schema(["a"])
    assert is_demo_schema(marked)
    assert not is_demo_schema(plain) and not is_demo_schema(plain.remove_metadata())
    assert marked.metadata.keys() - plain.metadata.keys() == {b"unknown_detection.demo"}
    assert datasets.Features.from_arrow_schema(marked) == datasets.Features.from_arrow_schema(plain)
    files = sorted(imagenet_release.glob("data/*/*.parquet")) + sorted(imagenet_release.glob("index/*/*.parquet"))
    assert len(files) > 9 and all(is_demo_schema(pq.read_schema(path)) for path in files)
