"""What `verify` says of a shard's structure and of its rows."""

import functools
import hashlib
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders.release import images
from hf_scripts.checks import rows as check_rows
from tests.hf_scripts.tampering import (
    NEAR_SHARD,
    TEST_SHARD,
    built,
    check,
    entry_of,
    image_of,
    manifest_of,
    problems,
    rewrite,
    save_manifest,
    whole,
    with_cells,
    with_image,
)

__all__ = ["built", "check", "whole"]


# Schema and structure


def test_other_label_names_in_one_shard(whole, check):
    def change(table):
        described = json.loads(table.schema.metadata[b"huggingface"])
        names = described["info"]["features"]["label"]["names"]
        names[4], names[5] = names[5], names[4]
        return table.replace_schema_metadata({"huggingface": json.dumps(described)})

    names = manifest_of(whole)["configs"]["imagenet"]["label_names"]
    rewrite(whole, "imagenet/near_ood", change)
    code, lines = check()
    assert code == 1
    where = f"{NEAR_SHARD}: feature label in the schema's metadata"
    assert problems(lines) == [f"{where}: expected name 4 to be {names[4]}, found {names[5]}"]


def test_no_features_in_a_shard(whole, check):
    rewrite(whole, "imagenet/test", lambda t: t.replace_schema_metadata(None))
    code, lines = check()
    assert code == 1
    assert problems(lines) == [f"{TEST_SHARD}: expected features in the schema's metadata, found none that parse"]


def test_a_column_of_another_type(whole, check):
    def change(table):
        position = table.schema.get_field_index("label")
        return table.set_column(position, "label", table["label"].cast(pa.int32()))

    rewrite(whole, "imagenet/test", change, index=False)
    code, lines = check()
    assert code == 1
    assert len(problems(lines)) == 1
    assert problems(lines)[0].startswith(f"{TEST_SHARD}: expected the columns image ")
    assert "label int32" in problems(lines)[0]


def test_no_page_index(whole, check):
    rewrite(whole, "imagenet/test", lambda t: t, write_page_index=False)
    code, lines = check()
    assert code == 1
    assert problems(lines)[0] == f"{TEST_SHARD} row group 0: expected a page index of image.bytes, found none"
    # Eleven columns in each of two row groups, of which five are named.
    assert problems(lines)[5] == "and 17 more like it (page index)"


def test_a_row_group_that_is_too_large(whole, check, monkeypatch):
    def size(path):
        return pq.read_metadata(path).row_group(0).column(0).total_uncompressed_size

    largest = max(sorted(whole.glob("data/*/*.parquet")), key=size)
    monkeypatch.setattr(check_rows, "ROW_GROUP_BYTES", size(largest) - 1)
    code, lines = check()
    assert code == 1
    assert problems(lines) == [
        f"{largest.relative_to(whole).as_posix()} row group 0: expected at most {size(largest) - 1:,} image bytes, "
        f"found {size(largest):,}"
    ]


# Rows


def test_a_digest_of_another_image(whole, check):
    other = hashlib.sha256(b"another").hexdigest()
    right = hashlib.sha256(image_of(whole, TEST_SHARD, 12)).hexdigest()
    rewrite(whole, "imagenet/test", lambda t: with_cells(t, 12, content_sha256=other))
    code, lines = check()
    assert code == 1
    where = f"{TEST_SHARD} row 12"
    assert problems(lines) == [f"{where}: expected an image with content_sha256 {other}, found {right}"]


def test_a_truncated_image(whole, check):
    half = image_of(whole, TEST_SHARD, 5)[:500]
    rewrite(whole, "imagenet/test", lambda t: with_image(t, 5, half))
    assert check()[0] == 0  # the bytes are what the row says; only decoding can tell
    code, lines = check(decode=True)
    assert code == 1
    where = f"{TEST_SHARD} row 5"
    assert len(problems(lines)) == 1
    assert problems(lines)[0].startswith(f"{where}: expected an image that datasets decodes, found one it cannot: ")


def test_metadata_that_datasets_cannot_decode(whole, check, demo):
    # A builder would take this file's metadata out, because `datasets` fails on it.
    source = (demo["imagenet"] / "val/n01698640/ILSVRC2012_val_00000005.JPEG").read_bytes()
    assert images.check(source) is not None
    rewrite(whole, "imagenet/test", lambda t: with_image(t, 5, source))
    code, lines = check(decode=True)
    assert code == 1
    where = f"{TEST_SHARD} row 5"
    assert len(problems(lines)) == 1
    assert problems(lines)[0].startswith(f"{where}: expected an image that datasets decodes, found one it cannot: ")


def test_made_images_are_named_by_their_pixels(whole, check):
    made = Image.new("RGB", (8, 8), "red")
    encoded = io.BytesIO()
    made.save(encoded, format="PNG")
    cells = {"stored": "pixels", "content_sha256": images.pixel_sha256(made)}
    row = pq.read_table(whole / TEST_SHARD, columns=["id"])["id"][2].as_py()
    change = functools.partial(with_image, row=2, data=encoded.getvalue(), id=f"{row}#red", **cells)
    rewrite(whole, "imagenet/test", change)
    assert check(decode=True)[0] == 0
    rewrite(whole, "imagenet/test", lambda t: with_cells(t, 2, content_sha256="0" * 64))
    code, lines = check(decode=True)
    assert code == 1
    found = cells["content_sha256"]
    assert problems(lines) == [f"{TEST_SHARD} row 2: expected an image with content_sha256 {'0' * 64}, found {found}"]


@pytest.mark.parametrize("label", [200, -1])
def test_a_label_out_of_range(whole, check, label):
    rewrite(whole, "imagenet/test", lambda t: with_cells(t, 3, label=label))
    code, lines = check()
    assert code == 1
    assert problems(lines) == [f"{TEST_SHARD} row 3: expected a label from 0 to 199, found {label}"]


def test_the_label_of_another_class(whole, check):
    names = manifest_of(whole)["configs"]["imagenet"]["label_names"]
    class_id = pq.read_table(whole / TEST_SHARD, columns=["class_id"])["class_id"][3].as_py()
    wrong = (names.index(class_id) + 1) % len(names)
    rewrite(whole, "imagenet/test", lambda t: with_cells(t, 3, label=wrong))
    code, lines = check()
    assert code == 1
    assert problems(lines) == [f"{TEST_SHARD} row 3: expected the label of {class_id}, found that of {names[wrong]}"]


def test_labels_of_unknowns_are_counted_when_there_are_many(whole, check):
    def change(table):
        position = table.schema.get_field_index("label")
        return table.set_column(position, table.schema.field("label"), pa.array([0] * table.num_rows))

    rewrite(whole, "imagenet/near_ood", change)
    code, lines = check()
    assert code == 1
    sentence = f"{NEAR_SHARD} row 0: expected label -1 since imagenet/near_ood is near_ood, found 0"
    assert problems(lines)[0] == sentence
    assert problems(lines)[5:] == ["and 195 more like it (label of an unknown)"]
    assert lines[-1].endswith("is not whole: 200 problems")


def test_another_role(whole, check):
    rewrite(whole, "imagenet/near_ood", lambda t: with_cells(t, 1, role=2))
    code, lines = check()
    assert code == 1
    assert problems(lines) == [
        f"{NEAR_SHARD} row 1: expected role 1 (near_ood) as imagenet/near_ood is declared, found 2"
    ]


def test_an_id_that_comes_twice(whole, check):
    rows = pq.read_table(whole / TEST_SHARD).to_pylist()
    rewrite(whole, "imagenet/test", lambda t: with_cells(t, 8, source_id=rows[4]["source_id"], id=rows[4]["id"]))
    code, lines = check()
    assert code == 1
    assert problems(lines) == [
        f"index/imagenet/test.parquet: expected every id once, found {rows[4]['id']} in rows 4, 8"
    ]


def test_an_id_that_is_not_its_source_id(whole, check):
    right = pq.read_table(whole / TEST_SHARD, columns=["id"])["id"][8].as_py()
    rewrite(whole, "imagenet/test", lambda t: with_cells(t, 8, id=f"{right}#2"))
    code, lines = check()
    assert code == 1
    assert problems(lines) == [f"{TEST_SHARD} row 8: expected id {right}, found {right}#2"]


def test_an_id_in_two_splits(whole, check):
    row = pq.read_table(whole / NEAR_SHARD).to_pylist()[0]
    rewrite(whole, "imagenet/test", lambda t: with_cells(t, 8, source_id=row["source_id"], id=row["id"]))
    code, lines = check()
    assert code == 1
    found = f"found 1, for instance {row['id']}"
    assert problems(lines) == [f"imagenet/test: expected no id that is also in imagenet/near_ood, {found}"]


def test_a_path_of_the_build_machine(whole, check):
    image = {"bytes": image_of(whole, TEST_SHARD, 6), "path": "/srv/somebody/a.JPEG"}
    rewrite(whole, "imagenet/test", lambda t: with_cells(t, 6, image=image, class_name="/srv/somebody"))
    code, lines = check()
    assert code == 1
    assert problems(lines) == [
        f"{TEST_SHARD} row 6: expected no absolute path in class_name, found /srv/somebody",
        f"{TEST_SHARD} row 6: expected a file name in image.path, found /srv/somebody/a.JPEG",
    ]


@pytest.mark.parametrize("cells", [{"class_name": None}, {"image": {"bytes": None, "path": "a.JPEG"}}])
def test_a_cell_without_a_value(whole, check, cells):
    rewrite(whole, "imagenet/test", lambda t: with_cells(t, 6, **cells))
    code, lines = check()
    assert code == 1
    name = "a value for class_name" if "class_name" in cells else "image bytes"
    assert problems(lines) == [
        f"{TEST_SHARD} row 6: expected {name}, found {'None' if 'class_name' in cells else 'none'}"
    ]


def test_an_index_that_differs_from_its_shard(whole, check):
    rewrite(whole, "imagenet/test", lambda t: with_cells(t, 6, class_name="another"), index=False)
    name = pq.read_table(whole / "index/imagenet/test.parquet")["class_name"][6]
    code, lines = check()
    assert code == 1
    assert problems(lines) == [
        f"{TEST_SHARD} row 6: expected class_name {name} as in index/imagenet/test.parquet, found another"
    ]


def test_the_second_shard_is_compared_with_its_own_part_of_the_index(whole, check):
    manifest = manifest_of(whole)
    entry = manifest["configs"]["imagenet"]["splits"]["test"]
    table = pq.read_table(whole / TEST_SHARD)
    halves = [table.slice(0, 150), with_cells(table.slice(150), 20, class_name="another")]
    (whole / TEST_SHARD).unlink()
    entry["data"] = []
    for number, half in enumerate(halves):
        path = f"data/imagenet/test-{number:05d}-of-00002.parquet"
        pq.write_table(half, whole / path, write_page_index=True)
        entry["data"].append(entry_of(whole, path))
    save_manifest(whole, manifest)
    code, lines = check()
    assert code == 1
    where = "data/imagenet/test-00001-of-00002.parquet row 20"
    assert problems(lines) == [
        f"{where}: expected class_name {table['class_name'][170]} as in index/imagenet/test.parquet, found another"
    ]
